// SPDX-License-Identifier: Apache-2.0
// When a read hands on what it has to itself: once, before its end, with little left that no thread has claimed; who is
// told, and which reads do.
#include "transfer/pipeline.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "transfer/hand_on.h"
#include "transfer/sink/link_kernels.h"
#include "transfer/sink/own_copy_engine.h"
#include "transfer/sink/peer_gpu.h"
#include "workers/reserve.h"

namespace sluice::transfer {
namespace {

constexpr std::uint32_t chunk_bytes = 4096;
constexpr std::uint32_t chunks = 40;

// Brings all of each chunk, and no bytes.
struct Nothing {
  static constexpr bool may_wait = false;
  static constexpr bool is_asynchronous = false;
  static std::int64_t read(const Chunk& chunk, std::uint32_t /*number*/, std::byte* /*place*/) noexcept {
    return chunk.length;
  }
  static constexpr bool leaves(std::int64_t /*outcome*/) noexcept { return false; }
};

// Takes each chunk at once.
class Nowhere {
 public:
  void begin(const Board<OneRange>& board, const ReadPlan& /*plan*/) noexcept { board_ = &board; }
  void launch(const Board<OneRange>& /*board*/) noexcept { jobs_ = workers::active_jobs(); }
  static bool by_kernel() noexcept { return false; }
  static cuda::Result failure() noexcept { return cuda::success; }
  std::byte* place(std::uint32_t /*slot*/) noexcept { return nullptr; }
  static std::uint32_t slot_for(const staging::SlotCursor& cursor, std::uint32_t chunk) noexcept {
    return cursor.slot_for(chunk);
  }
  static bool is_lost() noexcept { return false; }
  static bool has_left(const Board<OneRange>& /*board*/, std::uint32_t /*chunk*/) noexcept { return true; }
  static bool has_room(const Board<OneRange>& /*board*/, const staging::SlotCursor& /*cursor*/,
                       std::uint32_t /*chunk*/) noexcept {
    return true;
  }
  void publish(const Board<OneRange>& /*board*/, std::uint32_t /*chunk*/, const ChunkState& /*state*/) noexcept {}
  static bool is_idle() noexcept { return true; }
  static base::SpinBackoff backoff() noexcept { return {}; }
  static void learn(std::chrono::nanoseconds /*took*/) noexcept {}
  static void has_read_one(Board<OneRange>& /*board*/) noexcept {}
  static void look_after(Board<OneRange>& /*board*/, base::SpinBackoff& /*backoff*/) noexcept {}
  void hand_on() noexcept {
    ++handed_on;
    unclaimed = board_->unclaimed();
    counts_no_more = workers::active_jobs() == jobs_ - 1;
    HandOn::tell();
  }
  void finish(const Board<OneRange>& /*board*/) noexcept { was_in_time = handed_on == 1; }

  int handed_on = 0;
  std::uint32_t unclaimed = 0;
  bool counts_no_more = false;
  bool was_in_time = false;

 private:
  const Board<OneRange>* board_ = nullptr;
  unsigned jobs_ = 0;
};

class Told final : public HandOn {
 public:
  void links_are_free() noexcept override { ++times; }
  int times = 0;
};

struct HandingRead {
  explicit HandingRead(unsigned reserve) {
    ReadPlan plan{};
    plan.bytes = std::uint64_t{chunks} * chunk_bytes;
    plan.chunk_bytes = plan.stride = chunk_bytes;
    plan.chunks = chunks;
    plan.slots.count = 8;
    plan.reserve = reserve;
    OneRange range({.fd = -1, .at = base::FileOffset{0}, .length = plan.bytes, .block = 1, .file_size = plan.bytes},
                   plan, 0x7000'0000'0000);
    Pipeline<OneRange, Nothing, Nowhere> pipeline(range, Nothing());
    pipeline.run(plan, 1U);
    bytes = range.answer().count();
    sink = pipeline.sink();
  }
  std::uint64_t bytes = 0;
  Nowhere sink;
};

TEST(HandOn, ComesOnceAndBeforeTheEnd) {
  const HandingRead run(0);
  EXPECT_EQ(run.bytes, std::uint64_t{chunks} * chunk_bytes);
  EXPECT_EQ(run.sink.handed_on, 1);
  EXPECT_TRUE(run.sink.was_in_time) << "before the sink was to finish";
  EXPECT_EQ(run.sink.unclaimed, chunks) << "a lone reader needs its links for the last chunk, too";
}

TEST(HandOn, ComesWhenEverySecondReaderHasAChunkLeft) {
  const HandingRead run(9);
  EXPECT_EQ(run.bytes, std::uint64_t{chunks} * chunk_bytes);
  EXPECT_EQ(run.sink.handed_on, 1);
  EXPECT_GE(run.sink.unclaimed, chunks - 5);
  if (workers::reserve_count() == 0) {
    EXPECT_EQ(run.sink.unclaimed, chunks - 5);
  }
}

TEST(HandOn, MakesRoomForTheNextJobWhereThereMayBeOne) {
  EXPECT_FALSE(HandingRead(0).sink.counts_no_more);
  const Told waits;
  EXPECT_TRUE(HandingRead(0).sink.counts_no_more);
}

// A neighbour's staging memory is one read's until that has ended.
template <typename Sink>
concept HandsOn = requires(Sink& sink) {
  sink.hand_on();
};
static_assert(HandsOn<LinkKernelsSink<OwnCopyEngine>>);
static_assert(!HandsOn<PeerGpuSink>);

TEST(HandOn, TellsTheLastOneWhoWantedToKnow) {
  EXPECT_FALSE(HandOn::is_awaited());
  Told outer;
  {
    Told inner;
    const HandingRead run(0);
    EXPECT_EQ(inner.times, 1);
    EXPECT_EQ(outer.times, 0);
  }
  EXPECT_TRUE(HandOn::is_awaited());
  const HandingRead first(0);
  const HandingRead second(0);
  EXPECT_EQ(outer.times, 1) << "once for all that it carries";
}

}  // namespace
}  // namespace sluice::transfer
