// SPDX-License-Identifier: Apache-2.0
// Registering memory: what is taken, what is refused, and which ranges a transfer may touch.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "contract/mapped_memory.h"
#include "support/calls.h"
#include "support/cuda_driver.h"

namespace sluice::contract::buffer_test {
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

  // By a pointer into the registered range, or before it, transfers go wherever the allocation reaches.
  void expect_free_from_inside(MemoryKind kind) const {
    if (!available(kind)) return;
    SCOPED_TRACE(name_of(kind));
    const Handle handle(fd_);
    const Memory memory(kind, kSize);
    const Bytes content = content_of(file_.path());
    memory.fill(1);
    const Registration registration(memory.at(65536), 65536);
    EXPECT_EQ(read_file(handle.get(), memory.at(65536 + 4096), 65536), moved(65536));
    EXPECT_TRUE(same_bytes({content.data(), 65536}, memory.get(65536 + 4096, 65536)));
    EXPECT_EQ(read_file(handle.get(), memory.at(131071), 2, 9), moved(2));
    EXPECT_TRUE(same_bytes({content.data() + 9, 2}, memory.get(131071, 2)));
    EXPECT_EQ(read_file(handle.get(), memory.address(), kSize, 3), moved(kSize)) << "around it";
    EXPECT_TRUE(same_bytes({content.data() + 3, kSize}, memory.get()));
    memory.fill(7);
    EXPECT_EQ(write_file(handle.get(), memory.at(65536 + 4096), 65536), moved(65536));
    EXPECT_TRUE(all_bytes(7, plain_read(fd_.get(), 0, 65536)));
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

TEST_F(Buffer, IsRegisteredAlreadyWhateverItsLength) {
  if (cuda() == nullptr) GTEST_SKIP() << "no CUDA device";
  const Memory memory(MemoryKind::device, kSize);
  const Registration registration(memory.address(), kSize);
  EXPECT_EQ(register_buffer(memory.address(), 64 * kSize), CU_FILE_MEMORY_ALREADY_REGISTERED);
}

TEST_F(Buffer, OfManagedMemoryIsNotRegisteredWithMoreThanItHas) {
  if (cuda() == nullptr) GTEST_SKIP() << "no CUDA device";
  const Memory memory(MemoryKind::managed, kSize);
  EXPECT_EQ(register_buffer(memory.address(), std::size_t{1} << 40), CU_FILE_CUDA_MEMORY_TYPE_INVALID);
}

// Its length is not checked: what is counted is this length, and taken off again.
TEST_F(Buffer, OfHostMemoryMayBeSaidToBeHalfTheAddressSpaceLong) {
  const Memory memory(MemoryKind::plain, kSize);
  EXPECT_EQ(register_buffer(memory.address(), std::size_t{1} << 63), CU_FILE_SUCCESS);
  EXPECT_EQ(deregister_buffer(memory.address()), CU_FILE_SUCCESS);
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
  if (cuda() == nullptr) GTEST_SKIP() << "no CUDA device";
  const Memory memory(MemoryKind::device, kSize);
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

TEST_F(Buffer, TransfersMayLeaveTheRegisteredRangeFromInsideOfIt) {
  for (const MemoryKind kind : {MemoryKind::plain, MemoryKind::pinned, MemoryKind::device}) {
    expect_free_from_inside(kind);
  }
}

TEST_F(Buffer, TransfersMayLeaveARegisteredRangeOfManagedMemoryFromInsideOfIt) {
  if (!available(MemoryKind::managed)) GTEST_SKIP() << "no CUDA device";
  expect_free_from_inside(MemoryKind::managed);
}

TEST_F(Buffer, TransfersMayNotLeaveTheAllocationFromInsideOfTheRegisteredRange) {
  if (cuda() == nullptr) GTEST_SKIP() << "no CUDA device";
  const Handle handle(fd_);
  const Memory memory(MemoryKind::device, kSize);
  const Registration registration(memory.address(), 65536);
  // A driver may round an allocation up to 2 MiB: go well past that.
  ASSERT_EQ(::ftruncate(fd_.get(), static_cast<off_t>(64 * kSize)), 0);
  const Transfer answer = read_file(handle.get(), memory.at(4096), 64 * kSize);
  EXPECT_EQ(answer.count, -1);
  EXPECT_NE(answer.error, 0);
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
  const Transfer refused = failed(EPERM);
  // A driver may round an allocation up to 2 MiB, and so much may the file have: go well past that.
  const std::size_t far = 64 * kSize;
  ASSERT_EQ(::ftruncate(fd_.get(), static_cast<off_t>(far)), 0);
  EXPECT_EQ(read_file(handle.get(), memory.address(), far), refused);
  EXPECT_EQ(read_file(handle.get(), memory.at(4096), far), refused);
  EXPECT_EQ(write_file(handle.get(), memory.address(), far), refused);
  EXPECT_TRUE(same_bytes(file_.content(), plain_read(fd_.get(), 0, file_.content().size())));
}

TEST_F(Buffer, AGarbagePointerIsRefused) {
  const Handle handle(fd_);
  // Reserved, so that no other mapping gets it, but neither memory nor known to the driver.
  void* const garbage = mmap(nullptr, kSize, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(garbage, MAP_FAILED);
  EXPECT_EQ(read_file(handle.get(), garbage, 4096), failed(EPERM));
  EXPECT_EQ(write_file(handle.get(), garbage, 100), failed(EIO));
  EXPECT_EQ(write_file(handle.get(), garbage, 65536), failed(EIO));
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

TEST_F(Buffer, MappedFromTwoPhysicalPiecesIsReadToItsEnd) {
  if (!MappedMemory::available()) GTEST_SKIP() << "no cuMemCreate here";
  constexpr std::size_t piece = 2 * kSize;
  const MappedMemory memory(2, piece);
  const Handle handle(fd_);
  ASSERT_EQ(register_buffer(memory.at(piece - 65536), 131072), CU_FILE_SUCCESS);
  for (const std::size_t size : {std::size_t{65536}, std::size_t{66030}, std::size_t{68058}}) {
    EXPECT_EQ(read_file(handle.get(), memory.at(piece - 65536), size, 1, 8192), moved(size));
    EXPECT_TRUE(same_bytes({file_.content().data() + 1, size}, memory.get(piece - 65536 + 8192, size)));
  }
  EXPECT_EQ(deregister_buffer(memory.at(piece - 65536)), CU_FILE_SUCCESS);
}

TEST_F(Buffer, MayBeRegisteredBeforeAllOfItIsMapped) {
  if (!MappedMemory::available()) GTEST_SKIP() << "no cuMemCreate here";
  constexpr std::size_t piece = 2 * kSize;
  MappedMemory memory(1, piece);  // in a reservation of two
  const Handle handle(fd_);
  ASSERT_EQ(register_buffer(memory.address(), 2 * piece), CU_FILE_SUCCESS);
  EXPECT_EQ(read_file(handle.get(), memory.address(), piece), moved(piece));
  EXPECT_EQ(read_file(handle.get(), memory.address(), 4096, 0, static_cast<off_t>(piece)).count, -1);
  EXPECT_EQ(read_file(handle.get(), memory.address(), 4096, 0, static_cast<off_t>(piece - 1)).count, -1);
  memory.grow();
  const off_t seam = static_cast<off_t>(piece - kSize / 2);
  EXPECT_EQ(read_file(handle.get(), memory.address(), kSize, 5, seam), moved(kSize));
  EXPECT_TRUE(same_bytes({file_.content().data() + 5, kSize}, memory.get(piece - kSize / 2, kSize)));
  EXPECT_EQ(write_file(handle.get(), memory.address(), kSize, 0, seam), moved(kSize));
  EXPECT_TRUE(same_bytes({file_.content().data() + 5, kSize}, plain_read(fd_.get(), 0, kSize)));
  EXPECT_EQ(deregister_buffer(memory.address()), CU_FILE_SUCCESS);
}

TEST_F(Buffer, MayBeSaidToGoOnBehindItsReservation) {
  if (!MappedMemory::available()) GTEST_SKIP() << "no cuMemCreate here";
  constexpr std::size_t piece = 2 * kSize;
  const MappedMemory memory(1, piece);
  const Handle handle(fd_);
  ASSERT_EQ(register_buffer(memory.address(), std::size_t{1} << 40), CU_FILE_SUCCESS);
  EXPECT_EQ(register_buffer(memory.address(), SIZE_MAX), CU_FILE_MEMORY_ALREADY_REGISTERED);
  EXPECT_EQ(read_file(handle.get(), memory.address(), kSize, 5), moved(kSize));
  EXPECT_TRUE(same_bytes({file_.content().data() + 5, kSize}, memory.get(0, kSize)));
  EXPECT_EQ(read_file(handle.get(), memory.address(), 4096, 0, static_cast<off_t>(2 * piece)).count, -1);
  EXPECT_EQ(deregister_buffer(memory.address()), CU_FILE_SUCCESS);
}

TEST_F(Buffer, OfAReservationMayBeSaidToBeAsLongAsAllAddresses) {
  if (!MappedMemory::available()) GTEST_SKIP() << "no cuMemCreate here";
  const MappedMemory memory(1, 2 * kSize);
  const Handle handle(fd_);
  const Registration registration(memory.address(), SIZE_MAX);
  EXPECT_EQ(read_file(handle.get(), memory.address(), kSize, 5, 4096), moved(kSize));
  EXPECT_TRUE(same_bytes({file_.content().data() + 5, kSize}, memory.get(4096, kSize)));
}

// Two allocations that lie beside each other, where the driver makes them so.
struct Neighbours {
  static constexpr std::size_t size = 65536;
  std::vector<std::unique_ptr<Memory>> some;
  const Memory* low = nullptr;
  const Memory* high = nullptr;

  Neighbours() {
    for (int i = 0; i < 8 && low == nullptr; ++i) {
      some.push_back(std::make_unique<Memory>(MemoryKind::device, size));
      for (const auto& one : some) {
        for (const auto& other : some) {
          if (one->at(size) == other->address()) low = one.get(), high = other.get();
        }
      }
    }
  }
};

TEST_F(Buffer, KeepsItsRegistrationWhenItsNeighbourIsDeregistered) {
  if (cuda() == nullptr) GTEST_SKIP() << "no CUDA device";
  const Neighbours memory;
  if (memory.low == nullptr)
    GTEST_SKIP()
        << "no two of the allocations lie beside each other with this driver, and only such can share a registration";
  ASSERT_EQ(register_buffer(memory.low->address(), Neighbours::size + 1), CU_FILE_SUCCESS);
  EXPECT_EQ(deregister_buffer(memory.high->address()), CU_FILE_MEMORY_NOT_REGISTERED);
  EXPECT_EQ(deregister_buffer(memory.low->address()), CU_FILE_SUCCESS);
}

TEST_F(Buffer, WorksByItsOwnPointerWhereItsNeighbourReachesIntoIt) {
  if (cuda() == nullptr) GTEST_SKIP() << "no CUDA device";
  const Neighbours memory;
  if (memory.low == nullptr)
    GTEST_SKIP()
        << "no two of the allocations lie beside each other with this driver, and only such can share a registration";
  const Handle handle(fd_);
  const Registration registration(memory.low->address(), Neighbours::size + 1);
  EXPECT_EQ(read_file(handle.get(), memory.high->address(), Neighbours::size, 3), moved(Neighbours::size));
  EXPECT_TRUE(same_bytes({file_.content().data() + 3, Neighbours::size}, memory.high->get()));
  EXPECT_EQ(write_file(handle.get(), memory.high->address(), 4096, 9, 5), moved(4096));
  EXPECT_TRUE(same_bytes(memory.high->get(5, 4096), plain_read(fd_.get(), 9, 4096)));
}

TEST_F(Buffer, ReachesIntoNoByteThatItsNeighbourHasRegistered) {
  if (cuda() == nullptr) GTEST_SKIP() << "no CUDA device";
  const Neighbours memory;
  if (memory.low == nullptr)
    GTEST_SKIP()
        << "no two of the allocations lie beside each other with this driver, and only such can share a registration";
  const Registration registration(memory.high->at(4095), 1);
  EXPECT_EQ(register_buffer(memory.low->address(), Neighbours::size + 4096), CU_FILE_MEMORY_ALREADY_REGISTERED);
  EXPECT_EQ(register_buffer(memory.low->address(), Neighbours::size + 4095), CU_FILE_SUCCESS);
  EXPECT_EQ(deregister_buffer(memory.low->address()), CU_FILE_SUCCESS);
}

TEST_F(Buffer, IsRegisteredWhereItsNeighbourReachesIntoItHoweverLongItIsSaidToBe) {
  if (cuda() == nullptr) GTEST_SKIP() << "no CUDA device";
  const Neighbours memory;
  if (memory.low == nullptr)
    GTEST_SKIP()
        << "no two of the allocations lie beside each other with this driver, and only such can share a registration";
  constexpr std::size_t far = std::size_t{1} << 40;
  EXPECT_EQ(register_buffer(memory.high->address(), far), CU_FILE_CUDA_POINTER_RANGE_ERROR);
  const Registration registration(memory.low->address(), Neighbours::size + 1);
  EXPECT_EQ(register_buffer(memory.high->address(), far), CU_FILE_MEMORY_ALREADY_REGISTERED);
}

// A registration may go on into the next allocation, unless that is registered.
TEST_F(Buffer, MayGoOnIntoTheAllocationBesideItsOwn) {
  if (cuda() == nullptr) GTEST_SKIP() << "no CUDA device";
  constexpr std::size_t half = Neighbours::size;
  const Neighbours memory;
  const Memory* const low = memory.low;
  const Memory* const high = memory.high;
  if (low == nullptr)
    GTEST_SKIP()
        << "no two of the allocations lie beside each other with this driver, and only such can share a registration";
  const Handle handle(fd_);
  ASSERT_EQ(register_buffer(low->address(), half + 4096), CU_FILE_SUCCESS);
  EXPECT_EQ(register_buffer(high->address(), 4096), CU_FILE_MEMORY_ALREADY_REGISTERED);
  EXPECT_EQ(read_file(handle.get(), low->address(), half + 4096, 3), moved(half + 4096));
  EXPECT_TRUE(same_bytes({file_.content().data() + 3, half}, low->get()));
  EXPECT_TRUE(same_bytes({file_.content().data() + 3 + half, 4096}, high->get(0, 4096)));
  EXPECT_EQ(deregister_buffer(low->address()), CU_FILE_SUCCESS);
  ASSERT_EQ(register_buffer(high->address(), 4096), CU_FILE_SUCCESS);
  EXPECT_EQ(register_buffer(low->address(), half + 1), CU_FILE_MEMORY_ALREADY_REGISTERED);
  EXPECT_EQ(deregister_buffer(high->address()), CU_FILE_SUCCESS);
  EXPECT_EQ(read_file(handle.get(), low->address(), half + 1).count, -1) << "unregistered, it ends where it ends";
}

TEST_F(Buffer, IsWrittenOutOfTheAllocationBesideItsOwn) {
  if (cuda() == nullptr) GTEST_SKIP() << "no CUDA device";
  constexpr std::size_t half = Neighbours::size;
  const Neighbours memory;
  if (memory.low == nullptr)
    GTEST_SKIP()
        << "no two of the allocations lie beside each other with this driver, and only such can share a registration";
  const Handle handle(fd_);
  const Registration registration(memory.low->address(), half + 4096);
  ASSERT_EQ(read_file(handle.get(), memory.low->address(), half + 4096, 3), moved(half + 4096));
  EXPECT_EQ(write_file(handle.get(), memory.low->address(), 5000, 9, half - 1000), moved(5000));
  EXPECT_TRUE(same_bytes({file_.content().data() + 3 + half - 1000, 5000}, plain_read(fd_.get(), 9, 5000)));
}

TEST_F(Buffer, OfAReservationWorksInBatchesAndStreams) {
  if (!MappedMemory::available()) GTEST_SKIP() << "no cuMemCreate here";
  constexpr std::size_t piece = 2 * kSize;
  MappedMemory memory(1, piece);
  const Handle handle(fd_);
  ASSERT_EQ(register_buffer(memory.address(), 2 * piece), CU_FILE_SUCCESS);
  memory.grow();
  const off_t seam = static_cast<off_t>(piece - kSize / 2);
  CUfileBatchHandle_t batch = nullptr;
  ASSERT_EQ(code(cuFileBatchIOSetUp(&batch, 2)), CU_FILE_SUCCESS);
  std::array<CUfileIOParams_t, 2> entries{};
  for (std::size_t i = 0; i < 2; ++i) {
    entries[i].mode = CUFILE_BATCH;
    entries[i].fh = handle.get();
    entries[i].opcode = CUFILE_READ;
    entries[i].u.batch.devPtr_base = memory.address();
    entries[i].u.batch.devPtr_offset = i == 0 ? seam : 0;
    entries[i].u.batch.size = i == 0 ? kSize : 4096;
  }
  ASSERT_EQ(code(cuFileBatchIOSubmit(batch, 2, entries.data(), 0)), CU_FILE_SUCCESS);
  std::array<CUfileIOEvents_t, 2> events{};
  unsigned count = 2;
  ASSERT_EQ(code(cuFileBatchIOGetStatus(batch, 2, &count, events.data(), nullptr)), CU_FILE_SUCCESS);
  EXPECT_EQ(count, 2U);
  for (const CUfileIOEvents_t& event : events) EXPECT_EQ(event.status, CUFILE_COMPLETE);
  cuFileBatchIODestroy(batch);
  EXPECT_TRUE(same_bytes({file_.content().data(), kSize}, memory.get(piece - kSize / 2, kSize)));

  const Stream stream;
  std::size_t size = kSize;
  off_t file_offset = 77;
  off_t buffer_offset = seam;
  ssize_t count_moved = 0;
  ASSERT_EQ(code(cuFileReadAsync(handle.get(), memory.address(), &size, &file_offset, &buffer_offset, &count_moved,
                                 stream.get())),
            CU_FILE_SUCCESS);
  stream.synchronize();
  EXPECT_EQ(count_moved, static_cast<ssize_t>(kSize));
  EXPECT_TRUE(same_bytes({file_.content().data() + 77, kSize}, memory.get(piece - kSize / 2, kSize)));
  EXPECT_EQ(deregister_buffer(memory.address()), CU_FILE_SUCCESS);
}

// An offset before it lies within that length, by words.
TEST_F(Buffer, OfHostMemoryAsLongAsAllAddressesHasNothingBeforeItself) {
  constexpr std::size_t far = std::size_t{1} << 31;
  void* const all = mmap(nullptr, far + 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(all, MAP_FAILED);
  char* const last = static_cast<char*>(all) + far;
  ASSERT_EQ(mprotect(last, 4096, PROT_READ | PROT_WRITE), 0);
  const Handle handle(fd_);
  ASSERT_EQ(register_buffer(last, SIZE_MAX), CU_FILE_SUCCESS);
  EXPECT_EQ(write_file(handle.get(), last, 512, 1, -static_cast<off_t>(far)), failed(EIO));
  EXPECT_EQ(deregister_buffer(last), CU_FILE_SUCCESS);
  munmap(all, far + 4096);
}

TEST_F(Buffer, OfHostMemoryMayBeSaidToBeAsLongAsAllAddresses) {
  const Memory memory(MemoryKind::plain, kSize);
  EXPECT_EQ(register_buffer(memory.address(), SIZE_MAX), CU_FILE_SUCCESS);
  const Handle handle(fd_);
  EXPECT_EQ(read_file(handle.get(), memory.address(), kSize), moved(kSize));
  if (cuda() != nullptr) {
    const Memory device(MemoryKind::device, kSize);
    EXPECT_EQ(read_file(handle.get(), device.address(), kSize), moved(kSize));
    EXPECT_TRUE(same_bytes({file_.content().data(), kSize}, device.get()));
  }
  EXPECT_EQ(deregister_buffer(memory.address()), CU_FILE_SUCCESS);
}

// Of a read only what the file has has to fit.
TEST_F(Buffer, MayEndWhereTheFileEndsWhateverTheSizeOfTheRead) {
  const ScratchFile small(100);
  for (const int flags : {0, O_DIRECT}) {
    const Fd fd = small.open(O_RDWR | flags);
    const Handle handle(fd);
    const Memory memory(usual_memory(), 65536);
    EXPECT_EQ(read_file(handle.get(), memory.address(), 64 * kSize), moved(100)) << flags;
    EXPECT_TRUE(same_bytes(small.content(), memory.get(0, 100))) << flags;
  }
}

TEST_F(Buffer, MayBeShorterThanAReadThatTheFileEndsWithin) {
  if (cuda() == nullptr) GTEST_SKIP() << "no CUDA device";
  const ScratchFile small(65536);
  const Fd fd = small.open(O_RDWR);
  const Handle handle(fd);
  const Memory memory(MemoryKind::device, kSize);
  EXPECT_EQ(read_file(handle.get(), memory.address(), 64 * kSize, 1), moved(65535));
  EXPECT_TRUE(same_bytes({small.content().data() + 1, 65535}, memory.get(0, 65535)));
  EXPECT_EQ(write_file(handle.get(), memory.address(), 64 * kSize), failed(EPERM));
  EXPECT_EQ(read_file(handle.get(), memory.address(), 4096, 65536, 64 * kSize), moved(0)) << "at the end of the file";
}

}  // namespace
}  // namespace sluice::contract::buffer_test
