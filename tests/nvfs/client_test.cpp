// SPDX-License-Identifier: Apache-2.0
// Transfers by the client: every byte in its place, and its neighbours untouched.
#include <algorithm>
#include <cerrno>
#include <thread>

#include "nvfs/rig.h"

namespace sluice::nvfs_test {
namespace {

using base::Direction;
using nvfs::Trouble;

using Transfer = ClientTest;

bool same(std::span<const std::byte> a, std::span<const std::byte> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

bool all(std::span<const std::byte> bytes, int value) {
  return std::all_of(bytes.begin(), bytes.end(),
                     [value](std::byte byte) { return byte == static_cast<std::byte>(value); });
}

TEST_F(Transfer, ReadsAFileThroughWindowsAndLeavesTheNeighboursAlone) {
  const File file(9 * kMebibyte);
  const DeviceMemory memory(12 * kMebibyte);
  memory.fill(0xee);
  nvfs::Windows windows = windows_onto(memory);
  const nvfs::Member done =
      move(member(Direction::read, file, 0, memory.address() + kMebibyte, 9 * kMebibyte, windows));
  EXPECT_EQ(done.outcome().count(), 9 * kMebibyte);
  EXPECT_TRUE(same(memory.bytes(kMebibyte, 9 * kMebibyte), file.content()));
  EXPECT_TRUE(all(memory.bytes(0, kMebibyte), 0xee));
  EXPECT_TRUE(all(memory.bytes(10 * kMebibyte, 2 * kMebibyte), 0xee));
  EXPECT_EQ(fake_.counts().moved, 9 * kMebibyte);
}

TEST_F(Transfer, WritesAFile) {
  const File file(8 * kMebibyte, 1);
  const DeviceMemory memory(8 * kMebibyte);
  std::ranges::copy(pattern(8 * kMebibyte, 2), memory.bytes().begin());
  nvfs::Windows windows = windows_onto(memory);
  const Bytes before = file.content();
  const nvfs::Member done = move(member(Direction::write, file, kMebibyte, memory.address(), 6 * kMebibyte, windows));
  EXPECT_EQ(done.outcome().count(), 6 * kMebibyte);
  Bytes wanted = before;
  std::ranges::copy(memory.bytes(0, 6 * kMebibyte), wanted.begin() + static_cast<std::ptrdiff_t>(kMebibyte));
  EXPECT_TRUE(same(file.content(), wanted));
}

TEST_F(Transfer, BeginsAndEndsAnywhereWithinAPageOfTheDevice) {
  const File file(kMebibyte);
  const DeviceMemory memory(2 * kMebibyte);
  nvfs::Windows windows = windows_onto(memory);
  for (const std::uint64_t begin : {kBlock, 60 * kKibibyte, 64 * kKibibyte, 68 * kKibibyte}) {
    for (const std::uint64_t length : {kBlock, 8 * kKibibyte, 60 * kKibibyte, 64 * kKibibyte, 200 * kKibibyte}) {
      SCOPED_TRACE(testing::Message() << begin << " " << length);
      memory.fill(0xee);
      const nvfs::Member done =
          move(member(Direction::read, file, 2 * kBlock, memory.address() + begin, length, windows));
      EXPECT_EQ(done.outcome().count(), length);
      EXPECT_TRUE(same(memory.bytes(begin, length), file.content(2 * kBlock, length)));
      EXPECT_TRUE(all(memory.bytes(0, begin), 0xee));
      EXPECT_TRUE(all(memory.bytes(begin + length, kMebibyte), 0xee));
    }
  }
}

TEST_F(Transfer, IntoABufferThatIsSmallerThanAPageOfTheDevice) {
  const File file(kMebibyte);
  const DeviceMemory memory(kMebibyte);
  for (const std::uint64_t begin : {std::uint64_t{0}, 2 * kBlock, 60 * kKibibyte}) {
    for (const std::uint64_t length : {kBlock, 4 * kBlock}) {
      memory.fill(0xee);
      nvfs::Windows windows(client_.mappings(), memory.address() + begin, length, 0x300);
      const nvfs::Member done = move(member(Direction::read, file, 0, memory.address() + begin, length, windows));
      EXPECT_EQ(done.outcome().count(), length) << begin << " " << length;
      EXPECT_TRUE(same(memory.bytes(begin, length), file.content(0, length)));
      EXPECT_TRUE(all(memory.bytes(0, begin), 0xee));
      EXPECT_TRUE(all(memory.bytes(begin + length, 64 * kKibibyte), 0xee));
    }
  }
}

TEST_F(Transfer, HoldsTheWholeBlocksOfARegistrationOnly) {
  const DeviceMemory memory(kMebibyte);
  const nvfs::Windows windows(client_.mappings(), memory.address() + 100, 3 * kBlock, 0x300);
  EXPECT_TRUE(windows.hold(memory.address() + kBlock, 2 * kBlock));
  EXPECT_FALSE(windows.hold(memory.address() + kBlock, 3 * kBlock));
  EXPECT_FALSE(windows.hold(memory.address(), kBlock));
  const nvfs::Windows none(client_.mappings(), memory.address() + 100, kBlock, 0x300);
  EXPECT_FALSE(none.hold(memory.address() + kBlock, kBlock));
}

TEST_F(Transfer, EndsWhereTheFileEnds) {
  const File file(5000);
  const DeviceMemory memory(kMebibyte);
  nvfs::Windows windows = windows_onto(memory);
  memory.fill(0xee);
  const nvfs::Member done = move(member(Direction::read, file, 0, memory.address(), 16 * kKibibyte, windows));
  EXPECT_EQ(done.outcome().count(), 5000U);
  EXPECT_TRUE(same(memory.bytes(0, 5000), file.content()));
  EXPECT_TRUE(all(memory.bytes(5120, kBlock), 0xee));
  const nvfs::Member behind = move(member(Direction::read, file, 2 * kBlock, memory.address(), kBlock, windows));
  EXPECT_EQ(behind.outcome(), base::Outcome::bytes(0));
}

TEST_F(Transfer, EndsAtTheEarliestEndOfItsParts) {
  const File file(6 * kMebibyte);
  const DeviceMemory memory(16 * kMebibyte);
  nvfs::Windows windows = windows_onto(memory);
  const nvfs::Member done = move(member(Direction::read, file, 0, memory.address(), 16 * kMebibyte, windows));
  EXPECT_EQ(done.outcome().count(), 6 * kMebibyte);
  EXPECT_TRUE(same(memory.bytes(0, 6 * kMebibyte), file.content()));
}

TEST_F(Transfer, ManyGoTogether) {
  constexpr std::uint64_t count = 100;
  const File file(count * 64 * kKibibyte);
  const DeviceMemory memory(count * 64 * kKibibyte);
  nvfs::Windows windows = windows_onto(memory);
  std::vector<nvfs::Member> members;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t there = (i * 37 % count) * 64 * kKibibyte;
    members.push_back(member(Direction::read, file, there, memory.address() + there, 64 * kKibibyte, windows));
  }
  nvfs::Group::run(client_.node(), members);
  for (const nvfs::Member& one : members) EXPECT_EQ(one.outcome().count(), 64 * kKibibyte);
  EXPECT_TRUE(same(memory.bytes(), file.content()));
  EXPECT_EQ(fake_.counts().refused_busy, 0U);
}

TEST_F(Transfer, OfSeveralWindowsGoAtTheSameTime) {
  const File file(16 * kMebibyte);
  const DeviceMemory memory(16 * kMebibyte);
  nvfs::Windows windows = windows_onto(memory);
  fake_.hold();
  std::thread reader([&] {
    const nvfs::Member done = move(member(Direction::read, file, 0, memory.address(), 16 * kMebibyte, windows));
    EXPECT_EQ(done.outcome().count(), 16 * kMebibyte);
  });
  fake_.wait_until_held(4);
  fake_.release();
  reader.join();
  EXPECT_TRUE(same(memory.bytes(), file.content()));
}

TEST_F(Transfer, OfThreadsNeverMeetInOneMapping) {
  const File file(8 * kMebibyte);
  const DeviceMemory memory(8 * kMebibyte);
  nvfs::Windows windows = windows_onto(memory);
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < 50; ++i) {
        const std::uint64_t at = (i * 7 + t) % 8 * kMebibyte;
        const std::uint64_t length = std::min(3 * kMebibyte, 8 * kMebibyte - at);
        const nvfs::Member done = move(member(Direction::read, file, at, memory.address() + at, length, windows));
        EXPECT_EQ(done.outcome().count(), length);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(same(memory.bytes(), file.content()));
  EXPECT_EQ(fake_.counts().refused_busy, 0U);
}

TEST_F(Transfer, AloneGoesBySynchronousCalls) {
  const File file(kMebibyte);
  const DeviceMemory memory(kMebibyte);
  nvfs::Windows windows = windows_onto(memory);
  move(member(Direction::read, file, 0, memory.address(), kMebibyte, windows));
  EXPECT_EQ(fake_.counts().synchronous, 1U);
}

}  // namespace
}  // namespace sluice::nvfs_test
