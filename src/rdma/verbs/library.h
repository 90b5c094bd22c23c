// SPDX-License-Identifier: Apache-2.0
// libibverbs.so.1, found at run time: a table of its functions.
#pragma once

#include "rdma/verbs/verbs_abi.h"

namespace sluice::verbs {

// Those marked optional may be null.
struct Api {
  Device** (*get_device_list)(int*) = nullptr;
  void (*free_device_list)(Device**) = nullptr;
  const char* (*get_device_name)(Device*) = nullptr;
  Context* (*open_device)(Device*) = nullptr;
  int (*close_device)(Context*) = nullptr;
  int (*query_port)(Context*, std::uint8_t, PortAttributes*) = nullptr;
  int (*query_gid)(Context*, std::uint8_t, int, Gid*) = nullptr;
  // optional (rdma-core 32)
  std::ptrdiff_t (*query_gid_table)(Context*, GidEntry*, std::size_t, std::uint32_t, std::size_t) = nullptr;
  Domain* (*alloc_pd)(Context*) = nullptr;
  int (*dealloc_pd)(Domain*) = nullptr;
  MemoryRegion* (*reg_mr)(Domain*, void*, std::size_t, int) = nullptr;
  // optional (rdma-core 34)
  MemoryRegion* (*reg_dmabuf_mr)(Domain*, std::uint64_t, std::size_t, std::uint64_t, int, int) = nullptr;
  int (*dereg_mr)(MemoryRegion*) = nullptr;
  CompletionQueue* (*create_cq)(Context*, int, void*, void*, int) = nullptr;
  int (*destroy_cq)(CompletionQueue*) = nullptr;
  QueuePair* (*create_qp)(Domain*, QueuePairWanted*) = nullptr;
  int (*modify_qp)(QueuePair*, QueuePairAttributes*, int) = nullptr;
  int (*destroy_qp)(QueuePair*) = nullptr;
};

// Loaded once; null where it is not there or lacks a function: the thread's error tells. The adapters' lock is held.
const Api* api() noexcept;

// Keeps a sentence for sluice_rdma_error() and gives the code back.
[[gnu::format(printf, 2, 3)]] int refuse(int code, const char* format, ...) noexcept;

}  // namespace sluice::verbs
