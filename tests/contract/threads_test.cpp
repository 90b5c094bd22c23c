// SPDX-License-Identifier: Apache-2.0
// Many threads at once: on one handle, on many, with and without contexts, while other threads open and close things.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "support/calls.h"
#include "support/cuda_driver.h"

namespace sluice::contract {
namespace {

using namespace support;

constexpr std::size_t kThreads = 8;
constexpr std::size_t kRegion = 300001;  // of the file, one a thread

// Runs the body in kThreads threads and waits for all.
void in_threads(const std::function<void(std::size_t)>& body) {
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kThreads; ++i) threads.emplace_back(body, i);
  for (std::thread& thread : threads) thread.join();
}

class Threads : public CufileTest, public ::testing::WithParamInterface<int> {
 protected:
  // Writes a thread's region and reads it back, several times, in memory of its own.
  static void work_on_region(CUfileHandle_t handle, std::size_t thread, std::size_t size = kRegion) {
    const Memory memory(usual_memory(), size + 8);
    const auto offset = static_cast<off_t>(thread * size);
    for (std::uint64_t round = 0; round < 6; ++round) {
      const Bytes bytes = random_bytes(size, thread * 100 + round);
      memory.put(8, bytes);
      ASSERT_EQ(write_file(handle, memory.address(), size, offset, 8), moved(size));
      memory.fill(0);
      ASSERT_EQ(read_file(handle, memory.address(), size, offset, 8), moved(size));
      ASSERT_TRUE(same_bytes(bytes, memory.get(8, size))) << "thread " << thread << ", round " << round;
    }
  }

  const ScratchFile file_{kThreads * kRegion};
};

TEST_P(Threads, ShareOneHandle) {
  const Fd fd = file_.open(GetParam());
  const Handle handle(fd);
  in_threads([&](std::size_t thread) { work_on_region(handle.get(), thread); });
}

// Of several pieces on their way to a disk or device each: past the page cache they are a crowd, and wait as one.
TEST_P(Threads, MoveLargeRegionsOfOneFile) {
  constexpr std::size_t large = 5 << 20;
  const ScratchFile file(kThreads * large);
  const Fd fd = file.open(GetParam());
  const Handle handle(fd);
  in_threads([&](std::size_t thread) { work_on_region(handle.get(), thread, large); });
}

TEST_P(Threads, HaveAHandleEach) {
  in_threads([&](std::size_t thread) {
    const Fd fd = file_.open(GetParam());
    const Handle handle(fd);
    work_on_region(handle.get(), thread);
  });
}

TEST_P(Threads, ShareOneRegisteredBuffer) {
  const Fd fd = file_.open(GetParam());
  const Handle handle(fd);
  const Memory memory(usual_memory(), kThreads * kRegion);
  const Registration registration(memory);
  in_threads([&](std::size_t thread) {
    const auto offset = static_cast<off_t>(thread * kRegion);
    EXPECT_EQ(read_file(handle.get(), memory.address(), kRegion, offset, offset), moved(kRegion));
  });
  EXPECT_TRUE(same_bytes(file_.content(), memory.get()));
}

INSTANTIATE_TEST_SUITE_P(Opened, Threads, ::testing::Values(O_RDWR, O_RDWR | O_DIRECT));

class ThreadsAtOnce : public CufileTest {
 protected:
  const ScratchFile file_{kRegion};
};

TEST_F(ThreadsAtOnce, OpenAndCloseTheDriverInPairs) {
  in_threads([&](std::size_t) {
    for (int i = 0; i < 50; ++i) {
      ASSERT_EQ(code(cuFileDriverOpen()), CU_FILE_SUCCESS);
      ASSERT_GE(cuFileUseCount(), 1);
      ASSERT_EQ(code(cuFileDriverClose()), CU_FILE_SUCCESS);
    }
  });
  EXPECT_EQ(cuFileUseCount(), 0);
}

TEST_F(ThreadsAtOnce, RegisterOneDescriptorAndOneOfThemGetsIt) {
  const Fd fd = file_.open(O_RDWR);
  cuFileDriverOpen();
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> winners{0};
    std::atomic<CUfileHandle_t> handle{nullptr};
    in_threads([&](std::size_t) {
      CUfileHandle_t mine = nullptr;
      const int result = register_fd(fd.get(), &mine);
      if (result == CU_FILE_SUCCESS) {
        ++winners;
        handle = mine;
      } else {
        EXPECT_EQ(result, CU_FILE_HANDLE_ALREADY_REGISTERED);
      }
    });
    ASSERT_EQ(winners, 1);
    cuFileHandleDeregister(handle);
  }
}

TEST_F(ThreadsAtOnce, RegisterOneBufferAndOneOfThemGetsIt) {
  const Memory memory(usual_memory(), 65536);
  cuFileDriverOpen();
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> winners{0};
    in_threads([&](std::size_t) {
      const int result = code(cuFileBufRegister(memory.address(), memory.size(), 0));
      if (result == CU_FILE_SUCCESS) ++winners;
      if (result != CU_FILE_SUCCESS) {
        EXPECT_EQ(result, CU_FILE_MEMORY_ALREADY_REGISTERED);
      }
    });
    ASSERT_EQ(winners, 1);
    ASSERT_EQ(code(cuFileBufDeregister(memory.address())), CU_FILE_SUCCESS);
  }
}

TEST_F(ThreadsAtOnce, StartTheDriverWithTheirFirstCall) {
  const Memory memory(usual_memory(), kThreads * 4096);
  in_threads([&](std::size_t thread) {
    const Fd fd = file_.open(O_RDONLY);
    const Handle handle(fd);
    EXPECT_EQ(read_file(handle.get(), memory.address(), 4096, 0, static_cast<off_t>(thread * 4096)), moved(4096));
  });
  EXPECT_EQ(cuFileUseCount(), 1);
}

TEST_F(ThreadsAtOnce, ComeAndGo) {
  const Fd fd = file_.open(O_RDONLY);
  const Handle handle(fd);
  const Memory memory(usual_memory(), kRegion);
  for (int round = 0; round < 20; ++round) {
    in_threads([&](std::size_t thread) {
      EXPECT_EQ(read_file(handle.get(), memory.address(), 4096, 0, static_cast<off_t>(thread * 4096)), moved(4096));
    });
  }
}

TEST_F(ThreadsAtOnce, SeeOnlyTheirOwnErrno) {
  const Fd fd = file_.open(O_RDONLY);
  const Handle handle(fd);
  const Memory memory(usual_memory(), kRegion);
  in_threads([&](std::size_t thread) {
    for (int i = 0; i < 200; ++i) {
      if (thread % 2 == 0) {
        ASSERT_EQ(read_file(handle.get(), memory.address(), 1, -1), failed(CU_FILE_INVALID_VALUE));
      } else {
        ASSERT_EQ(write_file(handle.get(), memory.address(), 1), failed(EIO));
      }
    }
  });
}

}  // namespace
}  // namespace sluice::contract
