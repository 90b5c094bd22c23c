// SPDX-License-Identifier: Apache-2.0
// What cuFileRead and cuFileWrite refuse, and which refusal wins where several apply.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>

#include "support/calls.h"
#include "support/cuda_driver.h"

namespace sluice::contract::transfer_errors_test {
namespace {

using namespace support;

constexpr std::size_t kSize = 65536;

class TransferErrors : public CufileTest {
 protected:
  // What a write of more than two pages answers where it cannot be; one of less: EIO.
  static int of_much() { return usual_memory() == MemoryKind::device ? EPERM : EIO; }

  const ScratchFile file_{kSize};
};

TEST_F(TransferErrors, NullAndGarbageHandlesAreInvalid) {
  const Memory memory(usual_memory(), kSize);
  cuFileDriverOpen();
  for (const std::uintptr_t value : {std::uintptr_t{0}, std::uintptr_t{0x123456789}, UINTPTR_MAX, std::uintptr_t{1}}) {
    const auto handle = reinterpret_cast<CUfileHandle_t>(value);
    EXPECT_EQ(read_file(handle, memory.address(), 1), failed(EINVAL)) << value;
    EXPECT_EQ(write_file(handle, memory.address(), 1), failed(EINVAL)) << value;
  }
}

TEST_F(TransferErrors, ANullBufferIsInvalid) {
  const Fd fd = file_.open(O_RDWR);
  const Handle handle(fd);
  EXPECT_EQ(read_file(handle.get(), nullptr, 4096), failed(EINVAL));
  EXPECT_EQ(write_file(handle.get(), nullptr, 4096), failed(EINVAL));
}

TEST_F(TransferErrors, ANegativeFileOffsetIsRefused) {
  const Fd fd = file_.open(O_RDWR);
  const Handle handle(fd);
  const Memory memory(usual_memory(), kSize);
  EXPECT_EQ(read_file(handle.get(), memory.address(), 4096, -4096), failed(CU_FILE_INVALID_VALUE));
  EXPECT_EQ(write_file(handle.get(), memory.address(), 4096, -4096), failed(CU_FILE_INVALID_VALUE));
}

TEST_F(TransferErrors, ANegativeBufferOffsetMeansMemoryBeforeThePointer) {
  const Fd fd = file_.open(O_RDWR);
  const Handle handle(fd);
  const Memory memory(usual_memory(), 2 * kSize);
  memory.fill(6);
  EXPECT_EQ(read_file(handle.get(), memory.at(kSize), 4096, 0, -4096), moved(4096));
  EXPECT_TRUE(same_bytes({file_.content().data(), 4096}, memory.get(kSize - 4096, 4096)));
  EXPECT_TRUE(all_bytes(6, memory.get(0, kSize - 4096)));
  EXPECT_TRUE(all_bytes(6, memory.get(kSize, kSize)));
  EXPECT_EQ(write_file(handle.get(), memory.at(kSize), 4096, 8192, -8192), moved(4096));
  EXPECT_TRUE(all_bytes(6, plain_read(fd.get(), 8192, 4096)));
}

// Which errno it is follows from the memory and the size, not from where the range lies.
TEST_F(TransferErrors, ThatMemoryIsNotThereIsToldByWhatThePointerMeans) {
  const Fd fd = file_.open(O_RDWR);
  const Handle handle(fd);
  const Memory host(MemoryKind::plain, kSize);
  for (const std::size_t size : {std::size_t{100}, std::size_t{8192}, std::size_t{16384}}) {
    SCOPED_TRACE(size);
    EXPECT_EQ(read_file(handle.get(), host.address(), size, 0, INT64_MIN), failed(EPERM));
    EXPECT_EQ(write_file(handle.get(), host.address(), size, 0, INT64_MIN), failed(EIO));
    if (cuda() == nullptr) continue;
    const Memory memory(MemoryKind::device, kSize);
    const int told = size <= 8192 ? EIO : EPERM;
    EXPECT_EQ(read_file(handle.get(), memory.address(), size, 0, INT64_MIN), failed(told));
    EXPECT_EQ(write_file(handle.get(), memory.address(), size, 0, INT64_MIN), failed(told));
    EXPECT_EQ(write_file(handle.get(), memory.address(), size, 0, off_t{1} << 40), failed(told));
  }
  EXPECT_EQ(write_file(handle.get(), host.address(), SIZE_MAX), failed(EPERM));
  EXPECT_EQ(write_file(handle.get(), host.address(), std::size_t{1} << 63U), failed(EIO));
  EXPECT_EQ(read_file(handle.get(), host.address(), 0, 0, INT64_MIN), failed(EPERM)) << "of no bytes";
  EXPECT_TRUE(same_bytes(file_.content(), content_of(file_.path())));
}

TEST_F(TransferErrors, ARangeInNoFileComesBeforeOneThatLeavesTheRegistration) {
  const Fd fd = file_.open(O_RDWR);
  const Handle handle(fd);
  const Memory memory(usual_memory(), kSize);
  const Registration registration(memory.address(), 4096);
  EXPECT_EQ(read_file(handle.get(), memory.address(), INT64_MAX, 1), failed(CU_FILE_INVALID_VALUE));
  EXPECT_EQ(write_file(handle.get(), memory.address(), 8192, INT64_MAX), failed(CU_FILE_INVALID_VALUE));
  EXPECT_EQ(read_file(handle.get(), memory.address(), SIZE_MAX, 1), failed(CU_FILE_INVALID_MAPPING_RANGE));
}

TEST_F(TransferErrors, ANegativeBufferOffsetStaysInTheAllocation) {
  if (cuda() == nullptr) GTEST_SKIP() << "no CUDA device";
  const Fd fd = file_.open(O_RDWR);
  const Handle handle(fd);
  const Memory memory(MemoryKind::device, kSize);
  // A driver may round an allocation up to 2 MiB, and have another one before it: go well past all that.
  constexpr off_t far = off_t{1} << 40;
  const Transfer answer = read_file(handle.get(), memory.address(), 4096, 0, -far);
  EXPECT_EQ(answer.count, -1);
  EXPECT_NE(answer.error, 0);
  EXPECT_EQ(read_file(handle.get(), memory.address(), 4096, 0, INT64_MIN).count, -1);
}

TEST_F(TransferErrors, ANegativeBufferOffsetBeforeTheRegisteredPointerIsAnInternalError) {
  const Fd fd = file_.open(O_RDWR);
  const Handle handle(fd);
  const Memory memory(usual_memory(), 2 * kSize);
  memory.fill(6);
  const Registration registration(memory.at(kSize), 4096);
  EXPECT_EQ(read_file(handle.get(), memory.at(kSize), 4096, 0, -4096), failed(CU_FILE_INTERNAL_ERROR));
  EXPECT_EQ(write_file(handle.get(), memory.at(kSize), 4096, 0, -4096), failed(CU_FILE_INTERNAL_ERROR));
  EXPECT_TRUE(all_bytes(6, memory.get()));
  EXPECT_TRUE(same_bytes(file_.content(), content_of(file_.path())));
}

TEST_F(TransferErrors, ADeregisteredHandleCountsNothing) {
  const Fd fd = file_.open(O_RDWR);
  const Memory memory(usual_memory(), kSize);
  Handle handle(fd);
  handle.deregister();
  const long before = cuFileUseCount();
  EXPECT_EQ(read_file(handle.get(), memory.address(), 1), failed(CU_FILE_HANDLE_NOT_REGISTERED));
  EXPECT_EQ(cuFileUseCount(), before);
}

TEST_F(TransferErrors, PointersToSomethingElseAreNoHandles) {
  const Memory memory(usual_memory(), kSize);
  cuFileDriverOpen();
  std::uint64_t on_the_stack[8] = {};
  EXPECT_EQ(read_file(on_the_stack, memory.address(), 1), failed(EINVAL));
  EXPECT_EQ(read_file(memory.address(), memory.address(), 1), failed(EINVAL));
}

TEST_F(TransferErrors, ReadingAfterDeregistrationSaysSo) {
  const Fd fd = file_.open(O_RDWR);
  const Memory memory(usual_memory(), kSize);
  Handle handle(fd);
  handle.deregister();
  EXPECT_EQ(read_file(handle.get(), memory.address(), 1), failed(CU_FILE_HANDLE_NOT_REGISTERED));
  EXPECT_EQ(write_file(handle.get(), memory.address(), 1), failed(CU_FILE_HANDLE_NOT_REGISTERED));
}

TEST_F(TransferErrors, AWriteOnlyFileCannotBeRead) {
  const Memory memory(usual_memory(), kSize);
  for (const int flag : {0, O_DIRECT}) {
    const Fd writer = file_.open(O_WRONLY | flag);
    const Handle write_only(writer);
    EXPECT_EQ(read_file(write_only.get(), memory.address(), 4096), failed(CU_FILE_INVALID_FILE_OPEN_FLAG));
  }
}

TEST_F(TransferErrors, AReadOnlyFileCannotBeWritten) {
  const Memory memory(usual_memory(), kSize);
  for (const int flag : {0, O_DIRECT}) {
    const Fd reader = file_.open(O_RDONLY | flag);
    const Handle read_only(reader);
    EXPECT_EQ(write_file(read_only.get(), memory.address(), 8192), failed(EIO));
    EXPECT_EQ(write_file(read_only.get(), memory.address(), 8193), failed(of_much()));
    EXPECT_EQ(write_file(read_only.get(), memory.address(), 0), failed(EIO));
    const Registration registration(memory);
    EXPECT_EQ(write_file(read_only.get(), memory.address(), 65536), failed(EIO)) << "registered";
    EXPECT_EQ(write_file(read_only.get(), memory.address(), 0), moved(0)) << "registered";
  }
  EXPECT_TRUE(same_bytes(file_.content(), content_of(file_.path())));
}

TEST_F(TransferErrors, LargestNumbersAreRefusedNotWrapped) {
  const Fd fd = file_.open(O_RDWR);
  const Handle handle(fd);
  const Memory memory(usual_memory(), kSize);
  const Registration registration(memory);
  EXPECT_EQ(read_file(handle.get(), memory.address(), INT64_MAX), failed(CU_FILE_INVALID_MAPPING_RANGE));
  EXPECT_EQ(read_file(handle.get(), memory.address(), 1, 0, INT64_MAX), failed(CU_FILE_INVALID_MAPPING_RANGE));
  EXPECT_EQ(read_file(handle.get(), memory.address(), INT64_MAX - 10, 0, 100), failed(CU_FILE_INVALID_MAPPING_RANGE));
  EXPECT_EQ(read_file(handle.get(), memory.address(), SIZE_MAX), failed(CU_FILE_INVALID_MAPPING_RANGE));
  EXPECT_EQ(read_file(handle.get(), memory.address(), 1, INT64_MIN), failed(CU_FILE_INVALID_VALUE));
  EXPECT_EQ(read_file(handle.get(), memory.address(), 1, 0, INT64_MIN), failed(CU_FILE_INVALID_MAPPING_RANGE));
  EXPECT_EQ(read_file(handle.get(), memory.address(), 4096, INT64_MAX - 4096), moved(0)) << "far past the end";
  EXPECT_EQ(read_file(handle.get(), memory.address(), 4096, INT64_MAX - 10), failed(CU_FILE_INVALID_VALUE));
  EXPECT_EQ(write_file(handle.get(), memory.address(), 4096, INT64_MAX - 10), failed(CU_FILE_INVALID_VALUE));
}

// Offset and size are added as words, which may come round: only what the sum does not tell has a code of its own.
TEST_F(TransferErrors, AnOffsetBeforeARegisteredPointerIsOneFarBehindItUnlessTheSizeBringsItBack) {
  const Fd fd = file_.open(O_RDWR);
  const Fd reader = file_.open(O_RDONLY);
  const Handle handle(fd);
  const Handle read_only(reader);
  const Memory memory(usual_memory(), kSize);
  const Registration registration(memory.address(), 4096);
  EXPECT_EQ(read_file(handle.get(), memory.address(), 1, 0, -512), failed(CU_FILE_INVALID_MAPPING_RANGE));
  EXPECT_EQ(write_file(handle.get(), memory.address(), 8192, 0, -512), failed(CU_FILE_INVALID_MAPPING_RANGE));
  EXPECT_EQ(write_file(handle.get(), memory.address(), 4097, 0, -512), failed(CU_FILE_INTERNAL_ERROR));
  EXPECT_EQ(write_file(read_only.get(), memory.address(), 4097, 0, -512), failed(CU_FILE_INTERNAL_ERROR));
  EXPECT_EQ(write_file(handle.get(), memory.address(), 0, 0, 4096), failed(CU_FILE_INTERNAL_ERROR));
  EXPECT_EQ(read_file(handle.get(), memory.address(), 0, 0, 4097), failed(CU_FILE_INVALID_MAPPING_RANGE));
  const std::size_t half_of_all = std::size_t{1} << 63U;
  const bool on_device = usual_memory() == MemoryKind::device;
  EXPECT_EQ(read_file(handle.get(), memory.address(), half_of_all, off_t{1} << 62U, INT64_MIN),
            failed(on_device ? static_cast<int>(CU_FILE_INVALID_MAPPING_RANGE) : EPERM));
  EXPECT_EQ(write_file(handle.get(), memory.address(), half_of_all, 4096, INT64_MIN), failed(EIO));
  EXPECT_TRUE(same_bytes(file_.content(), content_of(file_.path())));
}

TEST_F(TransferErrors, WhereTheFileHasNothingMemoryIsNotLookedAt) {
  const Fd fd = file_.open(O_RDWR);
  const Handle handle(fd);
  const Memory memory(usual_memory(), kSize);
  const Transfer nothing = usual_memory() == MemoryKind::device ? moved(0) : failed(EPERM);
  EXPECT_EQ(read_file(handle.get(), memory.address(), 4096, kSize, INT64_MAX), nothing);
  EXPECT_EQ(read_file(handle.get(), memory.address(), 4096, kSize, INT64_MIN), nothing);
  EXPECT_EQ(read_file(handle.get(), memory.address(), 4096, kSize, -512), moved(0));
  EXPECT_EQ(read_file(handle.get(), memory.address(), std::size_t{1} << 63U, kSize), nothing);
  EXPECT_EQ(read_file(handle.get(), memory.address(), SIZE_MAX, kSize), failed(EPERM));
  EXPECT_EQ(read_file(handle.get(), memory.address(), SIZE_MAX, 0), failed(EPERM));
  EXPECT_EQ(read_file(handle.get(), memory.address(), SIZE_MAX, -1), failed(CU_FILE_INVALID_VALUE));
}

TEST_F(TransferErrors, WritingPastTheLargestFileFailsAndWritesNothing) {
  const Fd fd = file_.open(O_RDWR);
  const Handle handle(fd);
  const Memory memory(usual_memory(), kSize);
  EXPECT_EQ(write_file(handle.get(), memory.address(), 4096, INT64_MAX - 4096), failed(EIO));
  EXPECT_EQ(write_file(handle.get(), memory.address(), 12288, INT64_MAX - 12288), failed(of_much()));
  EXPECT_EQ(file_size(fd.get()), kSize);
}

// Inside the file: where it would grow, some file systems leave the hole in front of what they could not write.
TEST_F(TransferErrors, AWriteThatFailsLeavesTheFileAsItWas) {
  const Memory memory(usual_memory(), kSize);
  void* const nowhere = reinterpret_cast<void*>(std::uintptr_t{4096});
  for (const int flag : {0, O_DIRECT}) {
    const Fd fd = file_.open(O_RDWR | flag);
    const Handle handle(fd);
    const off_t behind = static_cast<off_t>(file_.content().size()) + 4097;  // some kernels make it longer
    for (const off_t offset : {off_t{0}, off_t{4095}, behind}) {
      EXPECT_EQ(write_file(handle.get(), nowhere, 8192, offset).count, -1);
      EXPECT_EQ(write_file(handle.get(), nowhere, 511, offset).count, -1);
      EXPECT_EQ(write_file(handle.get(), memory.address(), 511, offset, -(off_t{1} << 40)).count, -1);
    }
  }
  EXPECT_TRUE(same_bytes(file_.content(), content_of(file_.path())));
}

TEST_F(TransferErrors, AWriteWhoseMemoryEndsWithinTellsWhatWasWritten) {
  constexpr std::size_t page = 4096;
  void* const pages = mmap(nullptr, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  std::memset(pages, 7, 3 * page);
  ASSERT_EQ(mprotect(static_cast<char*>(pages) + 2 * page, page, PROT_NONE), 0);
  const ScratchFile file(0);
  const Fd fd = file.open(O_RDWR);
  const Handle handle(fd);
  EXPECT_EQ(write_file(handle.get(), pages, 3 * page), moved(2 * page));
  EXPECT_EQ(file_size(fd.get()), 2 * page);
  munmap(pages, 3 * page);
}

// The conditions in the order in which they are looked at. Each is applied or not, in every combination.
enum Condition : unsigned {
  no_handle = 1U << 0U,
  stale_handle = 1U << 1U,
  no_buffer = 1U << 2U,
  negative_file_offset = 1U << 3U,
  wrong_direction = 1U << 4U,
  no_size = 1U << 5U,
  past_registration = 1U << 6U,
  all_conditions = (1U << 7U) - 1,
};

Transfer expected_for(unsigned conditions, bool reading) {
  if (conditions & no_handle) return failed(EINVAL);
  if (conditions & stale_handle) {
    return failed(conditions & negative_file_offset ? CU_FILE_INVALID_VALUE : CU_FILE_HANDLE_NOT_REGISTERED);
  }
  if (conditions & no_buffer) return failed(EINVAL);
  if (conditions & negative_file_offset) return failed(CU_FILE_INVALID_VALUE);
  if ((conditions & wrong_direction) && reading) return failed(CU_FILE_INVALID_FILE_OPEN_FLAG);
  if (conditions & no_size) return moved(0);
  if (conditions & past_registration) return failed(CU_FILE_INVALID_MAPPING_RANGE);
  return conditions & wrong_direction ? failed(EIO) : moved(4096);
}

TEST_F(TransferErrors, TheFirstConditionInOrderWins) {
  const Fd reader = file_.open(O_RDONLY);
  const Fd writer = file_.open(O_WRONLY);
  const Fd other = file_.open(O_RDWR);
  const Handle read_only(reader);
  const Handle write_only(writer);
  Handle stale(other);
  stale.deregister();
  const Memory memory(usual_memory(), kSize);
  const Registration registration(memory);
  for (unsigned conditions = 0; conditions <= all_conditions; ++conditions) {
    for (const bool reading : {true, false}) {
      SCOPED_TRACE(::testing::Message() << "conditions " << conditions << (reading ? " read" : " write"));
      const bool use_reader = reading != ((conditions & wrong_direction) != 0);
      CUfileHandle_t handle = use_reader ? read_only.get() : write_only.get();
      if (conditions & stale_handle) handle = stale.get();
      if (conditions & no_handle) handle = nullptr;
      void* const base = conditions & no_buffer ? nullptr : memory.address();
      std::size_t size = conditions & past_registration ? 2 * kSize : 4096;
      if (conditions & no_size) size = 0;
      const off_t file_offset = conditions & negative_file_offset ? -1 : 0;
      const Transfer answer =
          reading ? read_file(handle, base, size, file_offset) : write_file(handle, base, size, file_offset);
      ASSERT_EQ(answer, expected_for(conditions, reading));
    }
  }
}

TEST_F(TransferErrors, AFailureLeavesAUsableHandle) {
  const Fd fd = file_.open(O_RDWR);
  const Handle handle(fd);
  const Memory memory(usual_memory(), kSize);
  for (int i = 0; i < 100; ++i) read_file(handle.get(), memory.address(), 1, -1);
  EXPECT_EQ(read_file(handle.get(), memory.address(), kSize), moved(kSize));
  EXPECT_TRUE(same_bytes(file_.content(), memory.get()));
}

// A forked child that reads into host memory. It tells by its exit status: 0 exact data, 1 an error with an errno,
// 2 anything else.
int read_in_child(CUfileHandle_t handle, const Bytes& content) {
  alarm(120);
  static unsigned char target[kSize];
  errno = 0;
  const ssize_t count = cuFileRead(handle, target, kSize, 0, 0);
  if (count < 0) return errno != 0 ? 1 : 2;
  return count == static_cast<ssize_t>(kSize) && std::memcmp(target, content.data(), kSize) == 0 ? 0 : 2;
}

TEST_F(TransferErrors, AForkedChildGetsExactDataOrAClearError) {
  const Fd fd = file_.open(O_RDWR);
  const Handle handle(fd);
  const Memory memory(usual_memory(), kSize);
  ASSERT_EQ(read_file(handle.get(), memory.address(), kSize), moved(kSize));
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(read_in_child(handle.get(), file_.content()));
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "the child died of signal " << WTERMSIG(status);
  EXPECT_LE(WEXITSTATUS(status), 1) << "wrong data, a short count, or a failure without an errno";
  EXPECT_EQ(read_file(handle.get(), memory.address(), kSize), moved(kSize)) << "the parent, afterwards";
}

}  // namespace
}  // namespace sluice::contract::transfer_errors_test
