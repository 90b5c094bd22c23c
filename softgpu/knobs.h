// SPDX-License-Identifier: Apache-2.0
// What the environment says about the soft GPU. Read once, by cuInit; docs/reference/softgpu.md describes each.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace sluice::softgpu {

// Let the calls number `first` and, when `always`, all later ones of an entry point fail.
struct FailureRule {
  std::string function;
  std::uint64_t first = 1;
  bool always = false;
  int code = 999;
};

// Where a device's memory comes from instead of memory of our own.
struct Backing {
  std::string path;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;  // 0: as much as there is, and at most what SLUICE_SOFTGPU_MEMORY_MIB says
};

// Which devices reach each other's memory.
struct PeerLinks {
  bool everywhere = true;
  std::vector<std::pair<int, int>> pairs;  // where not everywhere; either order means both

  bool join(int one, int other) const noexcept;
};

struct Knobs {
  int devices = 1;                  // SLUICE_SOFTGPU_DEVICES
  std::uint64_t memory_mib = 4096;  // SLUICE_SOFTGPU_MEMORY_MIB, a device
  unsigned hardware_queues = 0;     // SLUICE_SOFTGPU_QUEUES; 0: one for each stream
  unsigned queues_for_all = 0;  // SLUICE_SOFTGPU_QUEUES_FOR_ALL; 1: streams of every priority share these, copies not
  PeerLinks peers;              // SLUICE_SOFTGPU_PEER
  double link_gib_per_second = 0;  // SLUICE_SOFTGPU_LINK_GIBPS; 0: as fast as memcpy
  double link_latency_us = 0;      // SLUICE_SOFTGPU_LINK_US
  double load_us = 0;              // SLUICE_SOFTGPU_LOAD_US; of each module
  unsigned resident_kernels = 0;   // SLUICE_SOFTGPU_SMS, a device; 0: as many as are launched
  unsigned late_copies = 0;        // SLUICE_SOFTGPU_LATE_COPIES; 1: small "synchronous" ones end after their call
  unsigned keeps_calls = 0;        // SLUICE_SOFTGPU_REST; 1: while memory is freed, too
  unsigned rdma = 0;           // SLUICE_SOFTGPU_RDMA; 1: says that network cards reach its memory; 2: and has no flush
  unsigned rdma_ordering = 0;  // SLUICE_SOFTGPU_RDMA_ORDERING; 100 or 200: sees their writes in order
  unsigned dma_buf = 0;        // SLUICE_SOFTGPU_DMA_BUF; 1: says so; 2: exports descriptors, too
  unsigned coherent = 0;       // SLUICE_SOFTGPU_COHERENT; 1: the host reaches its memory; 2, 3: it says so only
  std::vector<Backing> backings;      // SLUICE_SOFTGPU_BACKING, one a device in order; the rest have none
  std::vector<FailureRule> failures;  // SLUICE_SOFTGPU_FAIL
};

Knobs read_knobs();

}  // namespace sluice::softgpu
