// SPDX-License-Identifier: Apache-2.0
// What transfers have in common with the incumbent's: bytes and counts, and nothing that lies around them, where the
// two differ on purpose (rows.txt).
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <thread>
#include <vector>

#include "contract/mapped_memory.h"
#include "support/calls.h"
#include "support/cuda_driver.h"

namespace sluice::contract {
namespace {

using namespace support;

constexpr std::size_t kFileSize = 1000003;
constexpr std::size_t kMebibyte = std::size_t{1} << 20U;

struct Range {
  std::size_t size;
  std::size_t file_offset;
  std::size_t buffer_offset;
};

// Every mixture of an aligned and a crooked size, file offset and buffer offset.
std::vector<Range> mixtures() {
  std::vector<Range> all;
  for (const std::size_t size : {std::size_t{1}, std::size_t{4096}, std::size_t{65536}, std::size_t{100001}}) {
    for (const std::size_t file_offset : {std::size_t{0}, std::size_t{4096}, std::size_t{4095}, std::size_t{70001}}) {
      for (const std::size_t buffer_offset : {std::size_t{0}, std::size_t{4096}, std::size_t{77}}) {
        all.push_back({size, file_offset, buffer_offset});
      }
    }
  }
  return all;
}

class AnyAlignment : public CufileTest, public ::testing::WithParamInterface<int> {};

TEST_P(AnyAlignment, IsReadExactly) {
  const ScratchFile file(kFileSize);
  const Fd fd = file.open(O_RDONLY | GetParam());
  const Handle handle(fd);
  const Memory memory(usual_memory(), 200000);
  for (const Range& range : mixtures()) {
    SCOPED_TRACE(::testing::Message() << range.size << " at " << range.file_offset << ", " << range.buffer_offset);
    memory.fill(0);
    EXPECT_EQ(read_file(handle.get(), memory.address(), range.size, static_cast<off_t>(range.file_offset),
                        static_cast<off_t>(range.buffer_offset)),
              moved(range.size));
    EXPECT_TRUE(same_bytes({file.content().data() + range.file_offset, range.size},
                           memory.get(range.buffer_offset, range.size)));
  }
}

TEST_P(AnyAlignment, IsWrittenExactly) {
  const ScratchFile file(kFileSize);
  const Fd fd = file.open(O_RDWR | GetParam());
  const Handle handle(fd);
  const Memory memory(usual_memory(), 200000);
  Bytes expected = file.content();
  std::uint64_t seed = 0;
  for (const Range& range : mixtures()) {
    SCOPED_TRACE(::testing::Message() << range.size << " at " << range.file_offset << ", " << range.buffer_offset);
    const Bytes fresh = random_bytes(range.size, ++seed);
    memory.put(range.buffer_offset, fresh);
    EXPECT_EQ(write_file(handle.get(), memory.address(), range.size, static_cast<off_t>(range.file_offset),
                         static_cast<off_t>(range.buffer_offset)),
              moved(range.size));
    std::copy(fresh.begin(), fresh.end(), expected.begin() + static_cast<std::ptrdiff_t>(range.file_offset));
    ASSERT_TRUE(same_bytes(expected, content_of(file.path())));
  }
}

INSTANTIATE_TEST_SUITE_P(Opened, AnyAlignment, ::testing::Values(0, O_DIRECT));

class Counts : public CufileTest, public ::testing::WithParamInterface<int> {
 protected:
  void SetUp() override {
    CufileTest::SetUp();
    handle_.emplace(fd_);
  }

  const ScratchFile file_{kFileSize};
  const Fd fd_ = file_.open(O_RDWR | GetParam());
  std::optional<Handle> handle_;
  const Memory memory_{usual_memory(), 65536};
};

TEST_P(Counts, AreZeroForASizeOfZero) {
  EXPECT_EQ(read_file(handle_->get(), memory_.address(), 0), moved(0));
  EXPECT_EQ(write_file(handle_->get(), memory_.address(), 0), moved(0));
}

TEST_P(Counts, AreZeroAtTheEndAndBehindIt) {
  for (const std::size_t offset : {kFileSize, kFileSize + 1, kFileSize + 4096, std::size_t{1} << 33U}) {
    EXPECT_EQ(read_file(handle_->get(), memory_.address(), 4096, static_cast<off_t>(offset)), moved(0)) << offset;
  }
}

TEST_P(Counts, AreZeroForAnEmptyFile) {
  const ScratchFile empty;
  const Fd fd = empty.open(O_RDONLY | GetParam());
  const Handle handle(fd);
  EXPECT_EQ(read_file(handle.get(), memory_.address(), 4096), moved(0));
}

TEST_P(Counts, AreShortForARangeThatEndsBehindTheEnd) {
  for (const std::size_t before : {std::size_t{1}, std::size_t{5001}, kFileSize % 4096}) {
    const std::size_t offset = kFileSize - before;
    EXPECT_EQ(read_file(handle_->get(), memory_.address(), 65536, static_cast<off_t>(offset)), moved(before)) << before;
    EXPECT_TRUE(same_bytes({file_.content().data() + offset, before}, memory_.get(0, before))) << before;
  }
}

INSTANTIATE_TEST_SUITE_P(Opened, Counts, ::testing::Values(0, O_DIRECT));

class Holes : public CufileTest {};

TEST_F(Holes, AreReadAsZeros) {
  const ScratchFile file;
  for (const int flags : {O_RDWR, O_RDWR | O_DIRECT}) {
    const Fd fd = file.open(flags);
    ASSERT_EQ(ftruncate(fd.get(), 1 << 20), 0);
    const Handle handle(fd);
    const Memory memory(usual_memory(), 65536);
    memory.fill(5);
    EXPECT_EQ(read_file(handle.get(), memory.address(), 65536, 8192), moved(65536));
    EXPECT_TRUE(all_bytes(0, memory.get()));
  }
}

class AnyMemory : public CufileTest {
 protected:
  void SetUp() override {
    CufileTest::SetUp();
    handle_.emplace(fd_);
  }

