// SPDX-License-Identifier: Apache-2.0
// The scatter kernel: every byte of what it carries, every byte beside it, and every word that it says.
#include "scatter_rig.h"

#include <algorithm>

namespace sluice::gpu_suite {
namespace {

// A sanitizer makes the kernel's model some hundred times slower.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr unsigned rounds_of_a_race = 100;
#else
constexpr unsigned rounds_of_a_race = 1000;
#endif

class Scatter : public Driver {};

// `count` chunks of 4096 bytes, one from the other as far as says `apart`.
ScatterCase equal_chunks(std::uint32_t count, std::uint32_t places, std::uint64_t apart = 8192) {
  ScatterCase made;
  made.places = places;
  made.blocks = count;
  for (std::uint32_t chunk = 0; chunk < count; ++chunk) made.chunks.push_back({chunk * apart, 4096});
  return made;
}

TEST_F(Scatter, OfOneChunkCarriesIt) {
  ScatterRig rig;
  rig.carry(equal_chunks(1, 1));
}

TEST_F(Scatter, OfMoreChunksThanPlacesGoesRound) {
  ScatterRig rig;
  rig.carry(equal_chunks(5, 4));
  rig.carry(equal_chunks(64, 64));
  rig.carry(equal_chunks(100, 7));
  rig.carry(equal_chunks(9, 1));
}

TEST_F(Scatter, TakesTargetsAtEveryDistanceFromABoundaryOf16Bytes) {
  ScatterRig rig;
  ScatterCase given;
  for (std::uint32_t distance = 0; distance < 16; ++distance) {
    given.chunks.push_back({distance * 8192 + distance, 4096 - distance % 5});
  }
  given.blocks = 16;
  rig.carry(given);
}

TEST_F(Scatter, TakesLengthsOfEveryKind) {
  ScatterRig rig;
  ScatterCase given;
  for (std::uint32_t length = 0; length <= 70; ++length) given.chunks.push_back({length * 100 + 3, length});
  given.places = 13;
  given.blocks = 5;
  rig.carry(given);
}

TEST_F(Scatter, TakesNeighboursInAnyOrder) {
  ScatterRig rig;
  ScatterCase given = equal_chunks(40, 11, 4096);
  std::reverse(given.chunks.begin(), given.chunks.end());
  rig.carry(given);
}

TEST_F(Scatter, TakesChunksAsTheyBecomeReady) {
  ScatterRig rig;
  rig.carry(equal_chunks(48, 16), ScatterRig::Order::backward);
}

TEST_F(Scatter, IsTheSameForAnyNumberOfWarps) {
  ScatterRig rig;
  for (const unsigned blocks : {1U, 2U, 13U, 64U}) {
    for (const unsigned threads : {64U, 96U, 160U, 544U}) {
      ScatterCase given = equal_chunks(30, 9);
      given.blocks = blocks;
      given.threads = threads;
      rig.carry(given);
    }
  }
}

TEST_F(Scatter, IsRightInEveryShape) {
  ScatterRig rig;
  for (unsigned seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    rig.carry(seeded_scatter(seed), seed % 3 == 0 ? ScatterRig::Order::backward : ScatterRig::Order::forward);
    if (HasFatalFailure()) return;
  }
}

TEST_F(Scatter, ThatIsCalledOffTouchesNothing) {
  ScatterRig rig;
  rig.revoke(equal_chunks(8, 4), ScatterRig::Leave::before_it_begins);
  rig.carry(equal_chunks(9, 4));
  rig.revoke(equal_chunks(8, 4), ScatterRig::Leave::after_it_began);
  rig.carry(equal_chunks(1, 4));
  rig.revoke(equal_chunks(33, 4), ScatterRig::Leave::after_it_began);
}

// What the launch has read, it keeps: the host may overwrite the ticket and only then see that it comes too late.
TEST_F(Scatter, ThatIsCalledOffWhileItReadsItsFirstTicketCarriesAllOrNothing) {
  ScatterRig rig;
  for (unsigned round = 0; round < rounds_of_a_race && !HasFailure(); ++round) {
    SCOPED_TRACE(testing::Message() << "round " << round);
    rig.revoke_with_a_ticket(equal_chunks(1 + round % 3, 4));
  }
}

TEST_F(Scatter, MayFollowLaunchesThatWereCalledOff) {
  ScatterRig rig;
  for (unsigned seed = 1000; seed < 1030; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    rig.revoke(seeded_scatter(seed),
               seed % 2 == 0 ? ScatterRig::Leave::before_it_begins : ScatterRig::Leave::after_it_began);
    rig.carry(seeded_scatter(seed + 100));
    if (HasFatalFailure()) return;
  }
}

TEST_F(Scatter, HasTheParametersThatTheLibraryGivesIt) {
  const ScatterKernel kernel;
  std::size_t offset = 0;
  std::size_t size = 0;
  for (std::size_t index = 0; index < 11; ++index) {
    ASSERT_EQ(cuda::success, cuFuncGetParamInfo(kernel.function(), index, &offset, &size)) << index;
    EXPECT_EQ(index < 6 ? 8U : 4U, size) << index;
    EXPECT_EQ(index < 6 ? 8 * index : 48 + 4 * (index - 6), offset) << index;
  }
  EXPECT_EQ(cuda::error_invalid_value, cuFuncGetParamInfo(kernel.function(), 11, &offset, &size));
}

}  // namespace
}  // namespace sluice::gpu_suite
