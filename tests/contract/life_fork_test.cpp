// SPDX-License-Identifier: Apache-2.0
// fork: the child moves bytes between files and host memory, or hears clearly why not; what the parent does goes on.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "contract/life/child.h"
#include "contract/life/gated_file.h"
#include "sluice.h"
#include "support/calls.h"
#include "support/cuda_driver.h"

namespace sluice::contract::life_fork_test {
namespace {

using namespace support;
using life::GatedFile;
using life::in_child;

constexpr std::size_t kSize = 300001;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

// Reads the whole file, writes a ragged piece of it and reads that back, all with plain memory. Empty, or what failed.
std::string use(CUfileHandle_t handle, std::uint64_t seed) {
  const Memory memory(MemoryKind::plain, kSize);
  if (read_file(handle, memory.address(), kSize) != moved(kSize)) return "reading failed";
  const Bytes written = random_bytes(5001, seed);
  memory.put(3, written);
  if (write_file(handle, memory.address(), written.size(), 4097, 3) != moved(written.size())) return "writing failed";
  memory.fill(0);
  if (read_file(handle, memory.address(), written.size(), 4097, 7) != moved(written.size()))
    return "reading back failed";
  return same_bytes(written, memory.get(7, written.size())) ? "" : "wrong bytes";
}

// A file, a handle and a buffer that the child makes itself.
std::string use_fresh_things(int flags) {
  const ScratchFile file(kSize);
  const Fd fd = file.open(O_RDWR | flags);
  CUfileHandle_t handle = nullptr;
  if (register_fd(fd.get(), &handle) != CU_FILE_SUCCESS) return "a new file is refused";
  const Memory memory(MemoryKind::plain, kSize);
  if (code(cuFileBufRegister(memory.address(), kSize, 0)) != CU_FILE_SUCCESS) return "a new buffer is refused";
  if (read_file(handle, memory.address(), kSize) != moved(kSize)) return "a new file cannot be read";
  if (!same_bytes(file.content(), memory.get())) return "wrong bytes of a new file";
  if (code(cuFileBufDeregister(memory.address())) != CU_FILE_SUCCESS) return "a new buffer cannot be deregistered";
  const std::string failure = use(handle, 5);
  cuFileHandleDeregister(handle);
  return failure;
}

class LifeFork : public CufileTest, public ::testing::WithParamInterface<int> {
 protected:
  static int flags() { return GetParam(); }

