// SPDX-License-Identifier: Apache-2.0
// What one session of the driver wants of all its requests.
#pragma once

#include <cstdint>
#include <string_view>

#include "config/config.h"
#include "facts/machine.h"
#include "gpu/coherent.h"
#include "io/disk_queue.h"
#include "io/uring.h"
#include "rdma/choice.h"
#include "rdma/memory.h"
#include "route/route.h"
#include "staging/neighbour.h"

namespace sluice::paths {

enum class CopyMode : std::uint8_t {
  usual,
  kernel,       // sluice.copy: the gather kernel carries large reads wherever it can
  copy_engine,  // sluice.copy: the copy engine carries everything
  plain,        // SLUICE_MODE=plain: pageable bounce buffers and the driver's plainest copies
};

// Reads of up to 64 KiB, of what the page cache may have, into device memory: the values of sluice.small_reads.
enum class SmallReads : std::uint8_t {
  automatic,    // a copy; where several threads are at it, by kernels that stay for the next one
  copied,       // a copy each
  resident,     // by kernels that stay, also for a lone thread
  bar_mapping,  // by the CPU's stores, into registered memory that has a mapping; the rest as automatic
};

// Of handles that come with operations of their own.
struct RdmaOptions {
  bool writes = true;  // properties.gds_rdma_write_support
  rdma::Balance balance = rdma::Balance::round_robin;
  rdma::PeerType peer_type = rdma::PeerType::automatic;
  int nearest = 1;                       // properties.rdma_topN_ranks
  unsigned access = 7;                   // of properties.rdma_access_mask: write here, write and read from afar
  std::uint32_t operation_limit_ms = 0;  // sluice.operation_timeout_ms; 0: as long as it takes
};

// Of sluice.copy.
inline CopyMode copy_mode_named(std::string_view name) noexcept {
  if (name == "kernel") return CopyMode::kernel;
  return name == "engine" ? CopyMode::copy_engine : CopyMode::usual;
}

struct Options {
  route::Rules rules;
  facts::MachineFacts machine;
  RdmaOptions rdma{};
  const config::Config* config = nullptr;  // outlives the session; none in tests of parts
  CopyMode copy_mode = CopyMode::usual;
  bool streams_by_engine = false;  // the engine was asked for; where a profile found it quicker, it was in calls
  SmallReads small_reads = SmallReads::automatic;
  gpu::Coherent coherent = gpu::Coherent::never;  // never unless the copy mode is usual
  io::DiskWay disk_way = io::DiskWay::automatic;
  staging::LendingRules lending{};                                // sluice.links
  bool verify = false;                                            // SLUICE_VERIFY=1
  io::CompletionMode completion = io::CompletionMode::interrupt;  // of direct transfers of at most this size:
  std::uint64_t polled_up_to = 0;                                 // larger ones end by interrupt
};

}  // namespace sluice::paths
