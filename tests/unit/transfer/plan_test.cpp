// SPDX-License-Identifier: Apache-2.0
// Every decision of a plan. Whatever the size and the load: chunks cover the range, and no helper is asked for that
// would find nothing to do.
#include "transfer/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <vector>

#include "staging/neighbour.h"
#include "staging/staging_buffer.h"

namespace sluice::transfer {
namespace {

using base::FileOffset;

constexpr std::uint64_t kilobyte = 1024;
constexpr std::uint64_t megabyte = 1024 * kilobyte;

// A cached read by the kernel, alone, where twelve threads may work.
ReadShape read_of(std::uint64_t length) {
  return {.at = FileOffset{0},
          .length = length,
          .block = 1,
          .unit = 4096,
          .to = 0x7f0000000000,
          .cached = true,
          .by_kernel = true,
          .others = 0,
          .workers_suffice = true,
          .workers = 11,
          .extra_helpers = 0};
}

void expect_to_fit(const ReadShape& shape) {
  SCOPED_TRACE(::testing::Message() << shape.length << " bytes at " << shape.at.value << ", block " << shape.block
                                    << ", cached " << shape.cached << ", kernel " << shape.by_kernel << ", others "
                                    << shape.others);
  const ReadPlan cut = plan_read(shape);
  const std::uint64_t total = cut.skip + shape.length;
  EXPECT_EQ(cut.skip % shape.unit, shape.at.value % shape.unit) << "chunks begin on pages of the file";
  EXPECT_LT(cut.skip, cut.chunk_bytes);
  EXPECT_GE(std::uint64_t{cut.chunks} * cut.chunk_bytes, total);
  EXPECT_LT(std::uint64_t{cut.chunks - 1} * cut.chunk_bytes, total);
  EXPECT_LT(cut.helpers, cut.chunks) << "the caller reads, too";
  EXPECT_GT(cut.slots.count, 0U);
  EXPECT_LE(std::uint64_t{cut.slots.count} * cut.chunk_bytes, staging::staging_bytes);
  EXPECT_LE(cut.slots.own * (shape.workers + 1), cut.slots.count);
  EXPECT_GE(cut.chunks_a_copy, 1U);
  if (shape.block == 1) {
    EXPECT_EQ((cut.shift + cut.skip) % 16, shape.to % 16) << "source and target are alike aligned";
  }
}

TEST(LentRead, CoversEveryRangeWithPlacesInAllBuffers) {
  for (const std::uint64_t at : {0ULL, 1ULL, 4095ULL, 123456789ULL}) {
    for (const std::uint64_t length : {std::uint64_t{1}, 256 * kilobyte, 64 * megabyte + 1, 1024 * megabyte}) {
      for (const std::uint32_t block : {1U, 512U, 4096U}) {
        for (const unsigned buffers : {3U, 7U, 16U}) {
          const FileSpan range{0, FileOffset{at}, length, block, ~0ULL};
          const ReadPlan plan = plan_lent_read(range, buffers, 11, 12);
          EXPECT_LT(plan.skip, plan.chunk_bytes);
          EXPECT_GE(std::uint64_t{plan.chunks} * plan.chunk_bytes, plan.skip + length);
          EXPECT_LT((std::uint64_t{plan.chunks} - 1) * plan.chunk_bytes, plan.skip + length);
          EXPECT_LE(std::uint64_t{plan.slots.count} * plan.stride, buffers * staging::staging_bytes);
          EXPECT_LE(plan.slots.count, staging::most_slots);
          EXPECT_LT(plan.helpers + plan.reserve, plan.chunks);
          EXPECT_TRUE(block == 1 || plan.reserve == 0) << "a ring reads for all";
          EXPECT_EQ(staging::staging_bytes % plan.stride, 0u) << "no place lies in two buffers";
        }
      }
    }
  }
}

TEST(LentRead, ByKernelsCoversEveryRangeWithAShortFirstChunk) {
  constexpr std::size_t room = std::size_t{32} << 20U;
  for (const std::uint64_t at : {0ULL, 1ULL, 4095ULL, 123456789ULL}) {
    for (const std::uint64_t length : {std::uint64_t{1}, 256 * kilobyte, 64 * megabyte + 1, 1024 * megabyte}) {
      for (const cuda::DevicePtr to : {0x700000000ULL, 0x700000007ULL}) {
        const FileSpan range{0, FileOffset{at}, length, 1, ~0ULL};
        const ReadPlan plan = plan_lent_kernel_read(range, to, room, 11, 12);
        EXPECT_LT(plan.skip, plan.chunk_bytes);
        EXPECT_LE(plan.chunk_bytes - plan.skip, staging::first_chunk_bytes);
        EXPECT_EQ((at - plan.skip) % 4096, 0u) << "chunks begin on pages of the file";
        EXPECT_EQ((plan.shift + plan.skip) % 16, to % 16) << "source and target are alike aligned";
        EXPECT_GE(std::uint64_t{plan.chunks} * plan.chunk_bytes, plan.skip + length);
        EXPECT_LT((std::uint64_t{plan.chunks} - 1) * plan.chunk_bytes, plan.skip + length);
        EXPECT_LE(std::uint64_t{plan.slots.count} * plan.stride, room);
        EXPECT_LE(plan.slots.count, staging::most_slots) << "as many as tickets can name";
        EXPECT_LT(plan.helpers + plan.reserve, plan.chunks);
      }
    }
  }
}

TEST(LentRead, IsForLargeReadsAndForSmallerOnesBesideOthers) {
  EXPECT_FALSE(is_worth_lending(64 * megabyte - 1, 0, 64 * megabyte));
  EXPECT_TRUE(is_worth_lending(64 * megabyte, 0, 64 * megabyte));
  EXPECT_TRUE(is_worth_lending(16 * megabyte, 1, 64 * megabyte));
  EXPECT_FALSE(is_worth_lending(16 * megabyte - 1, 3, 64 * megabyte));
}

TEST(ReadPlan, CoversEveryRange) {
  for (const std::uint64_t length : {kilobyte, 128 * kilobyte, 128 * kilobyte + 1, 384 * kilobyte, 384 * kilobyte + 1,
                                     megabyte, 2 * megabyte + 1, 8 * megabyte + 1, 64 * megabyte, 4096 * megabyte}) {
    for (const std::uint64_t at : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{4095}, 5 * megabyte + 77}) {
      for (const unsigned others : {0U, 1U, 2U, 15U}) {
        for (int bits = 0; bits < 8; ++bits) {
          ReadShape shape = read_of(length);
          shape.at = FileOffset{at};
          shape.to += at % 7;
          shape.others = others;
          shape.cached = (bits & 1) != 0;
          shape.by_kernel = (bits & 2) != 0;
          shape.workers_suffice = (bits & 4) != 0;
          expect_to_fit(shape);
          shape.block = shape.unit = 4096;
          expect_to_fit(shape);
        }
      }
    }
  }
}

TEST(ReadPlan, HasAShortFirstChunkWhereTheKernelWaitsForIt) {
  for (const std::uint64_t length : {256 * kilobyte, 4 * megabyte, 64 * megabyte}) {
    ReadShape shape = read_of(length);
    shape.at = FileOffset{5 * megabyte + 77};
    ReadPlan cut = plan_read(shape);
    const std::uint32_t first = std::min(staging::first_chunk_bytes, cut.chunk_bytes / 2);
    EXPECT_LE(cut.chunk_bytes - cut.skip, first);
    EXPECT_GT(cut.chunk_bytes - cut.skip, first - shape.unit);
    shape.by_kernel = false;
    cut = plan_read(shape);
    EXPECT_EQ(cut.skip, 77U) << "the copy engine waits for no reader";
    shape.by_kernel = true;
    shape.at = FileOffset{5 * megabyte};
    shape.block = 512;
    EXPECT_EQ(plan_read(shape).skip, 0U) << "O_DIRECT reads whole chunks";
  }
}

TEST(ReadPlan, AsksForMoreHelpersForLargerReads) {
  EXPECT_LT(plan_read(read_of(256 * kilobyte)).helpers, plan_read(read_of(megabyte)).helpers);
  EXPECT_LT(plan_read(read_of(megabyte)).helpers, plan_read(read_of(4 * megabyte)).helpers);
}

TEST(ReadPlan, OfManySmallReadsHasNoHelp) {
  EXPECT_EQ(plan_read(read_of(128 * kilobyte)).helpers, 0U);
  EXPECT_EQ(plan_read(read_of(128 * kilobyte)).skip, 0U) << "a short first chunk is one chunk more";
}

TEST(ReadPlan, GivesHelpersSlotsOfTheirOwnWhereTheyGoRound) {
  ReadShape shape = read_of(megabyte);
  EXPECT_GT(plan_read(shape).slots.own, 0U);
  shape.others = 3;
  EXPECT_GT(plan_read(shape).slots.own, 0U) << "three of twelve threads for each";
  shape.others = 4;
  EXPECT_EQ(plan_read(shape).slots.own, 0U);
  shape.others = 0;
  shape.by_kernel = false;
  EXPECT_EQ(plan_read(shape).slots.own, 0U) << "the copy engine takes neighbours in one copy";
}

TEST(ReadPlan, AddsHelpersThatHaveShownTheirWorthToLargeReadsOnly) {
  for (const std::uint64_t length : {megabyte, 64 * megabyte}) {
    ReadShape shape = read_of(length);
    const unsigned usual = plan_read(shape).helpers;
    shape.extra_helpers = 2;
    EXPECT_EQ(plan_read(shape).helpers, usual + (length > megabyte ? 2 : 0));
  }
}

TEST(ReadPlan, TellsOfItsHelpersWhenItIsLongAndAlone) {
  EXPECT_TRUE(plan_read(read_of(16 * megabyte)).tells);
  EXPECT_FALSE(plan_read(read_of(4 * megabyte)).tells);
  ReadShape shape = read_of(16 * megabyte);
  shape.others = 1;
  EXPECT_FALSE(plan_read(shape).tells);
}

TEST(ReadPlan, LetsHelpersSleepWhereTheReadIsVeryLongAndAlone) {
  EXPECT_TRUE(plan_read(read_of(64 * megabyte)).helpers_sleep);
  ReadShape shape = read_of(32 * megabyte);
  EXPECT_FALSE(plan_read(shape).helpers_sleep);
  const unsigned helpers = plan_read(shape).helpers;
  shape.at = FileOffset{1};
  EXPECT_EQ(plan_read(shape).helpers, helpers) << "as many as sleep or as do not, wherever it begins";
  shape = read_of(64 * megabyte);
  shape.others = 1;
  EXPECT_FALSE(plan_read(shape).helpers_sleep);
  shape.others = 0;
  shape.by_kernel = false;
  EXPECT_FALSE(plan_read(shape).helpers_sleep);
}

TEST(ReadPlan, OfACrowdThatTheCopyEngineServesIsCoarse) {
  ReadShape shape = read_of(16 * megabyte);
  shape.by_kernel = false;
  const ReadPlan alone = plan_read(shape);
  shape.others = 2;
  const ReadPlan helped = plan_read(shape);
  EXPECT_TRUE(helped.in_crowd);
  EXPECT_GT(helped.chunks_a_copy * helped.chunk_bytes, alone.chunks_a_copy * alone.chunk_bytes);
  EXPECT_FALSE(helped.less_when_idle);
  shape.workers_suffice = false;
  EXPECT_EQ(plan_read(shape).helpers, 0U) << "each has one reader, its caller";
}

KernelFacts all_in_favour() {
  return {
      .wanted = CopyEngine::automatic, .has_sentinel = true, .cached = true, .alike_aligned = true, .is_loaded = true};
}

TEST(GatherKernel, CarriesWhatIsCachedUnlessTheCopyEngineIsWanted) {
  KernelFacts facts = all_in_favour();
  EXPECT_TRUE(kernel_may_carry(facts));
  facts.wanted = CopyEngine::kernel;
  EXPECT_TRUE(kernel_may_carry(facts));
  facts.wanted = CopyEngine::engine;
  EXPECT_FALSE(kernel_may_carry(facts));
}

TEST(GatherKernel, CarriesWhatADiskHasToBringOnlyWhereThatIsAskedFor) {
  KernelFacts facts = all_in_favour();
  facts.cached = false;
  EXPECT_FALSE(kernel_may_carry(facts));
  facts.wanted = CopyEngine::kernel;
  EXPECT_TRUE(kernel_may_carry(facts));
}

TEST(GatherKernel, NeedsASentinelAlignmentAndItsCode) {
  for (bool KernelFacts::*const needed :
       {&KernelFacts::has_sentinel, &KernelFacts::alike_aligned, &KernelFacts::is_loaded}) {
    KernelFacts facts = all_in_favour();
    facts.*needed = false;
    EXPECT_FALSE(kernel_may_carry(facts));
    facts.wanted = CopyEngine::kernel;
    EXPECT_FALSE(kernel_may_carry(facts));
  }
}

TEST(GatherKernel, MayTakeLongerToBeginBesideOthersAndForMoreBytes) {
  EXPECT_LT(gather_start_timeout(megabyte, 1), gather_start_timeout(megabyte, 2));
  EXPECT_LT(gather_start_timeout(16 * megabyte, 1), gather_start_timeout(128 * megabyte, 1));
  EXPECT_LT(gather_start_timeout(megabyte, 2), gather_start_timeout(16 * megabyte, 2));
  EXPECT_EQ(gather_start_timeout(1024 * megabyte, 2), std::chrono::milliseconds(3));
  EXPECT_LT(scatter_start_timeout(megabyte, 1), scatter_start_timeout(megabyte, 2));
}

TEST(GatherKernel, SharesBlocksAmongRequestsAndGivesSmallChunksMore) {
  ReadPlan small{};
  small.chunk_bytes = 16 << 10;
  ReadPlan large{};
  large.chunk_bytes = 64 << 10;
  ReadPlan lent = large;
  lent.is_lent = true;
  EXPECT_GT(gather_blocks(small, 1), gather_blocks(large, 1));
  EXPECT_GT(gather_blocks(lent, 1), gather_blocks(large, 1)) << "NVLink is on the way, too";
  EXPECT_GT(gather_blocks(lent, 1), gather_blocks(lent, 4));
  EXPECT_GT(gather_blocks(large, 1), gather_blocks(large, 4));
  EXPECT_EQ(gather_blocks(large, 0), gather_blocks(large, 1));
  EXPECT_GT(gather_blocks(large, 1000), 0U);
}

std::vector<ReadItem> items_of(std::size_t count, std::uint64_t length) {
  ReadItem item;
  item.fd = 3;
  item.length = length;
  return std::vector<ReadItem>(count, item);
}

TEST(LaunchCut, TakesAllThatFitsInSmallChunks) {
  const LaunchCut cut = cut_launch(items_of(8, 256 * kilobyte));
  EXPECT_EQ(cut.items, 8U);
  EXPECT_EQ(cut.chunk_bytes, 16 * kilobyte);
}

TEST(LaunchCut, TakesLargeChunksWhereSmallOnesWouldBeTooMany) {
  const LaunchCut cut = cut_launch(items_of(8, 4 * megabyte));
  EXPECT_EQ(cut.items, 8U);
  EXPECT_EQ(cut.chunk_bytes, 64 * kilobyte);
}

TEST(LaunchCut, LeavesToTheNextLaunchWhatDoesNotFit) {
  const LaunchCut cut = cut_launch(items_of(20, 4 * megabyte));
  EXPECT_EQ(cut.items, most_scatter_chunks / 64U);
}

TEST(LaunchCut, ChunksAreNoLongerThanTheLongestItem) {
  EXPECT_EQ(cut_launch(items_of(64, 4000)).chunk_bytes, 4096U);
  EXPECT_EQ(cut_launch(items_of(64, 4097)).chunk_bytes, 8192U);
}

ScatterShape launch_of(std::uint32_t chunks, std::uint32_t chunk_bytes) {
  return {.bytes = std::uint64_t{chunks} * chunk_bytes,
          .room = staging::staging_bytes + 65536,
          .chunk_bytes = chunk_bytes,
          .chunks = chunks,
          .alike_aligned = true,
          .by_kernel = true,
          .others = 0,
          .workers = 11};
}

TEST(ScatterPlan, PlacesFitTheBufferAndTouchWhereTargetsLieAlike) {
  ScatterShape shape = launch_of(512, 64 * kilobyte);
  ReadPlan plan = plan_scatter(shape);
  EXPECT_EQ(plan.stride, plan.chunk_bytes);
  EXPECT_LE(std::uint64_t{plan.slots.count} * plan.stride + 15, shape.room);
  shape.alike_aligned = false;
  plan = plan_scatter(shape);
  EXPECT_GE(plan.stride, plan.chunk_bytes + 15) << "each begins as far behind a boundary as its target";
  EXPECT_LE(std::uint64_t{plan.slots.count} * plan.stride + 15, shape.room);
}

TEST(ScatterPlan, HelpersNeverOutnumberChunksAndHavePlacesOfTheirOwnWhereItIsAlone) {
  EXPECT_EQ(plan_scatter(launch_of(1, 4096)).helpers, 0U);
  EXPECT_EQ(plan_scatter(launch_of(4, 4096)).helpers, 3U);
  ScatterShape shape = launch_of(256, 16 * kilobyte);
  EXPECT_GT(plan_scatter(shape).slots.own, 0U);
  shape.others = 1;
  EXPECT_EQ(plan_scatter(shape).slots.own, 0U);
  shape.others = 0;
  shape.by_kernel = false;
  EXPECT_EQ(plan_scatter(shape).slots.own, 0U);
  EXPECT_EQ(plan_scatter(launch_of(256, 4096)).slots.own, 0U) << "small chunks are not read for long";
}

FileSpan direct_span(std::uint64_t at, std::uint64_t length, std::uint32_t block = 4096) {
  return {.fd = 3, .at = FileOffset{at}, .length = length, .block = block, .file_size = ~std::uint64_t{0}};
}

TEST(DiskPlan, KeepsADiskBusyWithSmallReadsAndPaysForFewInterruptsWithLargeOnes) {
  EXPECT_EQ(plan_disk_read(direct_span(0, 512 * kilobyte)).chunk_bytes, 128 * kilobyte);
  EXPECT_EQ(plan_disk_read(direct_span(0, 512 * kilobyte + 1)).chunk_bytes, 512 * kilobyte);
}

TEST(DiskPlan, CoversTheRangeInWholeBlocksAndFitsTheBuffer) {
  for (const std::uint32_t block : {512U, 4096U, 65536U, 1U << 20U}) {
    const ReadPlan plan = plan_disk_read(direct_span(7 * megabyte + 5000, 3 * megabyte, block));
    EXPECT_EQ((7 * megabyte + 5000 - plan.skip) % block, 0U);
    EXPECT_EQ(plan.chunk_bytes % block, 0U);
    EXPECT_GE(std::uint64_t{plan.chunks} * plan.chunk_bytes, plan.skip + 3 * megabyte);
    EXPECT_LE(std::uint64_t{plan.slots.count} * plan.stride, staging::staging_bytes);
    EXPECT_EQ(plan.helpers, 0U) << "one thread does it";
  }
}

TEST(StreamPlan, AsksForMoreHelpersForLargerReads) {
  const auto plan_of = [](std::uint64_t length) { return plan_stream_read(direct_span(0, length, 1), 0x7f0000000000); };
  EXPECT_LT(plan_of(256 * kilobyte).helpers, plan_of(megabyte).helpers);
  EXPECT_LT(plan_of(megabyte).helpers, plan_of(4 * megabyte).helpers);
  EXPECT_LT(plan_of(256 * kilobyte).chunk_bytes, plan_of(megabyte).chunk_bytes);
  EXPECT_EQ(plan_of(kilobyte).helpers, 0U) << "the caller reads, too";
}

TEST(StreamPlan, ChunksFitTheirPlacesHoweverTheyLie) {
  for (const std::uint32_t block : {1U, 512U, 4096U, 8192U}) {
    const ReadPlan plan = plan_stream_read(direct_span(5 * megabyte + 4095, megabyte, block), 0x7f0000000009);
    EXPECT_EQ(plan.skip, (5 * megabyte + 4095) % block);
    EXPECT_EQ(plan.shift, block == 1 ? 9U : 0U);
    EXPECT_LE(plan.shift + plan.chunk_bytes, plan.stride);
  }
}

TEST(StreamPlan, AsksADiskForAllTogetherAsLongAsThePlacesLast) {
  EXPECT_EQ(plan_stream_disk_read(direct_span(0, megabyte)).in_a_request, most_in_a_stream_request);
  EXPECT_LT(plan_stream_disk_read(direct_span(0, 8 * megabyte)).in_a_request, most_in_a_stream_request);
}

WriteShape lone_write(std::uint64_t length) {
  return {.length = length,
          .block = 1,
          .beside = false,
          .may_prefetch = true,
          .place_cached = true,
          .others = 0,
          .workers_suffice = true,
          .workers = 11};
}

TEST(WritePlan, TakesTurnsWhereTheWriteIsLongAndItsPlaceCached) {
  EXPECT_EQ(plan_write(lone_write(megabyte - 1)).helpers, 0U);
  EXPECT_EQ(plan_write(lone_write(megabyte)).helpers, 1U);
  EXPECT_EQ(plan_write(lone_write(64 * megabyte)).helpers, 2U);
  WriteShape shape = lone_write(64 * megabyte);
  shape.place_cached = false;
  EXPECT_EQ(plan_write(shape).helpers, 0U);
}

TEST(WritePlan, AsksForThePlaceOnlyWhereTurnsArePossible) {
  EXPECT_TRUE(may_take_turns(lone_write(megabyte)));
  EXPECT_FALSE(may_take_turns(lone_write(megabyte - 1)));
  WriteShape shape = lone_write(megabyte);
  shape.workers = 0;
  EXPECT_FALSE(may_take_turns(shape));
  shape = lone_write(megabyte);
  shape.block = 4096;
  EXPECT_FALSE(may_take_turns(shape));
  shape = lone_write(megabyte);
  shape.beside = true;
  EXPECT_FALSE(may_take_turns(shape));
  shape = lone_write(megabyte);
  shape.others = 1;
  EXPECT_TRUE(may_take_turns(shape));
  shape.workers_suffice = false;
  EXPECT_FALSE(may_take_turns(shape));
}

TEST(WritePlan, OfSeveralLinksHasChunksThatNeighboursTakeAndFillsAllPlaces) {
  WriteShape shape = lone_write(64 * megabyte);
  for (const bool cached : {true, false}) {
    shape.place_cached = cached;
    const WritePlan plan = plan_lent_write(plan_write(shape));
    EXPECT_LE(plan.first, plan.whole);
    EXPECT_LE(plan.whole, staging::NeighbourLease::largest_piece);
    EXPECT_EQ(plan.ahead * plan.whole, staging::staging_bytes);
    EXPECT_EQ(plan.helpers, plan_write(shape).helpers);
  }
}

TEST(WritePlan, BeginsSoonWhereItIsAlone) {
  WriteShape shape = lone_write(512 * kilobyte);
  EXPECT_LT(plan_write(shape).first, plan_write(shape).whole);
  shape.block = 4096;
  EXPECT_EQ(plan_write(shape).first, plan_write(shape).whole) << "each write waits for the disk";
}

TEST(WritePlan, WritesSmallerChunksBesideOthersWhereTheirPlacesArePrefetched) {
  WriteShape shape = lone_write(16 * megabyte);
  shape.beside = true;
  const std::uint64_t prefetched = plan_write(shape).whole;
  shape.may_prefetch = false;
  EXPECT_LT(prefetched, plan_write(shape).whole);
  EXPECT_EQ(plan_write(shape).helpers, 0U);
}

TEST(Way, OfLargePiecesIsAStagingBuffer) {
  EXPECT_EQ(way_of({.length = 128 * kilobyte + 1, .cached_read = true, .polled = false}), Through::staging_buffer);
  EXPECT_EQ(way_of({.length = 128 * kilobyte + 1, .cached_read = false, .polled = false}), Through::staging_buffer);
}

TEST(Way, OfSmallPiecesIsABounceBufferUnlessTheyAreCachedOrPolledFor) {
  EXPECT_EQ(way_of({.length = 128 * kilobyte, .cached_read = false, .polled = false}), Through::bounce_buffer);
  EXPECT_EQ(way_of({.length = 4096, .cached_read = true, .polled = false}), Through::small_read);
  EXPECT_EQ(way_of({.length = 4096, .cached_read = false, .polled = true}), Through::staging_buffer);
}

SmallShape lone_read(std::uint64_t length) {
  return {.length = length,
          .copies_wanted = false,
          .kernels_wanted = false,
          .crowded = false,
          .very_crowded = false,
          .streams_wait = false};
}

TEST(SmallWay, IsACopyForALoneThreadUnlessKernelsAreWanted) {
  SmallShape shape = lone_read(4096);
  EXPECT_EQ(small_way_of(shape), SmallThrough::copy);
  shape.kernels_wanted = true;
  EXPECT_EQ(small_way_of(shape), SmallThrough::mailbox);
}

TEST(SmallWay, IsAKernelsInACrowdUnlessCopiesAreWantedOrStreamsWait) {
  SmallShape shape = lone_read(4096);
  shape.crowded = true;
  EXPECT_EQ(small_way_of(shape), SmallThrough::mailbox);
  shape.streams_wait = true;
  EXPECT_EQ(small_way_of(shape), SmallThrough::copy);
  shape.streams_wait = false;
  shape.copies_wanted = true;
  EXPECT_EQ(small_way_of(shape), SmallThrough::copy);
}

TEST(SmallWay, OfWhatNoMailboxHoldsIsAKernelsWhereFourAreAtIt) {
  SmallShape shape = lone_read(gpu::mailbox_bytes + 1);
  shape.crowded = true;
  EXPECT_EQ(small_way_of(shape), SmallThrough::copy);
  shape.very_crowded = true;
  EXPECT_EQ(small_way_of(shape), SmallThrough::prompt_kernel);
  shape.copies_wanted = true;
  EXPECT_EQ(small_way_of(shape), SmallThrough::copy);
}

}  // namespace
}  // namespace sluice::transfer
