// SPDX-License-Identifier: Apache-2.0
// What libcufile.so.0 asks of libcufile_rdma.so.1 beyond <sluice_rdma.h>: ports that can be named to a server, and
// memory registered with an adapter. Between these two libraries of one build only: interface_number says which.
#pragma once

#include <cstdint>

#include "sluice_rdma.h"

namespace sluice::verbs {

inline constexpr int interface_number = 1;
inline constexpr unsigned most_adapters = 16;
inline constexpr unsigned most_slots = 32;

// A port that has had a link. All but `state` stays what it is.
struct Slot {
  sluice_rdma_port_t port;
  unsigned adapter;  // below most_adapters: ports of one adapter share registrations
  // Links that are connected, in the upper 32 bits; the queue pair that texts name, in the lower.
  std::uint64_t state;
};

// Only grows, but for fork, which empties it. Read without a lock.
struct Board {
  std::uint32_t slots;       // in use; read with acquire
  std::uint32_t changes;     // grows with each link that comes or goes
  std::uint32_t generation;  // grows in a child of fork: what was registered before is its parent's
  Slot slot[most_slots];
};

// Memory that an adapter knows.
struct Region;

}  // namespace sluice::verbs

#pragma GCC visibility push(default)
extern "C" {

// The library's own number: what differs from one's own is another build's.
int sluice_rdma_interface();

const sluice::verbs::Board* sluice_rdma_links_board();

// `dma_buf`: a descriptor whose byte `offset` is the first, or -1 for memory by its address; RDMA finds the memory at
// `address` either way. `access`: rights as libibverbs numbers them. The length is SLUICE_RDMA_MOST_BYTES at most.
int sluice_rdma_region_open(unsigned adapter, std::uint64_t address, std::uint64_t length, int dma_buf,
                            std::uint64_t offset, unsigned access, sluice::verbs::Region** region, std::uint32_t* rkey);
// From here on the adapter refuses the key. In a child of fork, of its parent's region: forgets it.
void sluice_rdma_region_close(sluice::verbs::Region* region);
}
#pragma GCC visibility pop