  const ScratchFile file_{kSize};
  const Fd fd_ = file_.open(O_RDWR | GetParam());
};

TEST_P(LifeFork, AChildUsesItsParentsHandle) {
  const Handle handle(fd_);
  ASSERT_EQ(use(handle.get(), 1), "") << "in the parent, before";
  EXPECT_EQ(in_child([&] { return use(handle.get(), 2); }), "");
  EXPECT_EQ(use(handle.get(), 3), "") << "in the parent, afterwards";
}

TEST_P(LifeFork, AChildOfTheFirstCallUsesItsParentsHandle) {
  const Handle handle(fd_);
  EXPECT_EQ(in_child([&] { return use(handle.get(), 2); }), "");
}

TEST_P(LifeFork, AGrandchildUsesTheHandle) {
  const Handle handle(fd_);
  EXPECT_EQ(use(handle.get(), 1), "");
  EXPECT_EQ(in_child([&] {
              if (std::string failure = use(handle.get(), 2); !failure.empty()) return failure;
              return in_child([&] { return use(handle.get(), 3); });
            }),
            "");
}

TEST_P(LifeFork, AChildOpensFilesOfItsOwn) {
  const Handle handle(fd_);
  ASSERT_EQ(use(handle.get(), 1), "");
  EXPECT_EQ(in_child([] { return use_fresh_things(flags()); }), "");
}

TEST_P(LifeFork, AChildThatEndsEverythingLeavesTheParentsAlone) {
  const Memory memory(usual_memory(), kSize);
  const Handle handle(fd_);
  const Registration registration(memory);
  ASSERT_EQ(read_file(handle.get(), memory.address(), kSize), moved(kSize));
  EXPECT_EQ(in_child([&]() -> std::string {
              cuFileHandleDeregister(handle.get());
              if (code(cuFileBufDeregister(memory.address())) != CU_FILE_SUCCESS) return "the buffer stays";
              if (code(cuFileDriverClose()) != CU_FILE_SUCCESS) return "the driver stays open";
              if (cuFileUseCount() != 0) return "the use count is not 0";
              return use_fresh_things(flags());
            }),
            "");
  EXPECT_EQ(read_file(handle.get(), memory.address(), kSize), moved(kSize));
  EXPECT_TRUE(same_bytes(file_.content(), memory.get()));
}

TEST_P(LifeFork, AChildMayBeMadeByAThreadThatMovesDeviceBytes) {
  // The thread's staging memory is not in the child: it gets new.
  const Memory memory(usual_memory(), kSize);
  const Handle handle(fd_);
  std::thread([&] {
    EXPECT_EQ(read_file(handle.get(), memory.address(), kSize - 1, 1), moved(kSize - 1));
    EXPECT_EQ(in_child([&] { return use(handle.get(), 2); }), "");
    EXPECT_EQ(read_file(handle.get(), memory.address(), kSize), moved(kSize));
  }).join();
}

TEST_P(LifeFork, ADaemonThatForksTwiceBeforeItsFirstCallWorks) {
  EXPECT_EQ(in_child([] {
              setsid();
              return in_child([] { return use_fresh_things(flags()); });
            }),
            "");
}

INSTANTIATE_TEST_SUITE_P(Opened, LifeFork, ::testing::Values(0, O_DIRECT), [](const auto& parameters) {
  return std::string(parameters.param == 0 ? "buffered" : "direct");
});

class LifeForkInFlight : public CufileTest {
 protected:
  void SetUp() override {
    CufileTest::SetUp();
    gated_.emplace(kSize);
    memory_.emplace(usual_memory(), kSize);
    reader_ = std::thread([this] { transfer_ = read_file(gated_->handle(), memory_->address(), kSize); });
    gated_->wait_until_inside();
  }
  void TearDown() override {
    gated_->open();
    reader_.join();
    EXPECT_EQ(transfer_, moved(kSize)) << "the parent's transfer";
    EXPECT_TRUE(same_bytes(gated_->content(), memory_->get()));
    gated_.reset();
    CufileTest::TearDown();
  }

