// Registering memory: what is taken, what is refused, and which ranges a transfer may touch.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdint>

#include "contract/mapped_memory.h"
#include "support/calls.h"
#include "support/cuda_driver.h"

namespace sluice::contract {
namespace {

using namespace support;

constexpr std::size_t kSize = 1024 * 1024;

int register_buffer(const void* base, std::size_t size, int flags = 0) {
  return code(cuFileBufRegister(base, size, flags));
}
int deregister_buffer(const void* base) {
  return code(cuFileBufDeregister(base));
}

class Buffer : public CufileTest {
 protected:
  void expect_works(MemoryKind kind) const {
    if (!available(kind)) return;
    SCOPED_TRACE(name_of(kind));
    const Handle handle(fd_);
    const Memory memory(kind, kSize);
    ASSERT_EQ(register_buffer(memory.address(), kSize), CU_FILE_SUCCESS);
    EXPECT_EQ(read_file(handle.get(), memory.address(), kSize), moved(kSize));
    EXPECT_TRUE(same_bytes({file_.content().data(), kSize}, memory.get()));
    EXPECT_EQ(deregister_buffer(memory.address()), CU_FILE_SUCCESS);
  }

  void expect_bounded(MemoryKind kind) const {
    if (!available(kind)) return;
    SCOPED_TRACE(name_of(kind));
    const Handle handle(fd_);
    const Memory memory(kind, kSize);
    memory.fill(1);
    const Registration registration(memory.address(), 65536);
    const Transfer refused = failed(CU_FILE_INVALID_MAPPING_RANGE);
    EXPECT_EQ(read_file(handle.get(), memory.address(), 65537), refused);
    EXPECT_EQ(read_file(handle.get(), memory.address(), 65536, 0, 1), refused);
    EXPECT_EQ(read_file(handle.get(), memory.address(), 1, 0, 65536), refused);
    EXPECT_EQ(write_file(handle.get(), memory.address(), 65537), refused);
    EXPECT_TRUE(all_bytes(1, memory.get()));
    EXPECT_TRUE(same_bytes(file_.content(), content_of(file_.path())));
    EXPECT_EQ(read_file(handle.get(), memory.address(), 65536), moved(65536));
    EXPECT_EQ(read_file(handle.get(), memory.at(65535), 1), moved(1)) << "the last byte by an interior pointer";
  }

  // The same where the pointer of the call lies inside of the registered range.
  void expect_bounded_from_inside(MemoryKind kind) const {
    if (!available(kind)) return;
    SCOPED_TRACE(name_of(kind));
    const Handle handle(fd_);
    const Memory memory(kind, kSize);
    memory.fill(1);
    const Registration registration(memory.address(), 65536);
    const Transfer refused = failed(CU_FILE_INVALID_MAPPING_RANGE);
    EXPECT_EQ(read_file(handle.get(), memory.at(4096), 65536), refused);
    EXPECT_EQ(read_file(handle.get(), memory.at(65535), 2), refused);
    EXPECT_EQ(write_file(handle.get(), memory.at(4096), 65536), refused);
    EXPECT_TRUE(all_bytes(1, memory.get()));
    EXPECT_TRUE(same_bytes(file_.content(), content_of(file_.path())));
  }

