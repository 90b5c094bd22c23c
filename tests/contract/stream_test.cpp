// SPDX-License-Identifier: Apache-2.0
// Transfers in the order of a stream.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <future>
#include <thread>
#include <utility>

#include "support/calls.h"
#include "support/cuda_driver.h"
#include "support/stream_gate.h"

namespace sluice::contract::stream_test {
namespace {

using namespace support;

constexpr std::size_t kFileSize = 1000003;
constexpr std::size_t kRoom = 600000;

// The arguments of one operation, in pinned memory, where a stream can write them.
struct Arguments {
  std::size_t size;
  off_t file_offset;
  off_t buffer_offset;
  ssize_t moved;
};

class Streams : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (cuda() == nullptr) return;
    ASSERT_EQ(register_fd(fd_.get(), &handle_), CU_FILE_SUCCESS);
    *arguments_ = {};
  }
  void TearDown() override {
    cuFileHandleDeregister(handle_);
    DeviceTest::TearDown();
  }

  void set(std::size_t size, std::size_t file_offset, std::size_t buffer_offset) {
    *arguments_ = {size, static_cast<off_t>(file_offset), static_cast<off_t>(buffer_offset), -77};
  }
  // While the stream may be telling of it.
  ssize_t moved_meanwhile() { return std::atomic_ref(arguments_->moved).load(); }
  int read(CUstream stream, const Memory& memory) {
    return code(cuFileReadAsync(handle_, memory.address(), &arguments_->size, &arguments_->file_offset,
                                &arguments_->buffer_offset, &arguments_->moved, stream));
  }
  // tests/support/tsan.supp knows it by this name.
  [[gnu::noinline]] int read_while_its_size_is_written(CUstream stream, const Memory& memory) {
    return read(stream, memory);
  }
  int write(CUstream stream, const Memory& memory) {
    return code(cuFileWriteAsync(handle_, memory.address(), &arguments_->size, &arguments_->file_offset,
                                 &arguments_->buffer_offset, &arguments_->moved, stream));
  }
  // Reads through the stream and checks count and bytes.
  void expect_read(CUstream stream, const Memory& memory, std::size_t size, std::size_t file_offset,
                   std::size_t buffer_offset) {
    SCOPED_TRACE(::testing::Message() << "size " << size << " at " << file_offset << ", buffer " << buffer_offset);
    memory.fill(6);
    set(size, file_offset, buffer_offset);
    ASSERT_EQ(read(stream, memory), CU_FILE_SUCCESS);
    ASSERT_EQ(cuda()->stream_synchronize(stream), 0);
    ASSERT_EQ(arguments_->moved, static_cast<ssize_t>(size));
    EXPECT_TRUE(same_bytes({file_.content().data() + file_offset, size}, memory.get(buffer_offset, size)));
    EXPECT_TRUE(all_bytes(6, memory.get(0, buffer_offset)));
    EXPECT_TRUE(all_bytes(6, memory.get(buffer_offset + size, memory.size() - buffer_offset - size)));
  }

  void expect_nulls_refused(CUstream s, void* base) {
    Arguments& a = *arguments_;
    EXPECT_EQ(code(cuFileReadAsync(nullptr, base, &a.size, &a.file_offset, &a.buffer_offset, &a.moved, s)),
              CU_FILE_INVALID_VALUE);
    EXPECT_EQ(code(cuFileReadAsync(handle_, nullptr, &a.size, &a.file_offset, &a.buffer_offset, &a.moved, s)),
              CU_FILE_INVALID_VALUE);
    EXPECT_EQ(code(cuFileReadAsync(handle_, base, nullptr, &a.file_offset, &a.buffer_offset, &a.moved, s)),
              CU_FILE_INVALID_VALUE);
    EXPECT_EQ(code(cuFileReadAsync(handle_, base, &a.size, nullptr, &a.buffer_offset, &a.moved, s)),
              CU_FILE_INVALID_VALUE);
    EXPECT_EQ(code(cuFileReadAsync(handle_, base, &a.size, &a.file_offset, nullptr, &a.moved, s)),
              CU_FILE_INVALID_VALUE);
    EXPECT_EQ(code(cuFileWriteAsync(handle_, base, &a.size, &a.file_offset, &a.buffer_offset, nullptr, s)),
              CU_FILE_INVALID_VALUE);
  }

  const ScratchFile file_{kFileSize};
  const Fd fd_ = file_.open(O_RDWR);
  CUfileHandle_t handle_ = nullptr;
  const Memory pinned_{available(MemoryKind::pinned) ? MemoryKind::pinned : MemoryKind::plain, sizeof(Arguments)};
  Arguments* arguments_ = static_cast<Arguments*>(pinned_.address());
};