  const ScratchFile file_{kSize};
  const Fd fd_ = file_.open(O_RDWR | O_DIRECT);
  std::optional<GatedFile> gated_;
  std::optional<Memory> memory_;
  std::thread reader_;
  Transfer transfer_;
};

TEST_F(LifeForkInFlight, AChildReadsWhileTheParentsTransferStandsStill) {
  const Handle handle(fd_);
  EXPECT_EQ(in_child([&] { return use(handle.get(), 1); }), "");
}

TEST_F(LifeForkInFlight, AChildDoesNotWaitForTransfersOfThreadsThatItDoesNotHave) {
  EXPECT_EQ(in_child([&]() -> std::string {
              cuFileHandleDeregister(gated_->handle());
              if (code(cuFileDriverClose()) != CU_FILE_SUCCESS) return "the driver stays open";
              return use_fresh_things(O_DIRECT);
            }),
            "");
}

TEST_F(LifeForkInFlight, AChildMayEndByExit) {
  EXPECT_EQ(in_child([&]() -> std::string { std::exit(0); }), "");
}

TEST_F(LifeForkInFlight, AChildUsesTheHandleThatTheParentsTransferUses) {
  EXPECT_EQ(in_child([&]() -> std::string {
              gated_->open();
              const Memory memory(MemoryKind::plain, kSize);
              if (read_file(gated_->handle(), memory.address(), kSize) != moved(kSize)) return "reading failed";
              return same_bytes(gated_->content(), memory.get()) ? "" : "wrong bytes";
            }),
            "");
}

TEST_F(LifeForkInFlight, AChildMayBeMadeWhileADeregistrationWaits) {
  CUfileHandle_t const handle = gated_->handle();
  std::thread ending([&] { gated_->deregister(); });
  // The handle is dead as soon as the deregistration waits; other threads see it so.
  const Memory memory(MemoryKind::plain, 1);
  while (read_file(handle, memory.address(), 0) != failed(CU_FILE_HANDLE_NOT_REGISTERED)) std::this_thread::yield();
  EXPECT_EQ(in_child([&]() -> std::string {
              if (read_file(handle, memory.address(), 1) != failed(CU_FILE_HANDLE_NOT_REGISTERED)) return "it lives";
              if (code(cuFileDriverClose()) != CU_FILE_SUCCESS) return "the driver stays open";
              return use_fresh_things(0);
            }),
            "");
  EXPECT_EQ(in_child([]() -> std::string {
              // Without a look at that handle.
              return code(cuFileDriverClose()) != CU_FILE_SUCCESS ? "the driver stays open" : use_fresh_things(0);
            }),
            "");
  gated_->open();
  ending.join();
}

using LifeForkOnce = CufileTest;

TEST_F(LifeForkOnce, InsideAFileSystemsOwnOperationWorks) {
  GatedFile gated(kSize);
  gated.open();
  std::string told = "not asked";
  gated.set_visitor([&](const void*) { told = in_child([] { return use_fresh_things(O_DIRECT); }); });
  const Memory memory(usual_memory(), kSize);
  EXPECT_EQ(read_file(gated.handle(), memory.address(), kSize), moved(kSize));
  EXPECT_EQ(told, "");
  EXPECT_TRUE(same_bytes(gated.content(), memory.get()));
}

using LifeForkWithADevice = DeviceTest;

TEST_F(LifeForkWithADevice, AChildGetsAClearErrorForDeviceMemory) {
  const ScratchFile file(kSize);
  const Fd fd = file.open(O_RDWR);
  const Handle handle(fd);
  const Memory memory(MemoryKind::device, kSize);
  const Registration registration(memory);
  EXPECT_EQ(in_child([&]() -> std::string {
              for (const std::size_t size : {kSize, std::size_t{4096}, std::size_t{1}}) {
                const Transfer read = read_file(handle.get(), memory.address(), size);
                if (read != failed(EPERM)) return "reading answers " + ::testing::PrintToString(read);
                const std::string sentence = sluice_last_error();
                if (sentence.find("fork") == std::string::npos) return "the sentence is: " + sentence;
                const Transfer written = write_file(handle.get(), memory.address(), size);
                if (written != failed(EIO)) return "writing answers " + ::testing::PrintToString(written);
              }
              return use(handle.get(), 1);
            }),
            "");
}

TEST_F(LifeForkWithADevice, AChildHearsThatDeviceMemoryCannotBeRegistered) {
  const Memory memory(MemoryKind::device, kSize);
  cuFileDriverOpen();
  EXPECT_EQ(in_child([&]() -> std::string {
              const int answer = code(cuFileBufRegister(memory.address(), kSize, 0));
              return answer != CU_FILE_SUCCESS ? "" : "it was registered";
            }),
            "");
}

TEST_F(LifeForkOnce, LeavesAParentsBatchToTheParent) {
  if (!life::children_may_start_threads) GTEST_SKIP() << "ThreadSanitizer knows no threads of a child's own";
  const ScratchFile file(kSize);
  const Fd fd = file.open(O_RDWR);
  const Handle handle(fd);
  const Memory memory(MemoryKind::plain, kSize);
  CUfileBatchHandle_t batch = nullptr;
  ASSERT_EQ(code(cuFileBatchIOSetUp(&batch, 4)), CU_FILE_SUCCESS);
  CUfileIOParams_t entry{};
  entry.mode = CUFILE_BATCH;
  entry.fh = handle.get();
  entry.opcode = CUFILE_READ;
  entry.u.batch.devPtr_base = memory.address();
  entry.u.batch.size = kSize;
  ASSERT_EQ(code(cuFileBatchIOSubmit(batch, 1, &entry, 0)), CU_FILE_SUCCESS);
  CUfileIOEvents_t event{};
  unsigned count = 1;
  EXPECT_EQ(in_child([&]() -> std::string {
              // Neither a hang nor the parent's event: an answer that says no.
              if (code(cuFileBatchIOGetStatus(batch, 1, &count, &event, nullptr)) == CU_FILE_SUCCESS)
                return "collected";
              if (code(cuFileBatchIOSubmit(batch, 1, &entry, 0)) == CU_FILE_SUCCESS) return "submitted";
              cuFileBatchIODestroy(batch);
              CUfileBatchHandle_t own = nullptr;
              if (code(cuFileBatchIOSetUp(&own, 4)) != CU_FILE_SUCCESS) return "no batch of its own";
              if (code(cuFileBatchIOSubmit(own, 1, &entry, 0)) != CU_FILE_SUCCESS) return "its own is refused";
              count = 1;
              if (code(cuFileBatchIOGetStatus(own, 1, &count, &event, nullptr)) != CU_FILE_SUCCESS) return "no event";
              return count == 1 && event.ret == kSize ? "" : "the wrong event";
            }),
            "");
  count = 1;
  EXPECT_EQ(code(cuFileBatchIOGetStatus(batch, 1, &count, &event, nullptr)), CU_FILE_SUCCESS);
  EXPECT_EQ(count, 1U);
  EXPECT_EQ(event.ret, kSize);
  cuFileBatchIODestroy(batch);
}

// Threads that take every lock of the library, again and again, for as long as the scope lasts.
class Busy {
 public:
  Busy() {
    add([this] { register_files(); });
    add([] { register_buffers(); });
    add([this] { move_bytes(); });
    add([] { run_batches(); });
    if (cuda() != nullptr) add([] { register_streams(); });
    // Short-lived threads: their staging memory and streams change hands.
    add([this] { std::thread([this] { read_once(usual_memory()); }).join(); });
  }
  ~Busy() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

