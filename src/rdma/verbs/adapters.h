// SPDX-License-Identifier: Apache-2.0
// The adapters of this machine, each opened once a process, with one protection domain; and their ports.
#pragma once

#include <pthread.h>

#include <cstddef>
#include <cstdint>

#include "rdma/verbs/interface.h"
#include "rdma/verbs/library.h"

namespace sluice::verbs {

struct Adapter {
  Context* context;
  Domain* domain;  // null until something is made in it
  char name[64];
};

// One lock for all of the control plane.
class Locked {
 public:
  Locked() noexcept;
  ~Locked();
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;
};

// With the lock held:

// 0, or an errno whose sentence is kept. Opens what has come since the last time.
int open_adapters() noexcept;
Adapter* adapter(unsigned number) noexcept;  // null above the last
// Its protection domain, made now where there was none; null: the sentence is kept.
Domain* domain_of(Adapter& adapter) noexcept;

// A port that is up, once for each IPv4 address that it has.
struct Port {
  sluice_rdma_port_t told;
  unsigned adapter;
};
using PortVisitor = bool (*)(const Port& port, void* context);  // true: that is enough
void visit_ports(PortVisitor visit, void* context) noexcept;

// How often this process has become another one by fork: what was made before belongs to the parent.
std::uint32_t generation() noexcept;

// In a child of fork: of the parent's links nothing is kept.
void forget_links() noexcept;

// The board.
// The slot of a port; null where it has none.
Slot* slot_of(const Port& port) noexcept;
// The same, made where there was none; null: there is no room.
Slot* slot_for(const Port& port) noexcept;
void announce(Slot& slot, std::uint32_t links, std::uint32_t qp) noexcept;

}  // namespace sluice::verbs
