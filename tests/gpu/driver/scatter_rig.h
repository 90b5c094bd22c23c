// SPDX-License-Identifier: Apache-2.0
// The scatter kernel as the library ships it, the memory that it works on, and what a host would have done in its
// place.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gpu/staging.h"
#include "loaded_kernel.h"

namespace sluice::gpu_suite {

// One chunk: where it goes in the target, and how long it is.
struct ScatterChunk {
  std::uint64_t at = 0;
  std::uint32_t length = 0;
};

// One launch: how its chunks lie in the staging buffer, where they go, and how many threads carry them.
struct ScatterCase {
  std::uint32_t stride = 4096 + 64;  // a multiple of 16; a chunk is at most 16 bytes shorter
  std::uint32_t places = 4;
  std::vector<ScatterChunk> chunks;  // none in another's way
  unsigned blocks = 1;
  unsigned threads = 64;

  std::uint32_t count() const { return static_cast<std::uint32_t>(chunks.size()); }
};

std::string described(const ScatterCase& given);
// The same seed gives the same case: targets in any order, at any distance from a boundary, of any length.
ScatterCase seeded_scatter(unsigned seed);

class ScatterKernel : public LoadedKernel {
 public:
  ScatterKernel() : LoadedKernel(ptx::scatter, "sluice_scatter") {}
};

// A staging buffer in pinned memory, counters in device memory, and a target that is looked at as a whole. Launches one
// case after the other on them; numbers and serials go on, as the library's do.
class ScatterRig {
 public:
  ScatterRig();

  // Everything as it ought to be: target, places, tickets, drained, words, counters. `order`: chunks become ready in
  // the order of their numbers, or backwards as far as the places allow.
  enum class Order { forward, backward };
  void carry(const ScatterCase& given, Order order = Order::forward);
  // The launch is told to leave: before it begins, or when it has begun and waits for its first ticket.
  enum class Leave { before_it_begins, after_it_began };
  void revoke(const ScatterCase& given, Leave when);
  // The same while the first ticket is there: the launch leaves without having carried anything, or has read the ticket
  // and carries everything.
  void revoke_with_a_ticket(const ScatterCase& given);

  static constexpr std::size_t target_bytes = std::size_t{1} << 20U;

 private:
  // The first bytes of the pinned memory, as the library lays its staging buffer out: words, then places.
  struct Words {
    std::uint32_t begun, commit, done, left;
    gpu::Ticket tickets[gpu::ticket_slots];
    std::uint32_t completed[gpu::ticket_slots];
    std::uint64_t targets[256];
  };
  static constexpr std::size_t places_at = 20480;
  static constexpr std::size_t staging_bytes = std::size_t{1} << 20U;

  Words& words() const { return *reinterpret_cast<Words*>(staging_.data()); }
  void begin(const ScatterCase& given);
  cuda::Result launch(const ScatterCase& given);
  void publish(const ScatterCase& given, std::uint32_t chunk);
  void publish_all(const ScatterCase& given, Order order);
  bool wait_for_place(const ScatterCase& given, std::uint32_t chunk) const;
  void expect_words(std::uint32_t commit) const;
  void expect_counters_at_rest() const;

  ScatterKernel kernel_;
  PinnedBuffer staging_;
  DeviceBuffer target_;
  DeviceBuffer counters_;
  Stream stream_;
  std::uint32_t launch_id_ = 0;
  std::uint32_t done_launch_id_ = 0;  // of the last launch that carried
  std::uint32_t next_number_ = 1;
  std::uint32_t first_number_ = 0;
  std::vector<std::uint32_t> drained_;  // what it ought to be
  std::vector<std::uint8_t> expected_;  // of the target
};

}  // namespace sluice::gpu_suite