  void expect_round_trip(const Memory& memory) const {
    const Bytes bytes = random_bytes(kMebibyte, 11);
    memory.put(0, bytes);
    EXPECT_EQ(write_file(handle_->get(), memory.address(), kMebibyte), moved(kMebibyte));
    memory.fill(0);
    EXPECT_EQ(read_file(handle_->get(), memory.address(), kMebibyte), moved(kMebibyte));
    EXPECT_TRUE(same_bytes(bytes, memory.get()));
  }

  const ScratchFile file_{kMebibyte};
  const Fd fd_ = file_.open(O_RDWR);
  std::optional<Handle> handle_;
};

TEST_F(AnyMemory, OfTheHostOrManagedIsMovedExactly) {
  for (const MemoryKind kind : {MemoryKind::plain, MemoryKind::pinned, MemoryKind::managed}) {
    if (!available(kind)) continue;
    SCOPED_TRACE(name_of(kind));
    expect_round_trip(Memory(kind, kMebibyte));
  }
}

TEST_F(AnyMemory, OfTheHostMayLieAnywhereUnderODirect) {
  const Fd fd = file_.open(O_RDWR | O_DIRECT);
  const Handle handle(fd);
  const Memory memory(MemoryKind::plain, 65536);
  for (const off_t shift : {1, 511, 513}) {
    ASSERT_EQ(read_file(handle.get(), memory.address(), 8192, 4096, shift), moved(8192));
    EXPECT_TRUE(same_bytes({file_.content().data() + 4096, 8192}, memory.get(static_cast<std::size_t>(shift), 8192)));
    EXPECT_EQ(write_file(handle.get(), memory.address(), 8192, 4096, shift), moved(8192));
  }
  EXPECT_TRUE(same_bytes(file_.content(), content_of(file_.path())));
}

TEST_F(AnyMemory, IsMovedOnAThreadWithoutAContext) {
  if (cuda() == nullptr) GTEST_SKIP() << "no CUDA device";
  const Memory memory(MemoryKind::device, kMebibyte);
  std::thread thread([&] { EXPECT_EQ(read_file(handle_->get(), memory.address(), kMebibyte), moved(kMebibyte)); });
  thread.join();
  EXPECT_TRUE(same_bytes(file_.content(), memory.get()));
}

TEST_F(AnyMemory, IsMovedWhereTheContextWasPopped) {
  if (cuda() == nullptr) GTEST_SKIP() << "no CUDA device";
  const Memory memory(MemoryKind::device, kMebibyte);
  CudaContext popped = nullptr;
  ASSERT_EQ(cuda()->context_pop(&popped), 0);
  EXPECT_EQ(read_file(handle_->get(), memory.address(), kMebibyte), moved(kMebibyte));
  ASSERT_EQ(cuda()->context_push(popped), 0);
  EXPECT_TRUE(same_bytes(file_.content(), memory.get()));
}

TEST_F(AnyMemory, ThatWasMappedInOnePieceCanBeRegisteredAndUsed) {
  if (!MappedMemory::available()) GTEST_SKIP() << "no cuMemCreate here";
  const MappedMemory memory(1, 2 * kMebibyte);
  EXPECT_EQ(code(cuFileBufRegister(memory.address(), memory.size(), 0)), CU_FILE_SUCCESS);
  EXPECT_EQ(read_file(handle_->get(), memory.address(), kMebibyte), moved(kMebibyte));
  EXPECT_TRUE(same_bytes(file_.content(), memory.get(0, kMebibyte)));
  EXPECT_EQ(code(cuFileBufDeregister(memory.address())), CU_FILE_SUCCESS);
}

}  // namespace
}  // namespace sluice::contract