 private:
  void add(const std::function<void()>& round) {
    threads_.emplace_back([this, round] {
      while (!stop_) round();
    });
  }
  void register_files() const {
    const Fd fd = file_.open(O_RDWR);
    const Handle handle(fd);
  }
  static void register_buffers() {
    const Memory memory(MemoryKind::plain, 4096);
    const Registration registration(memory);
  }
  void move_bytes() const {
    const Memory memory(MemoryKind::plain, kSize);
    EXPECT_EQ(read_file(handle_.get(), memory.address(), kSize), moved(kSize));
    EXPECT_EQ(write_file(handle_.get(), memory.address(), 5001, 0), moved(5001));
  }
  void read_once(MemoryKind kind) const {
    const Memory memory(kind, 4097);
    EXPECT_EQ(read_file(handle_.get(), memory.address(), 4097, 1), moved(4097));
  }
  static void run_batches() {
    CUfileBatchHandle_t batch = nullptr;
    ASSERT_EQ(code(cuFileBatchIOSetUp(&batch, 4)), CU_FILE_SUCCESS);
    CUfileIOEvents_t event{};
    unsigned count = 1;
    EXPECT_EQ(code(cuFileBatchIOGetStatus(batch, 0, &count, &event, nullptr)), CU_FILE_SUCCESS);
    cuFileBatchIODestroy(batch);
  }
  static void register_streams() {
    const Stream stream;
    EXPECT_EQ(code(cuFileStreamRegister(stream.get(), 0)), CU_FILE_SUCCESS);
    EXPECT_EQ(code(cuFileStreamDeregister(stream.get())), CU_FILE_SUCCESS);
  }

  const ScratchFile file_{kSize};
  const Fd fd_ = file_.open(O_RDWR | O_DIRECT);
  const Handle handle_{fd_};
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

TEST_F(LifeForkOnce, AtAnyMomentOfABusyProgramLeavesNoLockBehind) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's own locks do not live through a fork among busy threads";
  const ScratchFile file(kSize);
  const Fd fd = file.open(O_RDWR | O_DIRECT);
  const Handle handle(fd);
  // With all handlers, and what this thread keeps. NVIDIA's are left out: those of a child that was forked while
  // another thread was inside the driver spin or crash now and then, on what that thread left half changed.
  const bool by_exit = cuda() == nullptr || cuda()->soft;
  const Busy busy;
  for (int round = 0; round < 40; ++round) {
    ASSERT_EQ(in_child([&]() -> std::string {
                std::string failure = use_fresh_things(O_DIRECT);
                if (failure.empty()) failure = use(handle.get(), 1);
                if (failure.empty() && code(cuFileDriverClose()) != CU_FILE_SUCCESS) failure = "the driver stays open";
                if (failure.empty() && by_exit) std::exit(0);
                return failure;
              }),
              "")
        << "round " << round;
  }
}

}  // namespace
}  // namespace sluice::contract::life_fork_test
