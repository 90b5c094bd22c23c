// SPDX-License-Identifier: Apache-2.0
// Things that end while transfers run: nothing crashes, nothing hangs, and each transfer is either whole or says why
// not.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <thread>
#include <vector>

#include "support/calls.h"

namespace sluice::contract {
namespace {

using namespace support;

constexpr std::size_t kSize = 200001;
constexpr std::size_t kReaders = 4;

// Threads that read into memory of their own, again and again, until the scope ends. What they get is judged at once.
class Readers {
 public:
  using Judge = bool (*)(Transfer);

  Readers(const std::atomic<CUfileHandle_t>& handle, std::span<const unsigned char> content, Judge acceptable)
      : handle_(handle), content_(content), acceptable_(acceptable) {
    for (std::size_t i = 0; i < kReaders; ++i) threads_.emplace_back([this] { read_until_told(); });
    while (rounds_ < kReaders) std::this_thread::yield();
  }
  ~Readers() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  void read_until_told() {
    const Memory memory(usual_memory(), kSize);
    while (!stop_) {
      const Transfer transfer = read_file(handle_, memory.address(), kSize);
      ++rounds_;
      if (transfer == moved(kSize)) {
        ASSERT_TRUE(same_bytes(content_, memory.get()));
      } else {
        ASSERT_TRUE(acceptable_(transfer)) << ::testing::PrintToString(transfer);
      }
    }
  }

  const std::atomic<CUfileHandle_t>& handle_;
  std::span<const unsigned char> content_;
  Judge acceptable_;
  std::atomic<bool> stop_{false};
  std::atomic<std::size_t> rounds_{0};
  std::vector<std::thread> threads_;
};

bool never(Transfer /*transfer*/) {
  return false;
}
bool says_deregistered(Transfer transfer) {
  return transfer == failed(CU_FILE_HANDLE_NOT_REGISTERED);
}
bool says_closed(Transfer transfer) {
  return transfer == failed(CU_FILE_HANDLE_NOT_REGISTERED) || transfer == failed(CU_FILE_DRIVER_CLOSING);
}

class Lifetime : public CufileTest {
 protected:
  const ScratchFile file_{kSize};
};

TEST_F(Lifetime, OfAHandleMayEndUnderTransfers) {
  cuFileDriverOpen();
  const Fd fd = file_.open(O_RDWR);
  std::atomic<CUfileHandle_t> shared{nullptr};
  CUfileHandle_t handle = nullptr;
  ASSERT_EQ(register_fd(fd.get(), &handle), CU_FILE_SUCCESS);
  shared = handle;
  const Readers readers(shared, file_.content(), says_deregistered);
  for (int round = 0; round < 200; ++round) {
    cuFileHandleDeregister(handle);
    ASSERT_EQ(register_fd(fd.get(), &handle), CU_FILE_SUCCESS);
    shared = handle;
  }
}

TEST_F(Lifetime, OfOtherHandlesDoesNotDisturbTransfers) {
  const Fd fd = file_.open(O_RDWR);
  const Handle handle(fd);
  const std::atomic<CUfileHandle_t> shared{handle.get()};
  const Readers readers(shared, file_.content(), never);
  for (int round = 0; round < 200; ++round) {
    const Fd other = file_.open(O_RDWR | O_DIRECT);
    const Handle short_lived(other);
  }
}

TEST_F(Lifetime, OfOtherBuffersDoesNotDisturbTransfers) {
  const Fd fd = file_.open(O_RDWR);
  const Handle handle(fd);
  const std::atomic<CUfileHandle_t> shared{handle.get()};
  const Readers readers(shared, file_.content(), never);
  for (int round = 0; round < 200; ++round) {
    const Memory memory(usual_memory(), 65536);
    const Registration registration(memory);
  }
}

TEST_F(Lifetime, OfARegistrationMayEndUnderTransfers) {
  const Fd fd = file_.open(O_RDWR);
  const Handle handle(fd);
  const Memory memory(usual_memory(), kReaders * kSize);
  std::atomic<bool> stop{false};
  std::atomic<int> reads{0};
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kReaders; ++i) {
    threads.emplace_back([&, own = static_cast<off_t>(i * kSize)] {
      do {
        EXPECT_EQ(read_file(handle.get(), memory.address(), kSize, 0, own), moved(kSize));
        ++reads;
      } while (!stop);
    });
  }
  for (int round = 0; round < 200 || reads < 100; ++round) {
    EXPECT_EQ(code(cuFileBufRegister(memory.address(), memory.size(), 0)), CU_FILE_SUCCESS);
    EXPECT_EQ(code(cuFileBufDeregister(memory.address())), CU_FILE_SUCCESS);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < kReaders; ++i) {
    EXPECT_TRUE(same_bytes(file_.content(), memory.get(i * kSize, kSize))) << "reader " << i;
  }
}

TEST_F(Lifetime, OfTheDriverMayEndUnderTransfers) {
  const Fd fd = file_.open(O_RDWR);
  std::atomic<CUfileHandle_t> shared{nullptr};
  CUfileHandle_t handle = nullptr;
  ASSERT_EQ(register_fd(fd.get(), &handle), CU_FILE_SUCCESS);
  shared = handle;
  const Readers readers(shared, file_.content(), says_closed);
  for (int round = 0; round < 50; ++round) {
    close_driver_fully();
    ASSERT_EQ(register_fd(fd.get(), &handle), CU_FILE_SUCCESS);
    shared = handle;
  }
}

TEST_F(Lifetime, OfTheUsersDescriptorMayEndUnderTransfers) {
  // The number is taken again by another file: a reader gets the one file or an error, never the other.
  const ScratchFile other(kSize);
  Fd fd = file_.open(O_RDONLY);
  const int number = fd.get();
  const Handle handle(fd);
  const Memory memory(usual_memory(), kSize);
  ASSERT_EQ(read_file(handle.get(), memory.address(), kSize), moved(kSize));
  fd.reset();
  const Fd taken = other.open(O_RDONLY);
  ASSERT_EQ(taken.get(), number);
  memory.fill(1);
  EXPECT_EQ(read_file(handle.get(), memory.address(), kSize), failed(EBADF));
  EXPECT_TRUE(all_bytes(1, memory.get()));
}

using LifetimeDeathTest = Lifetime;

TEST_F(LifetimeDeathTest, OfTheProgramMayEndWithEverythingOpen) {
  // In a fresh process, which leaves without closing anything; its exit status tells.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const Fd fd = file_.open(O_RDWR);
        file_.unlink();  // no destructor of this process will
        CUfileHandle_t handle = nullptr;
        register_fd(fd.get(), &handle);
        const Memory memory(usual_memory(), kSize);
        cuFileBufRegister(memory.address(), kSize, 0);
        const bool good = read_file(handle, memory.address(), kSize) == moved(kSize);
        std::exit(good ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace sluice::contract
