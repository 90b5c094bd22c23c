// SPDX-License-Identifier: Apache-2.0
// Transfers and offsets beyond 4 GiB. The transfers need as much memory; they are skipped where there is too little.
#include <gtest/gtest.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <string>

#include "support/calls.h"

namespace sluice::contract {
namespace {

using namespace support;

constexpr std::size_t kGibibyte = std::size_t{1} << 30U;
constexpr std::size_t kLarge = 4 * kGibibyte + 123457;
constexpr std::size_t kIsland = 100000;
constexpr std::size_t kSample = std::size_t{64} << 10U;
constexpr std::size_t kFromSampleToSample = 17 * kSample;

class FarOffsets : public CufileTest {};

TEST_F(FarOffsets, AreReadAndWrittenExactly) {
  const ScratchFile file;
  for (const int flags : {O_RDWR, O_RDWR | O_DIRECT}) {
    const Fd fd = file.open(flags);
    const Handle handle(fd);
    const Memory memory(usual_memory(), 100001);
    for (const std::size_t offset : {4 * kGibibyte - 5000, 4 * kGibibyte + 1, 9 * kGibibyte + 4096}) {
      SCOPED_TRACE(offset);
      const Bytes bytes = random_bytes(100001, offset + static_cast<std::size_t>(flags));
      memory.put(0, bytes);
      EXPECT_EQ(write_file(handle.get(), memory.address(), 100001, static_cast<off_t>(offset)), moved(100001));
      memory.fill(0);
      EXPECT_EQ(read_file(handle.get(), memory.address(), 100001, static_cast<off_t>(offset)), moved(100001));
      EXPECT_TRUE(same_bytes(bytes, memory.get()));
    }
  }
}

class Large : public CufileTest {
 protected:
  static std::size_t available_memory() {
    std::ifstream table("/proc/meminfo");
    std::size_t kibibytes = 0;
    for (std::string word; table >> word;) {
      if (word == "MemAvailable:") table >> kibibytes;
    }
    return kibibytes * 1024;
  }

  void SetUp() override {
    CufileTest::SetUp();
    if (available_memory() < kLarge + 4 * kGibibyte) GTEST_SKIP() << "too little memory for a transfer of 4 GiB";
  }

  // Around the places where a count of 31 or 32 bits would wrap, and the ends.
  static constexpr std::array islands{std::size_t{0}, 2 * kGibibyte - 70000, 4 * kGibibyte - 70000, kLarge - 70000};

  static void write_islands(int fd) {
    for (const std::size_t at : islands) plain_write(fd, at, random_bytes(kIsland, at));
  }

  static void expect_same(const Memory& memory, int fd, std::size_t at, std::size_t length) {
    ASSERT_TRUE(same_bytes(plain_read(fd, at, length), memory.get(at, length))) << length << " bytes at " << at;
  }

  // All of the islands, and of the rest each seventeenth piece: what goes round by powers of two is seen in all of its
  // places.
  static void expect_same(const Memory& memory, int fd) {
    for (const std::size_t at : islands) expect_same(memory, fd, at, std::min(kIsland, kLarge - at));
    for (std::size_t at = 0; at + kSample <= kLarge && !HasFatalFailure(); at += kFromSampleToSample) {
      expect_same(memory, fd, at, kSample);
    }
  }
};

TEST_F(Large, Reads3GiBInOneCall) {
  constexpr std::size_t size = 3 * kGibibyte;
  const ScratchFile file;
  const Fd fd = file.open(O_RDWR);
  const Fd plain = file.open(O_RDWR);
  write_islands(plain.get());
  const Handle handle(fd);
  const Memory memory(usual_memory(), size);
  EXPECT_EQ(read_file(handle.get(), memory.address(), size), moved(size));
  const std::size_t island = 2 * kGibibyte - 70000;
  expect_same(memory, plain.get(), island, kIsland);
}

TEST_F(Large, ReadsMoreThan4GiBInOneCall) {
  for (const MemoryKind kind : {usual_memory(), MemoryKind::plain}) {
    SCOPED_TRACE(name_of(kind));
    const ScratchFile file;
    const Fd fd = file.open(O_RDWR | (kind == MemoryKind::plain ? O_DIRECT : 0));
    const Fd plain = file.open(O_RDWR);
    write_islands(plain.get());
    const Handle handle(fd);
    const Memory memory(kind, kLarge);
    memory.fill(1);
    ASSERT_EQ(read_file(handle.get(), memory.address(), kLarge), moved(kLarge));
    expect_same(memory, plain.get());
  }
}

TEST_F(Large, WritesMoreThan4GiBInOneCall) {
  const Place* here = find_place("here");
  struct statvfs space {};
  if (here == nullptr || statvfs(here->path.c_str(), &space) != 0 ||
      space.f_bavail * space.f_frsize < kLarge + 4 * kGibibyte) {
    GTEST_SKIP() << "too little space for a file of 4 GiB";
  }
  const ScratchFile file({}, here->path);
  const Fd fd = file.open(O_RDWR);
  const Handle handle(fd);
  const Memory memory(usual_memory(), kLarge);
  memory.fill(9);
  for (const std::size_t at : {2 * kGibibyte - 70000, 4 * kGibibyte - 70000}) memory.put(at, random_bytes(kIsland, at));
  ASSERT_EQ(write_file(handle.get(), memory.address(), kLarge), moved(kLarge));
  ASSERT_EQ(file_size(fd.get()), kLarge);
  expect_same(memory, fd.get());
}

}  // namespace
}  // namespace sluice::contract
