// SPDX-License-Identifier: Apache-2.0
// The gather kernel: every byte of what it carries, every byte beside it, and every word that it says.
#include "gather_rig.h"

namespace sluice::gpu_suite {
namespace {

// A sanitizer makes the kernel's model some hundred times slower.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr unsigned random_shapes = 30;
constexpr int rounds_of_a_race = 500;
#else
constexpr unsigned random_shapes = 250;
constexpr int rounds_of_a_race = 3000;
#endif

class Gather : public Driver {};

// `count` full chunks.
GatherCase full_chunks(std::uint32_t count, std::uint32_t places) {
  GatherCase made;
  made.places = places;
  made.blocks = count;
  made.lengths.assign(count, made.chunk_bytes);
  return made;
}

TEST_F(Gather, OfOneChunkCarriesIt) {
  GatherRig rig;
  rig.carry(full_chunks(1, 4));
}

TEST_F(Gather, OfAsManyChunksAsPlacesSaysNothingOfPlacesThatAreFreeAgain) {
  GatherRig rig;
  rig.carry(full_chunks(4, 4));
}

TEST_F(Gather, OfMoreChunksThanPlacesGoesRound) {
  GatherRig rig;
  rig.carry(full_chunks(5, 4));
  rig.carry(full_chunks(41, 4));
  rig.carry(full_chunks(7, 1));
}

TEST_F(Gather, TakesTargetsAtEveryDistanceFromABoundaryOf16Bytes) {
  GatherRig rig;
  for (std::uint32_t distance = 0; distance < 16; ++distance) {
    GatherCase given = full_chunks(3, 2);
    given.distance = distance;
    given.lengths.back() = 1003;
    rig.carry(given);
  }
}

TEST_F(Gather, TakesTailsOfEveryLength) {
  GatherRig rig;
  for (std::uint32_t tail = 0; tail <= 33; ++tail) {
    GatherCase given = full_chunks(2, 2);
    given.distance = tail % 3;
    given.lengths.back() = tail;
    rig.carry(given);
  }
}

TEST_F(Gather, SkipsTheBeginningOfItsFirstChunk) {
  GatherRig rig;
  for (const std::uint32_t skip : {1U, 15U, 16U, 17U, 2048U, 4095U}) {
    GatherCase given = full_chunks(6, 4);
    given.skip = skip;
    given.lengths.front() -= skip;
    rig.carry(given);
  }
}

TEST_F(Gather, LeavesAloneWhatLiesBehindAShortChunk) {
  GatherRig rig;
  GatherCase given = full_chunks(9, 4);
  given.lengths = {4096, 4096, 77, 0, 0, 0, 0, 0, 0};
  rig.carry(given);
  given.lengths.assign(9, 0);
  rig.carry(given);
}

TEST_F(Gather, TakesChunksFromPlacesThatLieApart) {
  GatherRig rig;
  GatherCase given = full_chunks(10, 3);
  given.stride = given.chunk_bytes + 32;
  rig.carry(given);
}

TEST_F(Gather, IsTheSameForAnyNumberOfWarps) {
  GatherRig rig;
  for (const unsigned blocks : {1U, 2U, 13U, 32U}) {
    for (const unsigned threads : {64U, 96U, 288U, 544U}) {
      GatherCase given = full_chunks(12, 5);
      given.chunk_bytes = 16384;
      given.stride = 16384;
      given.lengths.assign(12, 16384);
      given.lengths.back() = 16001;
      given.blocks = blocks;
      given.threads = threads;
      rig.carry(given);
    }
  }
}

TEST_F(Gather, IsRightInEveryShape) {
  GatherRig rig;
  for (unsigned seed = 1; seed <= random_shapes; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    rig.carry(seeded_case(seed));
    if (HasFatalFailure()) return;
  }
}

TEST_F(Gather, ThatRelaysIsRightInEveryShape) {
  GatherRig rig(GatherKernel::Kind::relays);
  for (unsigned seed = 1; seed <= random_shapes; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    rig.carry(seeded_case(seed));
    if (HasFatalFailure()) return;
  }
}

TEST_F(Gather, ThatIsCalledOffBeforeItBeginsTouchesNothing) {
  GatherRig rig;
  rig.revoke(full_chunks(8, 4), GatherRig::CallOff::before_it_begins);
  rig.carry(full_chunks(9, 4));
  rig.revoke(full_chunks(1, 4), GatherRig::CallOff::before_it_begins);
}

TEST_F(Gather, ThatHasBegunMayBeCalledOffUntilItsFirstChunkIsThere) {
  GatherRig rig;
  rig.revoke(full_chunks(8, 4), GatherRig::CallOff::after_it_began);
  rig.carry(full_chunks(9, 4));
  rig.revoke(full_chunks(33, 4), GatherRig::CallOff::after_it_began);
}

// What the launch has read, it keeps: the host may overwrite the ticket and only then see that it comes too late.
TEST_F(Gather, ThatIsCalledOffWhileItReadsItsFirstTicketCarriesAllOrNothing) {
  GatherRig rig;
  for (int round = 0; round < rounds_of_a_race && !HasFailure(); ++round) {
    SCOPED_TRACE(testing::Message() << "round " << round);
    rig.revoke_with_a_ticket(1 + round % 3);
  }
}

TEST_F(Gather, MayFollowLaunchesThatWereCalledOff) {
  GatherRig rig;
  for (unsigned seed = 1000; seed < 1030; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    rig.revoke(seeded_case(seed),
               seed % 2 == 0 ? GatherRig::CallOff::before_it_begins : GatherRig::CallOff::after_it_began);
    rig.carry(seeded_case(seed + 100));
    if (HasFatalFailure()) return;
  }
}

TEST_F(Gather, HasTheParametersThatTheLibraryGivesIt) {
  for (const auto kind : {GatherKernel::Kind::gathers, GatherKernel::Kind::relays}) {
    const GatherKernel kernel(kind);
    std::size_t offset = 0;
    std::size_t size = 0;
    const std::size_t count = kind == GatherKernel::Kind::gathers ? 13 : 14;
    for (std::size_t index = 0; index < count; ++index) {
      ASSERT_EQ(cuda::success, cuFuncGetParamInfo(kernel.function(), index, &offset, &size)) << index;
      EXPECT_EQ(index < 6 ? 8U : 4U, size) << index;
      EXPECT_EQ(index < 6 ? 8 * index : 48 + 4 * (index - 6), offset) << index;
    }
    EXPECT_EQ(cuda::error_invalid_value, cuFuncGetParamInfo(kernel.function(), count, &offset, &size));
  }
}

// Two pieces of memory side by side in a range that the program reserved.
class Mapped {
 public:
  Mapped() {
    EXPECT_EQ(cuda::success, cuMemAddressReserve(&start_, 2 * piece, 0, 0, 0));
    map();
  }
  ~Mapped() {
    unmap();
    EXPECT_EQ(cuda::success, cuMemAddressFree(start_, 2 * piece));
  }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;

