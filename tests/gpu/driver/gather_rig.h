// SPDX-License-Identifier: Apache-2.0
// The gather kernel as the library ships it, the memory that it works on, and what a host would have done in its place.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gpu/staging.h"
#include "loaded_kernel.h"

namespace sluice::gpu_suite {

// One launch: how its bytes are cut, where they go, and how many threads carry them.
struct GatherCase {
  std::uint32_t chunk_bytes = 4096;  // a multiple of 16, as is the stride
  std::uint32_t stride = 4096;
  std::uint32_t skip = 0;
  std::uint32_t places = 4;
  std::vector<std::uint32_t> lengths;  // of each chunk; the first ends at the latest where its place does
  std::uint32_t distance = 0;          // of places and target from a boundary of 16 bytes
  unsigned blocks = 1;
  unsigned threads = 64;

  std::uint32_t chunks() const { return static_cast<std::uint32_t>(lengths.size()); }
  std::uint64_t target_bytes() const { return std::uint64_t{chunk_bytes} * chunks(); }
};

std::string described(const GatherCase& given);
// The same seed gives the same case. Some go round the staging buffer, some end early, few have round numbers.
GatherCase seeded_case(unsigned seed);

// The relay kernel does the same, but goes round in its target, and tells of a chunk when it is in place.
class GatherKernel : public LoadedKernel {
 public:
  enum class Kind { gathers, relays };
  explicit GatherKernel(Kind kind)
      : LoadedKernel(kind == Kind::gathers ? ptx::gather : ptx::relay,
                     kind == Kind::gathers ? "sluice_gather" : "sluice_relay") {}
};

// A staging buffer in pinned memory, counters in device memory, and a target with guards around it. Launches one case
// after the other on them; numbers and serials go on, as the library's do.
class GatherRig {
 public:
  explicit GatherRig(GatherKernel::Kind kind = GatherKernel::Kind::gathers);

  // Everything as it ought to be: target, guards, places, tickets, drained, words, counters.
  void carry(const GatherCase& given);
  // The launch is told to leave: before it begins, or when it has begun and waits for its first ticket.
  enum class CallOff { before_it_begins, after_it_began };
  void revoke(const GatherCase& given, CallOff when);
  // The same while the first ticket is there: the launch leaves without having carried anything, or has read the ticket
  // and carries everything. `chunks` of 64 bytes, so that many can be tried.
  void revoke_with_a_ticket(std::uint32_t chunks);
  // The same as carry(), but the bytes go to memory of the caller's, without guards.
  void carry_to(const GatherCase& given, Ptr memory, std::uint64_t size);

 private:
  // The first bytes of the pinned memory, as the library lays its staging buffer out: words, then places.
  struct Words {
    std::uint32_t begun, commit, done, left;
    gpu::Ticket tickets[gpu::ticket_slots];
    std::uint32_t completed[gpu::ticket_slots];
  };
  static constexpr std::uint64_t guard = 256;

  Words& words() const { return *reinterpret_cast<Words*>(staging_.data()); }
  std::uint8_t* places(const GatherCase& given) const { return staging_.data() + places_at + given.distance; }
  // Of a chunk that goes where an earlier one was, that one has been told of.
  std::uint32_t target_slots(const GatherCase& given) const { return relays_ ? given.places : given.chunks(); }
  void begin(const GatherCase& given);
  cuda::Result launch(const GatherCase& given, Ptr target);
  void publish(const GatherCase& given);
  bool wait_for_place(const GatherCase& given, std::uint32_t chunk) const;
  std::vector<std::uint64_t> tickets_now() const;
  void expect_words(std::uint32_t commit, std::uint32_t done) const;
  void expect_staging_untouched(const GatherCase& given) const;
  void expect_drained(const GatherCase& given) const;
  void expect_counters_at_rest() const;

  static constexpr std::size_t places_at = 20480;
  static constexpr std::size_t staging_bytes = std::size_t{2} << 20U;
  static constexpr std::size_t target_bytes = std::size_t{4} << 20U;

  const bool relays_;
  GatherKernel kernel_;
  PinnedBuffer staging_;
  DeviceBuffer target_;
  DeviceBuffer counters_;
  Stream stream_;
  std::uint32_t launch_id_ = 0;
  std::uint32_t done_launch_id_ = 0;  // of the last launch that carried
  std::uint32_t next_number_ = 1;
  std::uint32_t first_number_ = 0;
  std::vector<std::uint8_t> staging_then_;  // what the host left in the places
  std::vector<std::uint64_t> tickets_;      // what the host left in the tickets
  std::vector<std::uint32_t> drained_;      // what it ought to be
  std::vector<std::uint8_t> expected_;      // of the target
};

}  // namespace sluice::gpu_suite
