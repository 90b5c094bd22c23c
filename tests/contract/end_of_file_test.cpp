// SPDX-License-Identifier: Apache-2.0
// Ends of files, holes, and files that grow.
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <tuple>

#include "support/calls.h"

namespace sluice::contract {
namespace {

using namespace support;

constexpr std::size_t kFileSize = 3 * 65536 + 1001;
constexpr unsigned char kUntouched = 0xa5;

// Each test runs for each way of opening and each kind of memory.
class EndOfFile : public CufileTest, public ::testing::WithParamInterface<std::tuple<int, MemoryKind>> {
 protected:
  void SetUp() override {
    CufileTest::SetUp();
    if (!available(kind())) GTEST_SKIP() << "no CUDA device";
  }
  static int flags() { return std::get<0>(GetParam()); }
  static MemoryKind kind() { return std::get<1>(GetParam()); }
};

// Reads into memory that was filled before; checks the count, the bytes, and that all others are untouched.
void expect_read(CUfileHandle_t handle, MemoryKind kind, std::size_t size, std::size_t offset,
                 std::span<const unsigned char> expected, std::size_t buffer_offset) {
  const Memory memory(kind, buffer_offset + size + 8192);
  memory.fill(kUntouched);
  EXPECT_EQ(read_file(handle, memory.address(), size, static_cast<off_t>(offset), static_cast<off_t>(buffer_offset)),
            moved(expected.size()));
  EXPECT_TRUE(all_bytes(kUntouched, memory.get(0, buffer_offset))) << "before the range";
  EXPECT_TRUE(same_bytes(expected, memory.get(buffer_offset, expected.size())));
  const std::size_t end = buffer_offset + expected.size();
  EXPECT_TRUE(all_bytes(kUntouched, memory.get(end, memory.size() - end))) << "behind the count";
}

TEST_P(EndOfFile, AShortReadLeavesTheBytesBehindTheCountUntouched) {
  const ScratchFile file(kFileSize);
  const Fd fd = file.open(O_RDWR | flags());
  const Handle handle(fd);
  const std::span<const unsigned char> content(file.content());
  for (const std::size_t before : {std::size_t{1}, std::size_t{1001}, std::size_t{4096}, std::size_t{65536 + 1001}}) {
    for (const std::size_t size : {before + 1, before + 4095, before + 200000}) {
      for (const std::size_t buffer_offset : {std::size_t{0}, std::size_t{4096}, std::size_t{77}}) {
        SCOPED_TRACE(::testing::Message()
                     << before << " bytes before the end, size " << size << ", buffer offset " << buffer_offset);
        expect_read(handle.get(), kind(), size, kFileSize - before, content.last(before), buffer_offset);
      }
    }
  }
}

TEST_P(EndOfFile, ReadingAtOrPastTheEndMovesNothing) {
  const ScratchFile file(kFileSize);
  const Fd fd = file.open(O_RDWR | flags());
  const Handle handle(fd);
  for (const std::size_t past : {std::size_t{0}, std::size_t{1}, std::size_t{3095}, std::size_t{1} << 33U}) {
    SCOPED_TRACE(past);
    expect_read(handle.get(), kind(), 8192, kFileSize + past, {}, 0);
    expect_read(handle.get(), kind(), 1, kFileSize + past, {}, 3);
  }
}

TEST_P(EndOfFile, AnEmptyFileHasNothingToRead) {
  const ScratchFile file;
  const Fd fd = file.open(O_RDWR | flags());
  const Handle handle(fd);
  expect_read(handle.get(), kind(), 65536, 0, {}, 0);
  expect_read(handle.get(), kind(), 65536, 4096, {}, 0);
}

TEST_P(EndOfFile, SizeZeroMovesNothingAnywhere) {
  const ScratchFile file(kFileSize);
  const Fd fd = file.open(O_RDWR | flags());
  const Handle handle(fd);
  for (const std::size_t offset : {std::size_t{0}, std::size_t{7}, kFileSize, kFileSize + 4096}) {
    expect_read(handle.get(), kind(), 0, offset, {}, 5);
    const Memory memory(kind(), 4096);
    EXPECT_EQ(write_file(handle.get(), memory.address(), 0, static_cast<off_t>(offset)), moved(0));
  }
  EXPECT_EQ(file_size(fd.get()), kFileSize);
}

TEST_P(EndOfFile, HolesReadAsZeros) {
  const ScratchFile file;
  const Fd fd = file.open(O_RDWR | flags());
  const Bytes island = random_bytes(5000, 4);
  const Fd plain = file.open(O_RDWR);
  plain_write(plain.get(), 1000000, island);
  ASSERT_EQ(ftruncate(plain.get(), 3000001), 0);
  Bytes expected(3000001, 0);
  std::copy(island.begin(), island.end(), expected.begin() + 1000000);
  const Handle handle(fd);
  const std::span<const unsigned char> all(expected);
  expect_read(handle.get(), kind(), expected.size() + 5, 0, all, 0);
  expect_read(handle.get(), kind(), 65536, 8192, all.subspan(8192, 65536), 0);
  expect_read(handle.get(), kind(), 10001, 999999, all.subspan(999999, 10001), 13);
}

TEST_P(EndOfFile, AWritePastTheEndGrowsTheFileToExactlyItsEnd) {
  for (const std::size_t gap : {std::size_t{0}, std::size_t{1}, std::size_t{4095}, std::size_t{100000}}) {
    for (const std::size_t size : {std::size_t{1}, std::size_t{4096}, std::size_t{70001}}) {
      SCOPED_TRACE(::testing::Message() << "gap " << gap << ", size " << size);
      const ScratchFile file(kFileSize);
      const Fd fd = file.open(O_RDWR | flags());
      const Handle handle(fd);
      const Memory memory(kind(), size);
      const Bytes written = random_bytes(size, 5);
      memory.put(0, written);
      EXPECT_EQ(write_file(handle.get(), memory.address(), size, static_cast<off_t>(kFileSize + gap)), moved(size));
      Bytes expected = file.content();
      expected.resize(kFileSize + gap, 0);
      expected.insert(expected.end(), written.begin(), written.end());
      EXPECT_TRUE(same_bytes(expected, content_of(file.path())));
    }
  }
}

TEST_P(EndOfFile, AWriteAcrossTheEndKeepsWhatLiesBefore) {
  const ScratchFile file(kFileSize);
  const Fd fd = file.open(O_RDWR | flags());
  const Handle handle(fd);
  const Memory memory(kind(), 100003);
  const Bytes written = random_bytes(100003, 6);
  memory.put(0, written);
  const std::size_t offset = kFileSize - 5003;
  EXPECT_EQ(write_file(handle.get(), memory.address(), 100003, static_cast<off_t>(offset)), moved(100003));
  Bytes expected = file.content();
  expected.resize(offset);
  expected.insert(expected.end(), written.begin(), written.end());
  EXPECT_TRUE(same_bytes(expected, content_of(file.path())));
}

std::string name_of_parameters(const ::testing::TestParamInfo<std::tuple<int, MemoryKind>>& info) {
  const bool direct = (std::get<0>(info.param) & O_DIRECT) != 0;
  return std::string(direct ? "direct_" : "buffered_") + name_of(std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(Each, EndOfFile,
                         ::testing::Combine(::testing::Values(0, O_DIRECT),
                                            ::testing::Values(MemoryKind::plain, MemoryKind::device,
                                                              MemoryKind::managed)),
                         name_of_parameters);

}  // namespace
}  // namespace sluice::contract