  Ptr start() const { return start_; }
  void map() {
    for (const Ptr at : {start_, start_ + piece}) {
      cuda::AllocationHandle memory = 0;
      EXPECT_EQ(cuda::success, cuMemCreate(&memory, piece, &properties_, 0));
      EXPECT_EQ(cuda::success, cuMemMap(at, piece, 0, memory, 0));
      EXPECT_EQ(cuda::success, cuMemRelease(memory));
    }
    const cuda::AccessDescription access{{cuda::location_device, 0}, cuda::access_read_write};
    EXPECT_EQ(cuda::success, cuMemSetAccess(start_, 2 * piece, &access, 1));
  }
  void unmap() const { EXPECT_EQ(cuda::success, cuMemUnmap(start_, 2 * piece)); }

  static constexpr std::size_t piece = std::size_t{2} << 20U;

 private:
  const cuda::AllocationProperties properties_{
      cuda::allocation_pinned, cuda::handle_type_none, {cuda::location_device, 0}, nullptr, 0, 0, 0, {}};
  Ptr start_ = 0;
};

TEST_F(Gather, ReachesMappedMemoryAndCrossesFromOnePieceToTheNext) {
  GatherRig rig;
  Mapped memory;
  GatherCase given = full_chunks(8, 3);
  const std::uint64_t across = memory.start() + Mapped::piece - 3 * given.chunk_bytes - 1600;
  rig.carry_to(given, across, given.target_bytes());
}

TEST_F(Gather, ReachesMemoryThatWentAndCameBackAtTheSameAddress) {
  GatherRig rig;
  Mapped memory;
  const GatherCase given = full_chunks(8, 3);
  for (int round = 0; round < 3; ++round) {
    rig.carry_to(given, memory.start() + Mapped::piece - given.target_bytes() / 2, given.target_bytes());
    memory.unmap();
    memory.map();
  }
}

}  // namespace
}  // namespace sluice::gpu_suite
