// SPDX-License-Identifier: Apache-2.0
// Whatever the size and the company: chunks cover the range, and nobody is asked for help who would find nothing to do.
#include "transfer/read_cut.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

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
  const ReadCut cut = cut_read(shape);
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

TEST(ReadCut, CoversEveryRange) {
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

TEST(ReadCut, HasAShortFirstChunkWhereTheKernelWaitsForIt) {
  for (const std::uint64_t length : {256 * kilobyte, 4 * megabyte, 64 * megabyte}) {
    ReadShape shape = read_of(length);
    shape.at = FileOffset{5 * megabyte + 77};
    ReadCut cut = cut_read(shape);
    const std::uint32_t first = std::min(staging::first_chunk_bytes, cut.chunk_bytes / 2);
    EXPECT_LE(cut.chunk_bytes - cut.skip, first);
    EXPECT_GT(cut.chunk_bytes - cut.skip, first - shape.unit);
    shape.by_kernel = false;
    cut = cut_read(shape);
    EXPECT_EQ(cut.skip, 77U) << "the copy engine waits for nobody";
    shape.by_kernel = true;
    shape.at = FileOffset{5 * megabyte};
    shape.block = 512;
    EXPECT_EQ(cut_read(shape).skip, 0U) << "O_DIRECT reads whole chunks";
  }
}

TEST(ReadCut, AsksForMoreHelpersForLargerReads) {
  EXPECT_LT(cut_read(read_of(256 * kilobyte)).helpers, cut_read(read_of(megabyte)).helpers);
  EXPECT_LT(cut_read(read_of(megabyte)).helpers, cut_read(read_of(4 * megabyte)).helpers);
}

TEST(ReadCut, OfManySmallReadsHasNoHelp) {
  EXPECT_EQ(cut_read(read_of(128 * kilobyte)).helpers, 0U);
  EXPECT_EQ(cut_read(read_of(128 * kilobyte)).skip, 0U) << "a short first chunk is one chunk more";
}

TEST(ReadCut, GivesHelpersSlotsOfTheirOwnWhereTheReadIsAlone) {
  ReadShape shape = read_of(megabyte);
  EXPECT_GT(cut_read(shape).slots.own, 0U);
  shape.others = 1;
  EXPECT_EQ(cut_read(shape).slots.own, 0U);
  shape.others = 0;
  shape.by_kernel = false;
  EXPECT_EQ(cut_read(shape).slots.own, 0U) << "the copy engine takes neighbours in one copy";
}

TEST(ReadCut, AddsHelpersThatHaveShownTheirWorthToLargeReadsOnly) {
  for (const std::uint64_t length : {megabyte, 64 * megabyte}) {
    ReadShape shape = read_of(length);
    const unsigned usual = cut_read(shape).helpers;
    shape.extra_helpers = 2;
    EXPECT_EQ(cut_read(shape).helpers, usual + (length > megabyte ? 2 : 0));
  }
}

TEST(ReadCut, TellsOfItsHelpersWhenItIsLongAndAlone) {
  EXPECT_TRUE(cut_read(read_of(16 * megabyte)).tells);
  EXPECT_FALSE(cut_read(read_of(4 * megabyte)).tells);
  ReadShape shape = read_of(16 * megabyte);
  shape.others = 1;
  EXPECT_FALSE(cut_read(shape).tells);
}

TEST(ReadCut, LetsHelpersSleepWhereTheReadIsVeryLongAndAlone) {
  EXPECT_TRUE(cut_read(read_of(64 * megabyte)).helpers_sleep);
  ReadShape shape = read_of(32 * megabyte);
  EXPECT_FALSE(cut_read(shape).helpers_sleep);
  const unsigned helpers = cut_read(shape).helpers;
  shape.at = FileOffset{1};
  EXPECT_EQ(cut_read(shape).helpers, helpers) << "as many as nap or as do not, wherever it begins";
  shape = read_of(64 * megabyte);
  shape.others = 1;
  EXPECT_FALSE(cut_read(shape).helpers_sleep);
  shape.others = 0;
  shape.by_kernel = false;
  EXPECT_FALSE(cut_read(shape).helpers_sleep);
}

TEST(ReadCut, OfACrowdThatTheCopyEngineServesIsCoarse) {
  ReadShape shape = read_of(16 * megabyte);
  shape.by_kernel = false;
  const ReadCut alone = cut_read(shape);
  shape.others = 2;
  const ReadCut helped = cut_read(shape);
  EXPECT_TRUE(helped.in_crowd);
  EXPECT_GT(helped.chunks_a_copy * helped.chunk_bytes, alone.chunks_a_copy * alone.chunk_bytes);
  EXPECT_FALSE(helped.less_when_idle);
  shape.workers_suffice = false;
  EXPECT_EQ(cut_read(shape).helpers, 0U) << "each has one reader, its caller";
}

}  // namespace
}  // namespace sluice::transfer