  const ScratchFile file_{2 * kSize};
  const Fd fd_ = file_.open(O_RDWR);
};

TEST_F(Buffer, OfHostOrDeviceMemoryCanBeRegisteredAndUsed) {
  for (const MemoryKind kind : {MemoryKind::plain, MemoryKind::pinned, MemoryKind::device}) expect_works(kind);
}

TEST_F(Buffer, OfManagedMemoryCanBeRegisteredAndUsed) {
  if (!available(MemoryKind::managed)) GTEST_SKIP() << "no CUDA device";
  expect_works(MemoryKind::managed);
}

TEST_F(Buffer, NeedsAnAddressAndALength) {
  const Memory memory(usual_memory(), kSize);
  EXPECT_EQ(register_buffer(nullptr, kSize), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(register_buffer(memory.address(), 0), CU_FILE_INVALID_VALUE);
}

TEST_F(Buffer, RegisteredTwiceIsRefused) {
  const Memory memory(usual_memory(), kSize);
  const Registration registration(memory);
  EXPECT_EQ(register_buffer(memory.address(), kSize), CU_FILE_MEMORY_ALREADY_REGISTERED);
}

TEST_F(Buffer, RangesMayOverlapAndBeginAnywhere) {
  const Memory memory(usual_memory(), kSize);
  EXPECT_EQ(register_buffer(memory.address(), kSize), CU_FILE_SUCCESS);
  EXPECT_EQ(register_buffer(memory.at(65536), 65536), CU_FILE_SUCCESS);
  EXPECT_EQ(register_buffer(memory.at(65537), 4097), CU_FILE_SUCCESS);
  EXPECT_EQ(register_buffer(memory.at(1), 100), CU_FILE_SUCCESS);
  for (const std::size_t offset : {std::size_t{0}, std::size_t{65536}, std::size_t{65537}, std::size_t{1}}) {
    EXPECT_EQ(deregister_buffer(memory.at(offset)), CU_FILE_SUCCESS) << offset;
  }
}

TEST_F(Buffer, LongerThanItsAllocationIsRefused) {
  if (cuda() == nullptr) GTEST_SKIP() << "no CUDA device";
  const Memory memory(MemoryKind::device, kSize);
  EXPECT_EQ(register_buffer(memory.address(), 64 * kSize), CU_FILE_CUDA_POINTER_RANGE_ERROR);
  EXPECT_EQ(register_buffer(memory.at(kSize / 2), 64 * kSize), CU_FILE_CUDA_POINTER_RANGE_ERROR);
}

TEST_F(Buffer, KnownFlagsAreTaken) {
  const Memory memory(usual_memory(), kSize);
  EXPECT_EQ(register_buffer(memory.address(), kSize, CU_FILE_RDMA_REGISTER), CU_FILE_SUCCESS);
  EXPECT_EQ(deregister_buffer(memory.address()), CU_FILE_SUCCESS);
}

TEST_F(Buffer, UnknownFlagsAreTakenToo) {
  const Memory memory(usual_memory(), kSize);
  for (const int flags : {4, 64, -1}) {
    EXPECT_EQ(register_buffer(memory.address(), kSize, flags), CU_FILE_SUCCESS) << flags;
    EXPECT_EQ(deregister_buffer(memory.address()), CU_FILE_SUCCESS) << flags;
  }
}

TEST_F(Buffer, LongerThanTheAddressSpaceIsRefused) {
  const Memory memory(usual_memory(), kSize);
  EXPECT_EQ(register_buffer(memory.address(), SIZE_MAX), CU_FILE_CUDA_POINTER_RANGE_ERROR);
}

TEST_F(Buffer, DeregisteringWhatIsNotRegisteredSaysSo) {
  const Memory memory(usual_memory(), kSize);
  cuFileDriverOpen();
  EXPECT_EQ(deregister_buffer(nullptr), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(deregister_buffer(memory.address()), CU_FILE_MEMORY_NOT_REGISTERED);
  ASSERT_EQ(register_buffer(memory.address(), kSize), CU_FILE_SUCCESS);
  EXPECT_EQ(deregister_buffer(memory.at(4096)), CU_FILE_MEMORY_NOT_REGISTERED);
  EXPECT_EQ(deregister_buffer(memory.address()), CU_FILE_SUCCESS);
  EXPECT_EQ(deregister_buffer(memory.address()), CU_FILE_MEMORY_NOT_REGISTERED);
}

TEST_F(Buffer, TransfersMayNotLeaveTheRegisteredRange) {
  for (const MemoryKind kind : {MemoryKind::plain, MemoryKind::pinned, MemoryKind::device}) expect_bounded(kind);
}

TEST_F(Buffer, TransfersMayNotLeaveTheRegisteredRangeFromInsideOfIt) {
  for (const MemoryKind kind : {MemoryKind::plain, MemoryKind::pinned, MemoryKind::managed, MemoryKind::device}) {
    expect_bounded_from_inside(kind);
  }
}

TEST_F(Buffer, TransfersMayNotLeaveARegisteredRangeOfManagedMemory) {
  if (!available(MemoryKind::managed)) GTEST_SKIP() << "no CUDA device";
  expect_bounded(MemoryKind::managed);
}

TEST_F(Buffer, TransfersMayNotReachAnotherAllocationByTheOffset) {
  const Handle handle(fd_);
  for (const MemoryKind kind : {MemoryKind::plain, MemoryKind::pinned, MemoryKind::managed, MemoryKind::device}) {
    if (!available(kind)) continue;
    SCOPED_TRACE(name_of(kind));
    const Memory one(kind, 65536);
    const Memory two(kind, 65536);
    const Memory& low = one.address() < two.address() ? one : two;
    const Memory& high = one.address() < two.address() ? two : one;
    high.fill(1);
    const Registration registration(low);
    const auto distance =
        reinterpret_cast<std::intptr_t>(high.address()) - reinterpret_cast<std::intptr_t>(low.address());
    EXPECT_EQ(read_file(handle.get(), low.address(), 4096, 0, distance), failed(CU_FILE_INVALID_MAPPING_RANGE));
    EXPECT_TRUE(all_bytes(1, high.get()));
  }
}

TEST_F(Buffer, TransfersMayUseTheAllocationBesideARegisteredRange) {
  const Handle handle(fd_);
  const Memory memory(usual_memory(), kSize);
  const Registration registration(memory.address(), 65536);
  EXPECT_EQ(read_file(handle.get(), memory.at(65536), kSize - 65536), moved(kSize - 65536));
  EXPECT_TRUE(same_bytes({file_.content().data(), kSize - 65536}, memory.get(65536, kSize - 65536)));
}

TEST_F(Buffer, TransfersMayNotLeaveAnUnregisteredAllocation) {
  if (cuda() == nullptr) GTEST_SKIP() << "no CUDA device";
  const Handle handle(fd_);
  const Memory memory(MemoryKind::device, 65536);
  const Transfer refused = failed(CU_FILE_CUDA_POINTER_RANGE_ERROR);
  // A driver may round an allocation up to 2 MiB: go well past that.
  const std::size_t far = 64 * kSize;
  EXPECT_EQ(read_file(handle.get(), memory.address(), far), refused);
  EXPECT_EQ(read_file(handle.get(), memory.at(4096), far), refused);
  EXPECT_EQ(write_file(handle.get(), memory.address(), far), refused);
  EXPECT_TRUE(same_bytes(file_.content(), content_of(file_.path())));
}

TEST_F(Buffer, AGarbagePointerIsRefusedWithEfault) {
  const Handle handle(fd_);
  // Reserved, so that nobody else gets it, but neither memory nor known to the driver.
  void* const garbage = mmap(nullptr, kSize, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(garbage, MAP_FAILED);
  EXPECT_EQ(read_file(handle.get(), garbage, 4096), failed(EFAULT));
  EXPECT_EQ(write_file(handle.get(), garbage, 4096), failed(EFAULT));
  munmap(garbage, kSize);
}

TEST_F(Buffer, FreedBeforeDeregistrationIsDeregisteredAllTheSame) {
  Memory memory(usual_memory(), kSize);
  const void* const base = memory.address();
  ASSERT_EQ(register_buffer(base, kSize), CU_FILE_SUCCESS);
  memory.free();
  EXPECT_EQ(deregister_buffer(base), CU_FILE_SUCCESS);
}

TEST_F(Buffer, ANewAllocationIsNotTakenForAFreedOneThatWasRegistered) {
  if (cuda() == nullptr) GTEST_SKIP() << "no CUDA device";
  const Handle handle(fd_);
  Memory old(MemoryKind::device, kSize);
  const void* const base = old.address();
  ASSERT_EQ(register_buffer(base, 65536), CU_FILE_SUCCESS);
  old.free();
  const Memory fresh(MemoryKind::device, kSize);
  if (fresh.address() != base) {
    deregister_buffer(base);
    GTEST_SKIP() << "the driver did not give the same address again";
  }
  EXPECT_EQ(read_file(handle.get(), fresh.address(), kSize), moved(kSize));
  EXPECT_TRUE(same_bytes({file_.content().data(), kSize}, fresh.get()));
  deregister_buffer(base);
}

TEST_F(Buffer, AllocatedInStreamOrderWorks) {
  if (cuda() == nullptr || cuda()->allocate_async == nullptr) GTEST_SKIP() << "no cuMemAllocAsync here";
  const Handle handle(fd_);
  const Stream stream;
  CudaAddress address = 0;
  if (cuda()->allocate_async(&address, kSize, stream.get()) != 0) GTEST_SKIP() << "no memory pools here";
  stream.synchronize();
  void* const base = reinterpret_cast<void*>(address);
  EXPECT_EQ(read_file(handle.get(), base, kSize), moved(kSize)) << "unregistered";
  EXPECT_EQ(register_buffer(base, kSize), CU_FILE_SUCCESS);
  EXPECT_EQ(read_file(handle.get(), base, kSize, 5), moved(kSize)) << "registered";
  Bytes found(kSize);
  ASSERT_EQ(cuda()->to_host(found.data(), address, kSize), 0);
  EXPECT_TRUE(same_bytes({file_.content().data() + 5, kSize}, found));
  EXPECT_EQ(deregister_buffer(base), CU_FILE_SUCCESS);
  cuda()->release_async(address, stream.get());
  stream.synchronize();
}

TEST_F(Buffer, MappedFromTwoPhysicalPiecesWorks) {
  if (!MappedMemory::available()) GTEST_SKIP() << "no cuMemCreate here";
  constexpr std::size_t piece = 2 * kSize;
  const MappedMemory memory(2, piece);
  const Handle handle(fd_);
  // Across the border of the two pieces, unregistered and registered.
  const off_t offset = static_cast<off_t>(piece - kSize / 2);
  EXPECT_EQ(read_file(handle.get(), memory.address(), kSize, 3, offset), moved(kSize));
  EXPECT_EQ(register_buffer(memory.address(), memory.size()), CU_FILE_SUCCESS);
  EXPECT_EQ(read_file(handle.get(), memory.address(), kSize, 7, offset), moved(kSize));
  EXPECT_TRUE(same_bytes({file_.content().data() + 7, kSize}, memory.get(piece - kSize / 2, kSize)));
  EXPECT_EQ(deregister_buffer(memory.address()), CU_FILE_SUCCESS);
}

}  // namespace
}  // namespace sluice::contract
