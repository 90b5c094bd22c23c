// SPDX-License-Identifier: Apache-2.0
// CUDA contexts: a transfer works whatever is current on the calling thread, and leaves it so.
#include <gtest/gtest.h>

#include <optional>
#include <thread>
#include <vector>

#include "support/calls.h"
#include "support/cuda_driver.h"

namespace sluice::contract {
namespace {

using namespace support;

constexpr std::size_t kSize = 500001;

CudaContext current_context() {
  CudaContext context = nullptr;
  cuda()->context_current(&context);
  return context;
}

class Contexts : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    handle_.emplace(fd_);
  }

  void expect_round_trip(const Memory& memory, std::uint64_t seed) const {
    const Bytes bytes = random_bytes(kSize, seed);
    memory.put(0, bytes);
    const CudaContext before = current_context();
    EXPECT_EQ(write_file(handle_->get(), memory.address(), kSize), moved(kSize));
    EXPECT_EQ(current_context(), before);
    memory.fill(0);
    EXPECT_EQ(read_file(handle_->get(), memory.address(), kSize), moved(kSize));
    EXPECT_EQ(current_context(), before);
    EXPECT_TRUE(same_bytes(bytes, memory.get()));
  }

  const ScratchFile file_{kSize};
  const Fd fd_ = file_.open(O_RDWR);
  std::optional<Handle> handle_;
};

TEST_F(Contexts, NeedNotBeCurrent) {
  for (const MemoryKind kind : {MemoryKind::device, MemoryKind::managed, MemoryKind::pinned, MemoryKind::plain}) {
    SCOPED_TRACE(name_of(kind));
    const Memory memory(kind, kSize);
    cuda()->context_set(nullptr);
    expect_round_trip(memory, 1);
    const Registration registration(memory);
    expect_round_trip(memory, 2);
    EXPECT_EQ(current_context(), nullptr);
  }
}

TEST_F(Contexts, NeedNotBeCurrentOnANewThread) {
  const Memory memory(MemoryKind::device, kSize);
  std::thread thread([&] {
    EXPECT_EQ(current_context(), nullptr);
    expect_round_trip(memory, 3);
    EXPECT_EQ(current_context(), nullptr);
  });
  thread.join();
}

TEST_F(Contexts, MayHaveBeenPopped) {
  const Memory memory(MemoryKind::device, kSize);
  CudaContext popped = nullptr;
  ASSERT_EQ(cuda()->context_pop(&popped), 0);
  expect_round_trip(memory, 4);
  const Registration registration(memory);
  expect_round_trip(memory, 5);
  ASSERT_EQ(cuda()->context_push(popped), 0);
}

TEST_F(Contexts, StayCurrentWhenCallsFail) {
  const Memory memory(MemoryKind::device, kSize);
  const CudaContext before = current_context();
  read_file(handle_->get(), memory.address(), kSize, -1);
  read_file(handle_->get(), memory.address(), 1000 * kSize);
  cuFileBufRegister(memory.address(), 1000 * kSize, 0);
  EXPECT_EQ(current_context(), before);
}

TEST_F(Contexts, OfTheMemoryMayBeAnotherThanTheCurrentOne) {
  CudaContext second = nullptr;
  ASSERT_EQ(cuda()->context_create(&second, 0, 0), 0);
  cuda()->context_set(second);
  CudaAddress address = 0;
  ASSERT_EQ(cuda()->allocate(&address, kSize), 0);
  void* const base = reinterpret_cast<void*>(address);

  cuda()->context_set(primary_context(0));
  EXPECT_EQ(read_file(handle_->get(), base, kSize), moved(kSize));
  ASSERT_EQ(code(cuFileBufRegister(base, kSize, 0)), CU_FILE_SUCCESS);
  EXPECT_EQ(read_file(handle_->get(), base, kSize), moved(kSize));
  EXPECT_EQ(current_context(), primary_context(0));

  cuda()->context_set(second);
  Bytes found(kSize);
  ASSERT_EQ(cuda()->to_host(found.data(), address, kSize), 0);
  EXPECT_TRUE(same_bytes(file_.content(), found));
  EXPECT_EQ(code(cuFileBufDeregister(base)), CU_FILE_SUCCESS);

  // The primary context's memory while the second one is current.
  const Memory memory(MemoryKind::device, kSize);
  expect_round_trip(memory, 6);
  EXPECT_EQ(current_context(), second);

  cuda()->release(address);
  cuda()->context_set(primary_context(0));
  cuda()->context_destroy(second);
}

TEST_F(Contexts, MayBeDestroyedAndTheNextOneWorks) {
  for (int round = 0; round < 5; ++round) {
    CudaContext context = nullptr;
    ASSERT_EQ(cuda()->context_create(&context, 0, 0), 0);
    cuda()->context_set(context);
    CudaAddress address = 0;
    ASSERT_EQ(cuda()->allocate(&address, kSize), 0);
    EXPECT_EQ(read_file(handle_->get(), reinterpret_cast<void*>(address), kSize), moved(kSize)) << "round " << round;
    cuda()->release(address);
    cuda()->context_set(primary_context(0));
    cuda()->context_destroy(context);
  }
}

class Devices : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (cuda() != nullptr && cuda()->devices < 2) GTEST_SKIP() << "only one device here";
  }
};

TEST_F(Devices, OfAnyNumberGetTheirBytes) {
  const ScratchFile file(kSize);
  const Fd fd = file.open(O_RDWR);
  const Handle handle(fd);
  for (int device = cuda()->devices - 1; device >= 0; --device) {
    for (const MemoryKind kind : {MemoryKind::device, MemoryKind::managed}) {
      SCOPED_TRACE(::testing::Message() << "device " << device << " " << name_of(kind));
      const Memory memory(kind, kSize, device);
      memory.fill(0);
      EXPECT_EQ(read_file(handle.get(), memory.address(), kSize), moved(kSize));
      EXPECT_TRUE(same_bytes(file.content(), memory.get()));
      const Registration registration(memory);
      EXPECT_EQ(read_file(handle.get(), memory.address(), kSize - 1, 1, 1), moved(kSize - 1));
      EXPECT_TRUE(same_bytes(file.content(), memory.get()));
      EXPECT_EQ(current_context(), primary_context(0));
    }
  }
}

TEST_F(Devices, WorkAtTheSameTime) {
  const ScratchFile file(kSize);
  const Fd fd = file.open(O_RDONLY);
  const Handle handle(fd);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 8; ++thread) {
    threads.emplace_back([&, thread] {
      const Memory memory(MemoryKind::device, kSize, thread % cuda()->devices);
      for (int round = 0; round < 10; ++round) {
        memory.fill(0);
        ASSERT_EQ(read_file(handle.get(), memory.address(), kSize), moved(kSize));
        ASSERT_TRUE(same_bytes(file.content(), memory.get()));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace sluice::contract