TEST_F(Streams, ReadExactlyWhateverTheAlignment) {
  const Stream stream;
  const Memory memory(MemoryKind::device, kRoom);
  expect_read(stream.get(), memory, 4096, 0, 0);
  expect_read(stream.get(), memory, 8192, 65536, 4096);
  expect_read(stream.get(), memory, 500001, 77, 13);
  expect_read(stream.get(), memory, 1, 4095, 1);
}

TEST_F(Streams, ReadWhatIsNotWholePagesOnAStreamForWholePages) {
  const Memory memory(MemoryKind::device, kRoom);
  for (const unsigned fixed : {0U, 7U}) {
    const Stream aligned;
    ASSERT_EQ(code(cuFileStreamRegister(aligned.get(), CU_FILE_STREAM_PAGE_ALIGNED_INPUTS | fixed)), CU_FILE_SUCCESS);
    expect_read(aligned.get(), memory, 100, 512, 512);
    expect_read(aligned.get(), memory, 4096, 0, 0);
    EXPECT_EQ(code(cuFileStreamDeregister(aligned.get())), CU_FILE_SUCCESS);
  }
}

TEST_F(Streams, RefuseAtOnceWhatIsNotWholePagesAndInNoFile) {
  const Memory memory(MemoryKind::device, kRoom);
  const Stream aligned;
  ASSERT_EQ(code(cuFileStreamRegister(aligned.get(), 15)), CU_FILE_SUCCESS);
  set(512, 0, 0);
  arguments_->file_offset = -512;
  EXPECT_EQ(read(aligned.get(), memory), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(arguments_->moved, -EINVAL);
  EXPECT_EQ(code(cuFileStreamDeregister(aligned.get())), CU_FILE_SUCCESS);
}

TEST_F(Streams, LoseNoContextByOffsetsBeforeTheMemory) {
  const Stream stream;
  const Memory memory(MemoryKind::device, kRoom);
  for (const bool writes : {false, true}) {
    set(std::size_t{1} << 41U, 0, 0);
    arguments_->buffer_offset = -(off_t{1} << 40U);
    EXPECT_EQ(writes ? write(stream.get(), memory) : read(stream.get(), memory), CU_FILE_SUCCESS);
    EXPECT_EQ(cuda()->stream_synchronize(stream.get()), 0);
    EXPECT_EQ(arguments_->moved, -EPERM);
  }
  EXPECT_TRUE(same_bytes(file_.content(), content_of(file_.path())));
}

TEST_F(Streams, ReadIntoEveryKindOfMemory) {
  const Stream stream;
  for (const MemoryKind kind : {MemoryKind::plain, MemoryKind::pinned, MemoryKind::managed, MemoryKind::device}) {
    SCOPED_TRACE(name_of(kind));
    const Memory memory(kind, kRoom);
    expect_read(stream.get(), memory, 70000, 4096, 0);
    const Registration registration(memory);
    expect_read(stream.get(), memory, 70001, 4097, 5);
  }
}

TEST_F(Streams, ReadAlignedRangesExactly) {
  const Stream plain;
  const Stream registered;
  ASSERT_EQ(code(cuFileStreamRegister(registered.get(), 15)), CU_FILE_SUCCESS);
  for (const MemoryKind kind : {MemoryKind::device, MemoryKind::plain, MemoryKind::pinned}) {
    SCOPED_TRACE(name_of(kind));
    const Memory memory(kind, kRoom);
    for (CUstream stream : {CUstream{}, plain.get(), registered.get()}) expect_read(stream, memory, 65536, 8192, 4096);
  }
  EXPECT_EQ(code(cuFileStreamDeregister(registered.get())), CU_FILE_SUCCESS);
}

TEST_F(Streams, TheDefaultStreamsWork) {
  const Memory memory(MemoryKind::device, kRoom);
  const auto legacy = reinterpret_cast<CUstream>(std::uintptr_t{1});
  const auto per_thread = reinterpret_cast<CUstream>(std::uintptr_t{2});
  for (CUstream stream : {CUstream{}, legacy, per_thread}) expect_read(stream, memory, 70001, 5, 3);
}

TEST_F(Streams, RegisteredOnesWorkWithEveryCombinationOfFlags) {
  const Memory memory(MemoryKind::device, kRoom);
  for (unsigned flags = 0; flags <= 15; ++flags) {
    SCOPED_TRACE(flags);
    const Stream stream;
    ASSERT_EQ(code(cuFileStreamRegister(stream.get(), flags)), CU_FILE_SUCCESS);
    expect_read(stream.get(), memory, 8192, 4096, 4096);
    EXPECT_EQ(code(cuFileStreamDeregister(stream.get())), CU_FILE_SUCCESS);
  }
}

TEST_F(Streams, AreRegisteredWithUnknownFlagsToo) {
  const Memory memory(MemoryKind::device, kRoom);
  for (const unsigned flags : {16U, 31U, 0x80000000U}) {
    SCOPED_TRACE(flags);
    const Stream stream;
    ASSERT_EQ(code(cuFileStreamRegister(stream.get(), flags)), CU_FILE_SUCCESS);
    expect_read(stream.get(), memory, 8192, 4096, 0);
    EXPECT_EQ(code(cuFileStreamDeregister(stream.get())), CU_FILE_SUCCESS);
  }
}

TEST_F(Streams, AreRegisteredOnce) {
  const Stream stream;
  EXPECT_EQ(code(cuFileStreamDeregister(stream.get())), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(code(cuFileStreamRegister(stream.get(), 15)), CU_FILE_SUCCESS);
  EXPECT_EQ(code(cuFileStreamRegister(stream.get(), 15)), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(code(cuFileStreamDeregister(stream.get())), CU_FILE_SUCCESS);
  EXPECT_EQ(code(cuFileStreamDeregister(stream.get())), CU_FILE_INVALID_VALUE);
}

TEST_F(Streams, TheDefaultStreamCanBeRegistered) {
  EXPECT_EQ(code(cuFileStreamRegister(nullptr, 0)), CU_FILE_SUCCESS);
  EXPECT_EQ(code(cuFileStreamDeregister(nullptr)), CU_FILE_SUCCESS);
}

TEST_F(Streams, AreDeregisteredByTheLastClose) {
  const Stream stream;
  ASSERT_EQ(code(cuFileStreamRegister(stream.get(), 15)), CU_FILE_SUCCESS);
  close_driver_fully();
  EXPECT_EQ(code(cuFileStreamRegister(stream.get(), 15)), CU_FILE_SUCCESS);
  EXPECT_EQ(code(cuFileStreamDeregister(stream.get())), CU_FILE_SUCCESS);
}

TEST_F(Streams, HonourArgumentsThatEarlierWorkWrites) {
  const Stream stream;
  const Memory memory(MemoryKind::device, kRoom);
  const Memory staged(MemoryKind::device, sizeof(Arguments));
  const Arguments late{70001, 4097, 11, -77};
  Bytes bytes(sizeof late);
  std::memcpy(bytes.data(), &late, sizeof late);
  staged.put(0, bytes);
  memory.fill(6);
  set(100000, 0, 0);
  ASSERT_EQ(
      cuda()->to_host_async(arguments_, reinterpret_cast<CudaAddress>(staged.address()), sizeof late, stream.get()), 0);
  ASSERT_EQ(read_while_its_size_is_written(stream.get(), memory), CU_FILE_SUCCESS);
  stream.synchronize();
  EXPECT_EQ(arguments_->moved, 70001);
  EXPECT_TRUE(same_bytes({file_.content().data() + 4097, 70001}, memory.get(11, 70001)));
  EXPECT_TRUE(all_bytes(6, memory.get(11 + 70001, kRoom - 11 - 70001)));
}

TEST_F(Streams, KeepTheOrderOfAlignedWork) {
  const Stream stream;
  const Memory memory(MemoryKind::device, 65536);
  const auto address = reinterpret_cast<CudaAddress>(memory.address());
  set(65536, 4096, 0);
  ASSERT_EQ(cuda()->fill_async(address, 9, 65536, stream.get()), 0);
  ASSERT_EQ(write(stream.get(), memory), CU_FILE_SUCCESS);
  ASSERT_EQ(cuda()->fill_async(address, 0, 65536, stream.get()), 0);
  ASSERT_EQ(read(stream.get(), memory), CU_FILE_SUCCESS);
  stream.synchronize();
  EXPECT_EQ(arguments_->moved, 65536);
  EXPECT_TRUE(all_bytes(9, memory.get()));
}

TEST_F(Streams, KeepTheOrderOfTheirWork) {
  const Stream stream;
  const Memory memory(MemoryKind::device, kRoom);
  const auto address = reinterpret_cast<CudaAddress>(memory.address());
  for (unsigned char round = 1; round <= 10; ++round) {
    set(300001, 1001, 3);
    ASSERT_EQ(cuda()->fill_async(address, round, kRoom, stream.get()), 0);
    ASSERT_EQ(write(stream.get(), memory), CU_FILE_SUCCESS);
    ASSERT_EQ(cuda()->fill_async(address, 0, kRoom, stream.get()), 0);
    ASSERT_EQ(read(stream.get(), memory), CU_FILE_SUCCESS);
    stream.synchronize();
    ASSERT_EQ(arguments_->moved, 300001);
    ASSERT_TRUE(all_bytes(round, memory.get(3, 300001)));
    ASSERT_TRUE(all_bytes(0, memory.get(0, 3)));
  }
}

TEST_F(Streams, TellShortCountsAtTheEndOfTheFile) {
  const Stream stream;
  const Memory memory(MemoryKind::device, kRoom);
  const std::size_t last_block = kFileSize / 4096 * 4096;
  for (const std::size_t offset : {last_block, last_block + 4096}) {
    set(8192, offset, 0);
    ASSERT_EQ(read(stream.get(), memory), CU_FILE_SUCCESS);
    stream.synchronize();
    EXPECT_EQ(arguments_->moved, static_cast<ssize_t>(kFileSize - std::min(kFileSize, offset))) << offset;
  }
}

TEST_F(Streams, EndShortAtTheEndOfTheFile) {
  const Stream stream;
  const Memory memory(MemoryKind::device, kRoom);
  memory.fill(6);
  set(8192, kFileSize - 1000, 0);
  ASSERT_EQ(read(stream.get(), memory), CU_FILE_SUCCESS);
  stream.synchronize();
  EXPECT_EQ(arguments_->moved, 1000);
  EXPECT_TRUE(same_bytes({file_.content().data() + kFileSize - 1000, 1000}, memory.get(0, 1000)));
  EXPECT_TRUE(all_bytes(6, memory.get(1000, kRoom - 1000)));
  set(8192, kFileSize, 0);
  ASSERT_EQ(read(stream.get(), memory), CU_FILE_SUCCESS);
  stream.synchronize();
  EXPECT_EQ(arguments_->moved, 0);
}

TEST_F(Streams, EndShortAtTheEndOfTheFileWhereSeveralThreadsReadForThem) {
  const Stream stream;
  const Memory memory(MemoryKind::device, kRoom);
  for (const std::size_t there : {std::size_t{1}, std::size_t{200001}, std::size_t{499999}}) {
    SCOPED_TRACE(there);
    memory.fill(6);
    set(500000, kFileSize - there, 7);
    ASSERT_EQ(read(stream.get(), memory), CU_FILE_SUCCESS);
    stream.synchronize();
    EXPECT_EQ(arguments_->moved, static_cast<ssize_t>(there));
    EXPECT_TRUE(same_bytes({file_.content().data() + kFileSize - there, there}, memory.get(7, there)));
    EXPECT_TRUE(all_bytes(6, memory.get(7 + there, kRoom - 7 - there)));
  }
}

TEST_F(Streams, ReadFromADiskWhateverTheAlignment) {
  constexpr std::size_t content = 6'000'123;
  constexpr std::size_t room = 5'000'000;
  const ScratchFile file(content);
  const Fd fd = file.open(O_RDONLY | O_DIRECT);
  const Handle handle(fd);
  const Memory memory(MemoryKind::device, room);
  const Stream stream;
  Random random(run_seed());
  for (int round = 0; round < 24; ++round) {
    // A piece, a request of neighbours, as many as there are places for, and more.
    const std::size_t longest = std::array<std::size_t, 4>{100'000, 500'000, 1'500'000, 4'500'000}[random.below(4)];
    const std::size_t grain = std::array<std::size_t, 3>{1, 512, 4096}[random.below(3)];
    const std::size_t size = 1 + random.below(longest);
    const std::size_t at = random.below(content + 5000) / grain * grain;
    const std::size_t to = random.below(room - size + 1);
    SCOPED_TRACE(::testing::Message() << "SLUICE_TEST_SEED=" << run_seed() << ": size " << size << " at " << at
                                      << ", buffer " << to);
    memory.fill(6);
    set(size, at, to);
    ASSERT_EQ(code(cuFileReadAsync(handle.get(), memory.address(), &arguments_->size, &arguments_->file_offset,
                                   &arguments_->buffer_offset, &arguments_->moved, stream.get())),
              CU_FILE_SUCCESS);
    stream.synchronize();
    const std::size_t there = std::min(size, content - std::min(content, at));
    ASSERT_EQ(arguments_->moved, static_cast<ssize_t>(there));
    EXPECT_TRUE(same_bytes(std::span(file.content()).subspan(std::min(content, at), there), memory.get(to, there)));
    EXPECT_TRUE(all_bytes(6, memory.get(0, to)));
    ASSERT_TRUE(all_bytes(6, memory.get(to + there, room - to - there)));
  }
}

TEST_F(Streams, RefuseNullArguments) {
  const Stream stream;
  const Memory memory(MemoryKind::device, kRoom);
  set(4096, 0, 0);
  expect_nulls_refused(stream.get(), memory.address());
  stream.synchronize();
}

TEST_F(Streams, TellOfNullArgumentsThroughTheCountToo) {
  const Stream stream;
  const Memory memory(MemoryKind::device, kRoom);
  set(4096, 0, 0);
  expect_nulls_refused(stream.get(), memory.address());
  stream.synchronize();
  EXPECT_EQ(arguments_->moved, -EINVAL);
}

TEST_F(Streams, TellOfNothingAtOnce) {
  const Stream stream;
  const Memory memory(MemoryKind::device, kRoom);
  set(0, 0, 0);
  ASSERT_EQ(read(stream.get(), memory), CU_FILE_SUCCESS);
  EXPECT_EQ(moved_meanwhile(), 0);
  stream.synchronize();
  EXPECT_EQ(arguments_->moved, 0);
  set(0, 0, 0);
  ASSERT_EQ(write(stream.get(), memory), CU_FILE_SUCCESS);
  EXPECT_EQ(moved_meanwhile(), 0);
  stream.synchronize();
  EXPECT_EQ(arguments_->moved, 0);
}

TEST_F(Streams, LookAtNoHandleForNothing) {
  const Stream stream;
  const Memory memory(MemoryKind::device, kRoom);
  for (const std::uintptr_t garbage : {std::uintptr_t{0}, std::uintptr_t{0x1234567}}) {
    set(0, 0, 0);
    EXPECT_EQ(
        code(cuFileReadAsync(reinterpret_cast<CUfileHandle_t>(garbage), memory.address(), &arguments_->size,
                             &arguments_->file_offset, &arguments_->buffer_offset, &arguments_->moved, stream.get())),
        CU_FILE_SUCCESS);
    stream.synchronize();
    EXPECT_EQ(arguments_->moved, 0);
  }
}

TEST_F(Streams, LookAtNothingElseForNothing) {
  const Stream stream;
  const Memory memory(MemoryKind::device, kRoom);
  const Fd writer = file_.open(O_WRONLY);
  const Handle write_only(writer);
  for (const off_t offset : {0, -4096}) {
    set(0, 0, 0);
    arguments_->file_offset = offset;
    arguments_->moved = 7;
    ASSERT_EQ(code(cuFileReadAsync(write_only.get(), memory.address(), &arguments_->size, &arguments_->file_offset,
                                   &arguments_->buffer_offset, &arguments_->moved, stream.get())),
              CU_FILE_SUCCESS);
    stream.synchronize();
    EXPECT_EQ(arguments_->moved, 0) << offset;
  }
}

TEST_F(Streams, RefuseSizesOfWhichNoCountTells) {
  const Stream stream;
  const Memory memory(MemoryKind::device, kRoom);
  set(INT64_MAX, 4096, 0);
  EXPECT_EQ(read(stream.get(), memory), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(arguments_->moved, -EINVAL);
}

TEST_F(Streams, TellOfRangesThatEndBeyondTheLargestOffsetThroughTheCount) {
  const Stream stream;
  const Memory memory(MemoryKind::device, kRoom);
  set(1, INT64_MAX, 0);
  EXPECT_EQ(read(stream.get(), memory), CU_FILE_SUCCESS);
  stream.synchronize();
  EXPECT_EQ(arguments_->moved, -1);
}

// With an offset from a pointer that was not registered, NVIDIA's library has another code for all that cannot be.
TEST_F(Streams, TellThatAFileOpenedForReadingCannotBeWritten) {
  const Stream stream;
  const Memory memory(MemoryKind::device, kRoom);
  for (const int flag : {0, O_DIRECT}) {
    const Fd reader = file_.open(O_RDONLY | flag);
    const Handle read_only(reader);
    for (const auto& [offset, told] : {std::pair<std::size_t, ssize_t>{0, -EPERM}, {4096, -EIO}}) {
      set(4096, 0, offset);
      ASSERT_EQ(code(cuFileWriteAsync(read_only.get(), memory.address(), &arguments_->size, &arguments_->file_offset,
                                      &arguments_->buffer_offset, &arguments_->moved, stream.get())),
                CU_FILE_SUCCESS);
      stream.synchronize();
      EXPECT_EQ(arguments_->moved, told);
    }
  }
}

TEST_F(Streams, ReadNothingThroughADescriptorThatOnlyNamesItsFile) {
  const Stream stream;
  const Memory memory(MemoryKind::device, kRoom);
  const Fd path = file_.open(O_PATH);
  const Handle names_only(path);
  set(4096, 0, 0);
  ASSERT_EQ(code(cuFileReadAsync(names_only.get(), memory.address(), &arguments_->size, &arguments_->file_offset,
                                 &arguments_->buffer_offset, &arguments_->moved, stream.get())),
            CU_FILE_SUCCESS);
  stream.synchronize();
  EXPECT_EQ(arguments_->moved, -EPERM);
}

TEST_F(Streams, TellOfARangeBeyondWhatIsRegisteredWhateverItsFileOffset) {
  const Stream stream;
  const Memory memory(MemoryKind::device, kRoom);
  const Registration registration(memory.address(), 65536);
  set(131072, 0, 0);
  arguments_->file_offset = -4096;
  ASSERT_EQ(read(stream.get(), memory), CU_FILE_SUCCESS);
  stream.synchronize();
  EXPECT_EQ(arguments_->moved, -CU_FILE_INVALID_MAPPING_SIZE);
}

TEST_F(Streams, TellThatAFileOpenedForReadingCannotBeWrittenUnlessTheRangeIsWrong) {
  const Stream stream;
  const Memory memory(MemoryKind::device, kRoom);
  const Registration registration(memory.address(), 65536);
  const Fd reader = file_.open(O_RDONLY);
  const Handle read_only(reader);
  for (const auto& [size, told] :
       {std::pair<std::size_t, ssize_t>{4096, -1}, {131072, -CU_FILE_INVALID_MAPPING_SIZE}}) {
    set(size, 0, 0);
    ASSERT_EQ(code(cuFileWriteAsync(read_only.get(), memory.address(), &arguments_->size, &arguments_->file_offset,
                                    &arguments_->buffer_offset, &arguments_->moved, stream.get())),
              CU_FILE_SUCCESS);
    stream.synchronize();
    EXPECT_EQ(arguments_->moved, told);
  }
}

TEST_F(Streams, TellOfADeregisteredHandleThroughTheCount) {
  const Stream stream;
  const Memory memory(MemoryKind::device, kRoom);
  set(4096, 0, 0);
  cuFileHandleDeregister(handle_);
  EXPECT_EQ(read(stream.get(), memory), CU_FILE_SUCCESS);
  stream.synchronize();
  EXPECT_EQ(arguments_->moved, -CU_FILE_HANDLE_NOT_REGISTERED);
}

TEST_F(Streams, RefuseGarbageHandlesAndSizesThroughTheCountToo) {
  const Stream stream;
  const Memory memory(MemoryKind::device, kRoom);
  set(4096, 0, 0);
  const auto garbage = reinterpret_cast<CUfileHandle_t>(std::uintptr_t{0x1234567});
  EXPECT_EQ(code(cuFileReadAsync(garbage, memory.address(), &arguments_->size, &arguments_->file_offset,
                                 &arguments_->buffer_offset, &arguments_->moved, stream.get())),
            CU_FILE_INVALID_VALUE);
  EXPECT_EQ(arguments_->moved, -EINVAL);
  set(SIZE_MAX, 0, 0);
  EXPECT_EQ(read(stream.get(), memory), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(arguments_->moved, -EINVAL);
}

TEST_F(Streams, TellOfANegativeFileOffsetThroughTheCount) {
  const Memory memory(MemoryKind::device, kRoom);
  const Stream plain;
  set(4096, 0, 0);
  arguments_->file_offset = -4096;
  ASSERT_EQ(read(plain.get(), memory), CU_FILE_SUCCESS);
  plain.synchronize();
  EXPECT_EQ(arguments_->moved, -1);
}

TEST_F(Streams, TellOfANegativeFileOffsetThatIsFixedThroughTheCount) {
  const Memory memory(MemoryKind::device, kRoom);
  const Stream registered;
  ASSERT_EQ(code(cuFileStreamRegister(registered.get(), 7)), CU_FILE_SUCCESS);
  set(4096, 0, 0);
  arguments_->file_offset = -4096;
  ASSERT_EQ(read(registered.get(), memory), CU_FILE_SUCCESS);
  registered.synchronize();
  EXPECT_EQ(arguments_->moved, -CU_FILE_INVALID_VALUE);
  EXPECT_EQ(code(cuFileStreamDeregister(registered.get())), CU_FILE_SUCCESS);
}

TEST_F(Streams, TellOfMemoryThatACallMayNotTouchThroughTheCount) {
  const Stream stream;
  const Memory memory(MemoryKind::device, kRoom);
  memory.fill(6);
  const Registration registration(memory.address(), 65536);
  const auto told = [&](std::size_t size, off_t offset, bool writes) {
    set(size, 0, 0);
    arguments_->buffer_offset = offset;
    EXPECT_EQ(writes ? write(stream.get(), memory) : read(stream.get(), memory), CU_FILE_SUCCESS);
    stream.synchronize();
    return arguments_->moved;
  };
  for (const bool writes : {false, true}) {
    SCOPED_TRACE(writes ? "write" : "read");
    EXPECT_EQ(told(65537, 0, writes), -CU_FILE_INVALID_MAPPING_SIZE) << "larger than what is registered";
    EXPECT_EQ(told(4096, 65536, writes), -CU_FILE_INVALID_MAPPING_SIZE) << "behind it";
    EXPECT_EQ(told(8192, 61440, writes), -CU_FILE_INVALID_MAPPING_SIZE) << "over its end";
    EXPECT_EQ(told(4096, -(off_t{1} << 40), writes), -CU_FILE_INVALID_MAPPING_SIZE) << "far before it";
  }
  EXPECT_TRUE(all_bytes(6, memory.get()));
  EXPECT_TRUE(same_bytes(file_.content(), content_of(file_.path())));
}

// Also where the memory before the pointer is there, or the file has nothing.
TEST_F(Streams, TellOfAnOffsetBeforeARegisteredPointerByWhatWasRegistered) {
  const Stream stream;
  const Memory memory(MemoryKind::device, kRoom);
  memory.fill(6);
  const Registration registration(memory.at(4096), 500);
  const auto told = [&](std::size_t size, off_t file_offset, off_t offset) {
    set(size, file_offset, 0);
    arguments_->buffer_offset = offset;
    EXPECT_EQ(code(cuFileReadAsync(handle_, memory.at(4096), &arguments_->size, &arguments_->file_offset,
                                   &arguments_->buffer_offset, &arguments_->moved, stream.get())),
              CU_FILE_SUCCESS);
    stream.synchronize();
    return arguments_->moved;
  };
  const auto behind = static_cast<off_t>(file_.content().size());
  for (const off_t file_offset : {off_t{0}, behind}) {
    EXPECT_EQ(told(513, file_offset, -4096), -CU_FILE_INVALID_MAPPING_SIZE) << "all of it before the pointer";
    EXPECT_EQ(told(1000, file_offset, -512), -CU_FILE_INVALID_MAPPING_RANGE) << "longer, and ends within";
  }
  EXPECT_TRUE(all_bytes(6, memory.get()));
}

TEST_F(Streams, WriteNothingBehindTheEndOfTheFileFromMemoryThatIsNotThere) {
  const Stream stream;
  void* const nowhere = reinterpret_cast<void*>(std::uintptr_t{4096});
  for (const off_t buffer_offset : {off_t{0}, off_t{1}}) {
    set(4096, static_cast<off_t>(file_.content().size()) + 4097, 0);
    arguments_->buffer_offset = buffer_offset;
    ASSERT_EQ(code(cuFileWriteAsync(handle_, nowhere, &arguments_->size, &arguments_->file_offset,
                                    &arguments_->buffer_offset, &arguments_->moved, stream.get())),
              CU_FILE_SUCCESS);
    stream.synchronize();
    EXPECT_LT(arguments_->moved, 0);
  }
  EXPECT_TRUE(same_bytes(file_.content(), content_of(file_.path())));
}

TEST_F(Streams, TellOfMemoryThatIsNotThereThroughTheCount) {
  const Stream stream;
  const Memory memory(MemoryKind::device, kRoom);
  set(std::size_t{1} << 30, 0, 0);  // no driver rounds an allocation up to that
  ASSERT_EQ(write(stream.get(), memory), CU_FILE_SUCCESS);
  stream.synchronize();
  EXPECT_EQ(arguments_->moved, -EPERM);
  void* const nowhere = reinterpret_cast<void*>(std::uintptr_t{4096});
  set(4096, 0, 0);
  ASSERT_EQ(code(cuFileReadAsync(handle_, nowhere, &arguments_->size, &arguments_->file_offset,
                                 &arguments_->buffer_offset, &arguments_->moved, stream.get())),
            CU_FILE_SUCCESS);
  stream.synchronize();
  EXPECT_EQ(arguments_->moved, -EPERM);
  set(4096, 0, 1);
  ASSERT_EQ(code(cuFileWriteAsync(handle_, nowhere, &arguments_->size, &arguments_->file_offset,
                                  &arguments_->buffer_offset, &arguments_->moved, stream.get())),
            CU_FILE_SUCCESS);
  stream.synchronize();
  EXPECT_EQ(arguments_->moved, -EIO) << "with an offset";
  EXPECT_TRUE(same_bytes(file_.content(), content_of(file_.path())));
}

TEST_F(Streams, RefuseOffsetsBeforeTheRegisteredPointerWhereTheyAreFixed) {
  const Stream plain;
  const Stream fixed;
  ASSERT_EQ(code(cuFileStreamRegister(fixed.get(), 15)), CU_FILE_SUCCESS);
  const Memory memory(MemoryKind::device, kRoom);
  memory.fill(6);
  const Registration registration(memory.at(65536), 65536);
  const auto told = [&](CUstream stream) {
    set(4096, 0, 0);
    arguments_->buffer_offset = -4096;
    EXPECT_EQ(code(cuFileReadAsync(handle_, memory.at(65536), &arguments_->size, &arguments_->file_offset,
                                   &arguments_->buffer_offset, &arguments_->moved, stream)),
              CU_FILE_SUCCESS);
    EXPECT_EQ(cuda()->stream_synchronize(stream), 0);
    return arguments_->moved;
  };
  EXPECT_EQ(told(fixed.get()), -CU_FILE_INTERNAL_ERROR);
  EXPECT_TRUE(all_bytes(6, memory.get()));
  EXPECT_EQ(told(plain.get()), 4096);
  EXPECT_TRUE(same_bytes({file_.content().data(), 4096}, memory.get(65536 - 4096, 4096)));
  EXPECT_EQ(code(cuFileStreamDeregister(fixed.get())), CU_FILE_SUCCESS);
}

TEST_F(Streams, TellOfAFileOfTheWrongModeThroughTheCount) {
  const Stream stream;
  const Memory memory(MemoryKind::device, kRoom);
  const Fd writer = file_.open(O_WRONLY);
  const Handle write_only(writer);
  set(4096, 0, 0);
  ASSERT_EQ(code(cuFileReadAsync(write_only.get(), memory.address(), &arguments_->size, &arguments_->file_offset,
                                 &arguments_->buffer_offset, &arguments_->moved, stream.get())),
            CU_FILE_SUCCESS);
  stream.synchronize();
  EXPECT_EQ(arguments_->moved, -CU_FILE_INVALID_FILE_OPEN_FLAG);
  set(4096, 0, 0);
  arguments_->file_offset = -4096;
  ASSERT_EQ(code(cuFileReadAsync(write_only.get(), memory.address(), &arguments_->size, &arguments_->file_offset,
                                 &arguments_->buffer_offset, &arguments_->moved, stream.get())),
            CU_FILE_SUCCESS);
  stream.synchronize();
  EXPECT_EQ(arguments_->moved, -CU_FILE_INVALID_FILE_OPEN_FLAG) << "the mode counts before the offset";
}

// Who waits instead is let go by another thread after a while, and found out.
TEST_F(Streams, ReturnBeforeEarlierWorkIsDone) {
  if (std::getenv("SLUICE_MODE") != nullptr) GTEST_SKIP() << "in plain mode a call waits for its stream";
  const Stream stream;
  const Gate gate;
  const Memory memory(MemoryKind::device, kRoom);
  memory.fill(6);
  set(4096, 0, 0);
  gate.hold(stream.get());
  std::promise<void> returned;
  std::atomic<bool> let_go{false};
  std::thread impatient([&, seen = returned.get_future()] {
    if (seen.wait_for(std::chrono::seconds(60)) == std::future_status::timeout) let_go.store(true);
    gate.open();
  });
  const int answer = read(stream.get(), memory);
  EXPECT_FALSE(let_go.load()) << "the call waited for the stream";
  returned.set_value();
  impatient.join();
  EXPECT_EQ(answer, CU_FILE_SUCCESS);
  EXPECT_EQ(cuda()->stream_synchronize(stream.get()), 0);
  EXPECT_EQ(arguments_->moved, 4096);
  EXPECT_TRUE(same_bytes({file_.content().data(), 4096}, memory.get(0, 4096)));
}

TEST_F(Streams, BeingCapturedAreCapturedOrLeftAsTheyWere) {
  if (cuda()->begin_capture == nullptr) GTEST_SKIP() << "no graphs here";
  const Stream stream;
  const Memory memory(MemoryKind::device, kRoom);
  memory.fill(6);
  set(4096, 0, 0);
  constexpr int thread_local_mode = 1;
  if (cuda()->begin_capture(stream.get(), thread_local_mode) != 0) GTEST_SKIP() << "no capture here";
  const int answer = read(stream.get(), memory);
  EXPECT_TRUE(answer == CU_FILE_SUCCESS || answer == CU_FILE_ASYNC_NOT_SUPPORTED) << answer;
  void* graph = nullptr;
  EXPECT_EQ(cuda()->end_capture(stream.get(), &graph), 0) << "the capture was broken";
  if (graph != nullptr) cuda()->graph_destroy(graph);
  EXPECT_TRUE(all_bytes(6, memory.get())) << "bytes moved while the stream was captured";
}

}  // namespace
}  // namespace sluice::contract::stream_test
