// SPDX-License-Identifier: Apache-2.0
// Memory made known to one adapter: host memory by its address; device memory as a dma-buf, else by its address, which
// a module like nvidia_peermem has to understand.
#pragma once

#include <cstdint>
#include <string>

#include "facts/buffer.h"
#include "gpu/cuda_abi.h"
#include "rdma/client.h"

namespace sluice::rdma {

// How an adapter came to know it.
enum class Way : std::uint8_t { none, host, dma_buf, peer_memory };
// "host memory", "dma-buf", "peer memory".
const char* words_of(Way way) noexcept;

// As properties.rdma_peer_type asks.
enum class PeerType : std::uint8_t { automatic, dma_buf, peer_memory };

struct Registered {
  Way way = Way::none;
  verbs::Region* region = nullptr;
  std::uint32_t rkey = 0;
  std::uint64_t there = 0;  // where RDMA finds the first byte
  std::string why_not;      // with no region: what each way answered
};
// Control plane; of a large range it takes a while.
Registered register_with(const Client& client, unsigned adapter, const facts::BufferFacts& memory,
                         std::uint64_t address, std::uint64_t length, unsigned access, PeerType wanted);

// How the device comes to see what an adapter has written to its memory. Asks the driver.
enum class Visibility : std::uint8_t {
  in_order,  // as the device itself: nothing is to be done; also where the driver says nothing of adapters
  flushed,   // after a flush, before a program is told of it
  unknown,   // the driver has no flush that the host can ask for: no adapter gets to know this memory
};
Visibility visibility_of(const facts::BufferFacts& memory) noexcept;
// 0, or what the driver answers.
cuda::Result flush(const facts::BufferFacts& memory) noexcept;

}  // namespace sluice::rdma
