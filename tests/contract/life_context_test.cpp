// SPDX-License-Identifier: Apache-2.0
// CUDA contexts that go while the library knows memory of theirs, and several of them at once. A reset of a whole
// device, which only a process of its own can bear, is a scenario of life_program.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "contract/life/gated_file.h"
#include "support/calls.h"
#include "support/cuda_driver.h"

namespace sluice::contract::life_context_test {
namespace {

using namespace support;
using life::GatedFile;

constexpr std::size_t kSize = 500001;

// A context on device 0 with one allocation. Not current outside its own functions.
class Own {
 public:
  Own() {
    if (cuda()->context_create(&context_, 0, 0) != 0) throw std::runtime_error("cuCtxCreate failed");
    if (cuda()->allocate(&address_, kSize) != 0) throw std::runtime_error("cuMemAlloc failed");
    CudaContext popped = nullptr;
    cuda()->context_pop(&popped);
  }
  ~Own() { destroy(); }
  Own(const Own&) = delete;
  Own& operator=(const Own&) = delete;

  // With all that is in it.
  void destroy() {
    if (context_ != nullptr) cuda()->context_destroy(context_);
    context_ = nullptr;
  }
  CudaContext context() const { return context_; }
  void* base() const { return reinterpret_cast<void*>(address_); }
  Bytes get() const {
    const ContextScope scope(context_);
    Bytes bytes(kSize);
    cuda()->to_host(bytes.data(), address_, kSize);
    return bytes;
  }

 private:
  CudaContext context_ = nullptr;
  CudaAddress address_ = 0;
};

class LifeContext : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (!IsSkipped()) handle_.emplace(fd_);
  }
  void expect_read(const Own& own) const {
    EXPECT_EQ(read_file(handle_->get(), own.base(), kSize), moved(kSize));
    EXPECT_TRUE(same_bytes(file_.content(), own.get()));
  }

  const ScratchFile file_{kSize};
  const Fd fd_ = file_.open(O_RDWR);
  std::optional<Handle> handle_;
};

TEST_F(LifeContext, DestroyedWithARegisteredBufferLeavesAnErrorAndNothingElse) {
  Own own;
  ASSERT_EQ(code(cuFileBufRegister(own.base(), kSize, 0)), CU_FILE_SUCCESS);
  expect_read(own);
  own.destroy();
  for (const Transfer& transfer :
       {read_file(handle_->get(), own.base(), kSize), read_file(handle_->get(), own.base(), 1),
        write_file(handle_->get(), own.base(), kSize)}) {
    EXPECT_EQ(transfer.count, -1);
    EXPECT_TRUE(transfer.error == EPERM || transfer.error == EIO || transfer.error == CU_FILE_INVALID_CONTEXT_ERROR)
        << ::testing::PrintToString(transfer);
  }
  EXPECT_TRUE(same_bytes(file_.content(), content_of(file_.path())));
  EXPECT_EQ(code(cuFileBufDeregister(own.base())), CU_FILE_SUCCESS);
  const Own next;
  expect_read(next);
}

TEST_F(LifeContext, DestroyedUnderATransferCostsThatTransferOnly) {
  GatedFile gated(kSize);
  Own own;
  Transfer transfer;
  std::thread reader([&] {
    transfer = read_file(gated.handle(), own.base(), kSize);
    // The same thread, whose stream and staging memory went with the context.
    const Own next;
    expect_read(next);
  });
  gated.wait_until_inside();
  own.destroy();
  gated.open();
  reader.join();
  EXPECT_EQ(transfer.count, -1) << "the memory was gone when the bytes came";
  const Memory memory(MemoryKind::device, kSize);
  EXPECT_EQ(read_file(handle_->get(), memory.address(), kSize), moved(kSize));
  EXPECT_TRUE(same_bytes(file_.content(), memory.get()));
}

TEST_F(LifeContext, DestroyedAgainAndAgainDoesNotConfuseTheThreadsThatServedIt) {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([this] {
      for (int round = 0; round < 6; ++round) {
        const Own own;
        expect_read(own);
        const Memory memory(MemoryKind::device, kSize);
        ASSERT_EQ(read_file(handle_->get(), memory.address(), kSize), moved(kSize));
        ASSERT_TRUE(same_bytes(file_.content(), memory.get()));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(LifeContext, ManyAtATimeGetTheirBytes) {
  std::vector<std::unique_ptr<Own>> all;
  for (int i = 0; i < 4; ++i) all.push_back(std::make_unique<Own>());
  std::vector<std::thread> threads;
  for (const auto& own : all) {
    threads.emplace_back([&] {
      const ContextScope scope(own->context());
      for (int round = 0; round < 5; ++round) expect_read(*own);
    });
  }
  for (std::thread& thread : threads) thread.join();
  // All of them by one thread, in turns.
  for (int round = 0; round < 3; ++round) {
    for (const auto& own : all) expect_read(*own);
  }
}

TEST_F(LifeContext, OfABatchMayDifferFromEntryToEntry) {
  const Own first;
  const Own second;
  const Memory third(MemoryKind::device, kSize, cuda()->devices - 1);
  CUfileBatchHandle_t batch = nullptr;
  ASSERT_EQ(code(cuFileBatchIOSetUp(&batch, 3)), CU_FILE_SUCCESS);
  std::vector<CUfileIOParams_t> entries(3);
  std::vector<CUfileIOEvents_t> events(3);
  const std::vector<void*> bases{first.base(), second.base(), third.address()};
  for (std::size_t i = 0; i < 3; ++i) {
    entries[i].mode = CUFILE_BATCH;
    entries[i].fh = handle_->get();
    entries[i].opcode = CUFILE_READ;
    entries[i].u.batch.devPtr_base = bases[i];
    entries[i].u.batch.size = kSize;
  }
  ASSERT_EQ(code(cuFileBatchIOSubmit(batch, 3, entries.data(), 0)), CU_FILE_SUCCESS);
  unsigned count = 3;
  ASSERT_EQ(code(cuFileBatchIOGetStatus(batch, 3, &count, events.data(), nullptr)), CU_FILE_SUCCESS);
  for (const CUfileIOEvents_t& event : events) EXPECT_EQ(event.ret, kSize);
  EXPECT_TRUE(same_bytes(file_.content(), first.get()));
  EXPECT_TRUE(same_bytes(file_.content(), second.get()));
  EXPECT_TRUE(same_bytes(file_.content(), third.get()));
  cuFileBatchIODestroy(batch);
}

class LifeDevices : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (!IsSkipped() && cuda()->devices < 2) GTEST_SKIP() << "only one device here";
  }
};

TEST_F(LifeDevices, ServeOneThreadInTurns) {
  const ScratchFile file(kSize);
  const Fd fd = file.open(O_RDWR);
  const Handle handle(fd);
  const Memory first(MemoryKind::device, kSize, 0);
  const Memory second(MemoryKind::device, kSize, 1);
  const Registration one(first);
  const Registration two(second);
  for (int round = 0; round < 5; ++round) {
    for (const Memory* memory : {&first, &second}) {
      memory->fill(0);
      EXPECT_EQ(read_file(handle.get(), memory->address(), kSize), moved(kSize));
      EXPECT_TRUE(same_bytes(file.content(), memory->get()));
    }
  }
}

}  // namespace
}  // namespace sluice::contract::life_context_test
