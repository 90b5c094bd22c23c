// SPDX-License-Identifier: Apache-2.0
// Small cached reads into registered device memory by the CPU's own stores: which go that way, that every byte is
// right, and that memory which is freed or used by others meanwhile does no harm.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <optional>
#include <thread>
#include <vector>

#include "contract/mapped_memory.h"
#include "support/cuda_driver.h"
#include "support/windows.h"

namespace sluice::contract {
namespace {

using namespace support;

constexpr std::size_t kLargest = 16 << 10;  // that counts as small

class WindowReads : public WindowTest {
 protected:
  const ScratchFile file_{3 * kLargest};
  const Fd fd_ = file_.open(O_RDWR);
};

TEST_F(WindowReads, OfEverySizeAtEveryPlaceAreRight) {
  const Handle handle(fd_);
  // Small allocations share the pages that are mapped: a window begins somewhere inside of one.
  const Memory before(MemoryKind::device, 40000);
  const Memory memory(MemoryKind::device, 40000);
  const Memory behind(MemoryKind::device, 40000);
  for (const Memory* const each : {&before, &memory, &behind}) {
    const Registration registration(*each);
    for (const std::size_t size : {1U, 2U, 7U, 511U, 4095U, 4096U, 4097U, 9001U, 16383U, 16384U}) {
      for (const std::size_t to : {0U, 1U, 8U, 4095U, 20001U}) {
        read_and_look(handle.get(), file_.content(), *each, size % 13 * 41, to, size, By::window);
        if (HasFatalFailure()) return;
      }
    }
  }
  before.fill(0x11);
  behind.fill(0x11);
  const Registration registration(memory);
  read_and_look(handle.get(), file_.content(), memory, 5, 0, kLargest, By::window);
  read_and_look(handle.get(), file_.content(), memory, 5, 40000 - kLargest, kLargest, By::window);
  EXPECT_TRUE(all_bytes(0x11, before.get()));
  EXPECT_TRUE(all_bytes(0x11, behind.get()));
}

TEST_F(WindowReads, ReachTheLastByteOfARegisteredPart) {
  const Handle handle(fd_);
  const Memory memory(MemoryKind::device, 300000);
  const Registration registration(memory.at(70001), 100001);
  for (const std::size_t size : {1U, 4096U, 16384U}) {
    read_and_look(handle.get(), file_.content(), memory, 3, 170002 - size, size, By::window);
    read_and_look(handle.get(), file_.content(), memory, 3, 70001, size, By::window);
  }
}

TEST_F(WindowReads, LeaveMemoryBehindTheEndOfTheFileAlone) {
  const Handle handle(fd_);
  const Memory memory(MemoryKind::device, kLargest + 64);
  const Registration registration(memory);
  const std::size_t end = file_.content().size();
  for (const std::size_t from : {end - 1, end - 4096, end - 9000, end, end + 5}) {
    read_and_look(handle.get(), file_.content(), memory, from, 3, kLargest, By::window);
    if (HasFatalFailure()) return;
  }
}

TEST_F(WindowReads, AreThoseOfRegisteredMemoryAlone) {
  const Handle handle(fd_);
  const Memory memory(MemoryKind::device, 200000);
  read_and_look(handle.get(), file_.content(), memory, 1, 2, 4096, By::another);
  {
    const Registration registration(memory.at(1000), 10000);
    read_and_look(handle.get(), file_.content(), memory, 1, 1000, 4096, By::window);
    read_and_look(handle.get(), file_.content(), memory, 1, 11000, 4096, By::another);
    read_and_look(handle.get(), file_.content(), memory, 1, 100000, 4096, By::another);
  }
  read_and_look(handle.get(), file_.content(), memory, 1, 1000, 4096, By::another);
}

TEST_F(WindowReads, AreSmallAndComeByThePageCache) {
  const Handle handle(fd_);
  const Memory memory(MemoryKind::device, 2 * kLargest);
  const Registration registration(memory);
  read_and_look(handle.get(), file_.content(), memory, 0, 0, kLargest + 1, By::another);
  const ScratchFile other(2 * kLargest);
  const Fd direct = other.open(O_RDONLY | O_DIRECT);
  const Handle past_the_cache(direct);
  read_and_look(past_the_cache.get(), other.content(), memory, 0, 0, 4096, By::another);
}

TEST_F(WindowReads, AreNoWrites) {
  const Handle handle(fd_);
  const Memory memory(MemoryKind::device, kLargest);
  const Registration registration(memory);
  const Bytes bytes = random_bytes(kLargest, 7);
  memory.put(0, bytes);
  const std::uint64_t before = reads_by_window();
  EXPECT_EQ(write_file(handle.get(), memory.address(), 5000, 100, 3), moved(5000));
  EXPECT_EQ(reads_by_window(), before);
  EXPECT_TRUE(same_bytes(std::span(bytes).subspan(3, 5000), plain_read(fd_.get(), 100, 5000)));
}

TEST_F(WindowReads, OfOtherMemoryGoTheirWay) {
  const Handle handle(fd_);
  for (const MemoryKind kind : {MemoryKind::plain, MemoryKind::pinned, MemoryKind::managed}) {
    const Memory memory(kind, kLargest);
    const Registration registration(memory);
    read_and_look(handle.get(), file_.content(), memory, 5, 7, 4096, By::another);
  }
  if (!MappedMemory::available()) return;
  // gdrdrv takes no memory of several pieces.
  constexpr std::size_t piece = std::size_t{2} << 20U;
  const MappedMemory pieces(2, piece);
  const Registration registration(pieces.address(), pieces.size());
  EXPECT_EQ(read_file(handle.get(), pieces.address(), 8192, 9, piece - 4000), moved(8192));
  EXPECT_TRUE(same_bytes(std::span(file_.content()).subspan(9, 8192), pieces.get(piece - 4000, 8192)));
}

TEST_F(WindowReads, IntoMemoryThatWasFreedAreRefused) {
  const Handle handle(fd_);
  Memory memory(MemoryKind::device, kLargest);
  void* const base = memory.address();
  const Registration registration(memory);
  read_and_look(handle.get(), file_.content(), memory, 0, 0, 4096, By::window);
  memory.free();
  EXPECT_EQ(read_file(handle.get(), base, 4096), failed(EPERM));
  EXPECT_EQ(read_file(handle.get(), base, 100, 5, 8000), failed(EPERM));
}

TEST_F(WindowReads, AreNotThoseOfANewAllocationAtTheOldAddress) {
  const Handle handle(fd_);
  std::optional<Memory> old(std::in_place, MemoryKind::device, kLargest);
  void* const base = old->address();
  ASSERT_EQ(code(cuFileBufRegister(base, kLargest, 0)), CU_FILE_SUCCESS);
  read_and_look(handle.get(), file_.content(), *old, 0, 0, 4096, By::window);
  old.reset();
  const Memory fresh(MemoryKind::device, kLargest);
  if (fresh.address() != base) {
    cuFileBufDeregister(base);
    GTEST_SKIP() << "the driver did not give the same address again";
  }
  read_and_look(handle.get(), file_.content(), fresh, 1, 2, 4096, By::another);
  // Registered in its turn, it has a window of its own.
  const Registration registration(fresh);
  read_and_look(handle.get(), file_.content(), fresh, 3, 4, 4096, By::window);
}

TEST_F(WindowReads, GoOnInAContextAfterOthersWereDestroyed) {
  const Handle handle(fd_);
  for (int round = 0; round < 5; ++round) {
    CudaContext context = nullptr;
    CudaContext popped = nullptr;
    CudaAddress address = 0;
    ASSERT_EQ(cuda()->context_create(&context, 0, 0), 0);
    ASSERT_EQ(cuda()->allocate(&address, kLargest), 0);
    cuda()->context_pop(&popped);
    void* const base = reinterpret_cast<void*>(address);
    ASSERT_EQ(code(cuFileBufRegister(base, kLargest, 0)), CU_FILE_SUCCESS);
    const std::uint64_t before = reads_by_window();
    EXPECT_EQ(read_file(handle.get(), base, 4096, round, round), moved(4096));
    EXPECT_EQ(reads_by_window() - before, windows_are_there() ? 1U : 0U);
    EXPECT_EQ(cuda()->context_destroy(context), 0);
    EXPECT_EQ(read_file(handle.get(), base, 4096), failed(EPERM));
    EXPECT_EQ(code(cuFileBufDeregister(base)), CU_FILE_SUCCESS);
  }
}

TEST_F(WindowReads, EndWithTheDriver) {
  const Memory memory(MemoryKind::device, kLargest);
  for (int round = 0; round < 3; ++round) {
    const Handle handle(fd_);
    ASSERT_EQ(code(cuFileBufRegister(memory.address(), kLargest, 0)), CU_FILE_SUCCESS);
    read_and_look(handle.get(), file_.content(), memory, 1, 2, 4096, By::window);
    close_driver_fully();
    const Handle later(fd_);
    read_and_look(later.get(), file_.content(), memory, 1, 2, 4096, By::another);
    close_driver_fully();
  }
}

// Windows come and go under reads that use them, or that find none.
TEST_F(WindowReads, OfManyThreadsDoNotMix) {
  const Handle handle(fd_);
  constexpr unsigned readers = 4;
  const Memory shared(MemoryKind::device, readers * kLargest);
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (unsigned number = 0; number < readers; ++number) {
    threads.emplace_back([&, number] {
      const ContextScope scope(primary_context(0));
      const std::size_t to = number * kLargest;
      for (std::size_t round = 0; !stop.load() || round < 50; ++round) {
        const std::size_t from = (number * 977 + round * 31) % kLargest;
        ASSERT_EQ(read_file(handle.get(), shared.at(to), 5000, static_cast<off_t>(from)), moved(5000));
        if (round % 8 == 0) {
          ASSERT_TRUE(same_bytes(std::span(file_.content()).subspan(from, 5000), shared.get(to, 5000)));
        }
      }
    });
  }
  for (unsigned number = 0; number < 3; ++number) {
    threads.emplace_back([&, number] {
      const ContextScope scope(primary_context(0));
      for (std::size_t round = 0; round < 60; ++round) {
        const Memory own(MemoryKind::device, 3000 + number * 70000);
        const Registration registration(own);
        const std::size_t from = (number * 331 + round * 17) % kLargest;
        ASSERT_EQ(read_file(handle.get(), own.address(), 2000, static_cast<off_t>(from), 900), moved(2000));
        ASSERT_TRUE(same_bytes(std::span(file_.content()).subspan(from, 2000), own.get(900, 2000)));
      }
    });
  }
  for (int round = 0; round < 100; ++round) const Registration registration(shared);
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace sluice::contract
