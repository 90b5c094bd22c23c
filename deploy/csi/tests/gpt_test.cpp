// SPDX-License-Identifier: Apache-2.0
// The partition table as bytes: what is written is read, either copy is enough, and damage never passes.
#include "core/gpt.h"

#include <gtest/gtest.h>

#include <random>

#include "core/bytes.h"

namespace sluice::csi {
namespace {

constexpr std::uint32_t block = 512;
constexpr std::uint64_t blocks = 16 * mebibyte / block;

std::string read_string(const void* drive, std::uint64_t offset, std::size_t bytes) {
  const std::string& all = *static_cast<const std::string*>(drive);
  return offset >= all.size() ? std::string() : all.substr(offset, bytes);
}

void write(std::string& drive, const Gpt& gpt, std::size_t pieces = 5) {
  const std::vector<GptPiece> all = pieces_of(gpt);
  for (std::size_t i = 0; i < pieces; ++i) drive.replace(all[i].offset, all[i].bytes.size(), all[i].bytes);
}

std::optional<Gpt> read(const std::string& drive) {
  return read_gpt(&drive, read_string, block, blocks);
}

Gpt with(std::vector<GptEntry> entries) {
  Gpt gpt = new_gpt(block, blocks);
  gpt.entries = std::move(entries);
  return gpt;
}

GptEntry entry(std::uint32_t number, std::int64_t begin, std::int64_t bytes, const std::string& name) {
  GptEntry entry;
  entry.number = number;
  entry.first = static_cast<std::uint64_t>(begin) / block;
  entry.last = static_cast<std::uint64_t>(begin + bytes) / block - 1;
  entry.name = name;
  entry.type[0] = 7;
  return entry;
}

TEST(PartitionTable, WhatIsWrittenIsRead) {
  std::string drive(blocks * block, '\0');
  EXPECT_FALSE(read(drive));
  const Gpt gpt = with({entry(1, mebibyte, 2 * mebibyte, "first"), entry(5, 8 * mebibyte, mebibyte, "fifth")});
  write(drive, gpt);
  const std::optional<Gpt> back = read(drive);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->disk, gpt.disk);
  ASSERT_EQ(back->entries.size(), 2U);
  EXPECT_EQ(back->find("fifth")->number, 5U);
  EXPECT_EQ(back->extent_of(*back->find("first")).begin, mebibyte);
  EXPECT_EQ(back->extent_of(*back->find("first")).bytes(), 2 * mebibyte);
  EXPECT_EQ(back->free_number(), 2U);
}

TEST(PartitionTable, FreeRoomIsWhatLiesBetween) {
  const Gpt gpt = with({entry(2, 8 * mebibyte, mebibyte, "b"), entry(1, 2 * mebibyte, 2 * mebibyte, "a")});
  const std::vector<Extent> free = gpt.free_extents();
  ASSERT_EQ(free.size(), 3U);
  EXPECT_EQ(free[0].begin, mebibyte);
  EXPECT_EQ(free[0].bytes(), mebibyte);
  EXPECT_EQ(free[1].begin, 4 * mebibyte);
  EXPECT_EQ(free[1].bytes(), 4 * mebibyte);
  EXPECT_EQ(free[2].begin, 9 * mebibyte);
  // The second copy lies at the drive's end.
  EXPECT_EQ(free[2].end, 15 * mebibyte);
}

TEST(PartitionTable, InterruptedAfterAnyPieceTheOldOrTheNewOneIsThere) {
  const Gpt old = with({entry(1, mebibyte, mebibyte, "old")});
  Gpt next = old;
  next.entries.push_back(entry(2, 4 * mebibyte, mebibyte, "new"));
  for (std::size_t pieces = 0; pieces <= 5; ++pieces) {
    std::string drive(blocks * block, '\0');
    write(drive, old);
    write(drive, next, pieces);
    const std::optional<Gpt> back = read(drive);
    ASSERT_TRUE(back) << pieces;
    EXPECT_NE(back->find("old"), nullptr) << pieces;
    EXPECT_EQ(back->entries.size(), pieces < 4 ? 1U : 2U) << pieces;
  }
}

TEST(PartitionTable, DamageIsNoticedAndTheSecondCopyTaken) {
  std::string drive(blocks * block, '\0');
  write(drive, with({entry(1, mebibyte, mebibyte, "volume")}));
  std::mt19937 random(1);
  const auto flip = [&](std::size_t at) { drive[at] = static_cast<char>(~static_cast<unsigned char>(drive[at])); };
  for (int i = 0; i < 500; ++i) {
    const std::size_t in_first = block + random() % (33 * block);
    const std::size_t in_second = ((blocks - 1) * block) + (random() % 92);
    flip(in_first);
    std::optional<Gpt> back = read(drive);
    ASSERT_TRUE(back && back->find("volume") != nullptr);
    flip(in_second);
    back = read(drive);
    EXPECT_TRUE(!back || back->find("volume") != nullptr);
    flip(in_first);
    flip(in_second);
  }
}

TEST(PartitionTable, RandomBytesAreNoTable) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 200; ++i) {
    std::string drive(std::size_t{100} * block, '\0');
    for (char& each : drive) each = static_cast<char>(random());
    drive.replace(block, 8, "EFI PART");
    EXPECT_FALSE(read_gpt(&drive, read_string, block, random() % 200));
  }
}

}  // namespace
}  // namespace sluice::csi
