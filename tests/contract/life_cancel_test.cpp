// SPDX-License-Identifier: Apache-2.0
// pthread_cancel: inside a call nothing is cut off; the thread ends at its next cancellation point, or on the way out.
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include "contract/life/gated_file.h"
#include "support/calls.h"

namespace sluice::contract {
namespace {

using namespace support;
using life::GatedFile;

constexpr std::size_t kSize = 300001;
constexpr std::size_t kBlock = 4096;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

// A thread that can be cancelled.
class Cancellable {
 public:
  explicit Cancellable(std::function<void()> body) : body_(std::move(body)) {
    pthread_create(
        &thread_, nullptr,
        [](void* self) -> void* {
          static_cast<Cancellable*>(self)->body_();
          static_cast<Cancellable*>(self)->came_to_its_end_ = true;
          return nullptr;
        },
        this);
  }
  void cancel() const { pthread_cancel(thread_); }
  // True when the thread was cancelled, false when it came to its end. (Not every glibc tells by the thread's result.)
  bool join() const {
    pthread_join(thread_, nullptr);
    return !came_to_its_end_;
  }

 private:
  std::function<void()> body_;
  bool came_to_its_end_ = false;
  pthread_t thread_{};
};

void set_type(int type) {
  int before = 0;
  pthread_setcanceltype(type, &before);
}

// Apart, since the asynchronous type may strike at any instruction: nothing in here has to be destroyed. Both calls
// were made before, for the loader's way to a function that is called for the first time is not to be cut off.
[[gnu::noinline]] void transfer_until_cancelled(int type, CUfileHandle_t handle, void* base, std::atomic<int>& done) {
  pthread_testcancel();
  set_type(type);
  for (;;) {
    cuFileRead(handle, base, kBlock, 0, 0);
    ++done;
    cuFileWrite(handle, base, kBlock, 0, 0);
    ++done;
    pthread_testcancel();
  }
}

std::size_t mapped_kib() {
  std::ifstream file("/proc/self/status");
  for (std::string word; file >> word;) {
    std::size_t kib = 0;
    if (word == "VmSize:" && file >> kib) return kib;
  }
  return 0;
}

// A while that differs from round to round, counted in instructions.
void spin(int turns) {
  for (int turn = 0; turn < turns; ++turn) std::atomic_signal_fence(std::memory_order_seq_cst);
}

class LifeCancel : public CufileTest, public ::testing::WithParamInterface<int> {
 protected:
  // A transfer stands still, its thread is cancelled, then the transfer may go on. It must be whole, its thread must
  // end as cancelled, and no thread may wait for it afterwards.
  void expect_whole(MemoryKind kind) {
    GatedFile gated(kSize);
    const Memory memory(kind, kSize);
    const Registration registration(memory);
    const Cancellable reader([&] {
      set_type(GetParam());
      cuFileRead(gated.handle(), memory.address(), kSize, 0, 0);
      for (;;) pthread_testcancel();
    });
    gated.wait_until_inside();
    reader.cancel();
    gated.open();
    EXPECT_TRUE(reader.join());
    EXPECT_TRUE(same_bytes(gated.content(), memory.get()));
    gated.deregister();
  }
};

TEST_P(LifeCancel, InsideATransferLetsItComeToItsEnd) {
  expect_whole(MemoryKind::plain);
}

TEST_P(LifeCancel, InsideATransferToADeviceLetsItComeToItsEnd) {
  if (!available(MemoryKind::device)) GTEST_SKIP() << "no CUDA device";
  expect_whole(MemoryKind::device);
}

TEST_P(LifeCancel, InsideABatchLetsItComeToItsEnd) {
  if (kSanitized && GetParam() == PTHREAD_CANCEL_ASYNCHRONOUS) {
    GTEST_SKIP()
        << "the program's own functions have a sanitizer's code in them, which is not made for being ended anywhere";
  }
  GatedFile gated(kSize);
  const Memory memory(usual_memory(), kSize);
  CUfileBatchHandle_t batch = nullptr;
  ASSERT_EQ(code(cuFileBatchIOSetUp(&batch, 1)), CU_FILE_SUCCESS);
  const Cancellable submitter([&] {
    set_type(GetParam());
    CUfileIOParams_t entry{};
    entry.mode = CUFILE_BATCH;
    entry.fh = gated.handle();
    entry.opcode = CUFILE_READ;
    entry.u.batch.devPtr_base = memory.address();
    entry.u.batch.size = kSize;
    cuFileBatchIOSubmit(batch, 1, &entry, 0);
    for (;;) pthread_testcancel();
  });
  gated.wait_until_inside();
  submitter.cancel();
  gated.open();
  EXPECT_TRUE(submitter.join());
  unsigned count = 1;
  CUfileIOEvents_t event{};
  EXPECT_EQ(code(cuFileBatchIOGetStatus(batch, 1, &count, &event, nullptr)), CU_FILE_SUCCESS);
  EXPECT_EQ(count, 1U);
  EXPECT_EQ(event.ret, kSize);
  cuFileBatchIODestroy(batch);
}

TEST_P(LifeCancel, InsideADeregistrationLetsItComeToItsEnd) {
  GatedFile gated(kSize);
  const Memory memory(usual_memory(), kSize);
  std::thread reader([&] { EXPECT_EQ(read_file(gated.handle(), memory.address(), kSize), moved(kSize)); });
  gated.wait_until_inside();
  CUfileHandle_t const handle = gated.handle();
  const Cancellable ending([&] {
    set_type(GetParam());
    cuFileHandleDeregister(handle);
    for (;;) pthread_testcancel();
  });
  while (read_file(handle, memory.address(), 0) != failed(CU_FILE_HANDLE_NOT_REGISTERED)) std::this_thread::yield();
  ending.cancel();
  gated.open();
  EXPECT_TRUE(ending.join());
  reader.join();
}

TEST_P(LifeCancel, BeforeACallDoesNotCutItOff) {
  // The cancellation is pending when the call is made: it may end the thread before the call or behind it, never in it.
  const ScratchFile file(kSize);
  const Fd fd = file.open(O_RDWR | O_DIRECT);
  const Handle handle(fd);
  const Fd again = file.open(O_RDWR);
  const Memory memory(MemoryKind::plain, kSize);
  const Cancellable thread([&] {
    pthread_cancel(pthread_self());  // of the deferred type: nothing happens yet
    EXPECT_EQ(read_file(handle.get(), memory.address(), kSize), moved(kSize));
    EXPECT_EQ(write_file(handle.get(), memory.address(), 5001, 3), moved(5001));
    CUfileHandle_t other = nullptr;
    EXPECT_EQ(register_fd(again.get(), &other), CU_FILE_SUCCESS);
    cuFileHandleDeregister(other);
    set_type(GetParam());
    for (;;) pthread_testcancel();
  });
  EXPECT_TRUE(thread.join());
  EXPECT_TRUE(same_bytes(file.content(), memory.get()));
}

TEST_P(LifeCancel, AtAnyMomentLeavesNothingInUseAndServesTheOthers) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's code in our functions is not made for being ended at any instruction";
  constexpr int rounds = 1000;
  constexpr int settled = 100;
  const ScratchFile file(kBlock);
  const Fd fd = file.open(O_RDWR);
  Handle handle(fd);
  const Memory memory(usual_memory(), kBlock);
  memory.put(0, file.content());
  const Memory others(usual_memory(), kBlock);
  EXPECT_EQ(read_file(handle.get(), others.address(), kBlock), moved(kBlock));
  EXPECT_EQ(write_file(handle.get(), others.address(), kBlock), moved(kBlock));
  std::size_t mapped = 0;
  for (int round = 0; round < rounds; ++round) {
    std::atomic<int> done{0};
    const Cancellable thread([&] { transfer_until_cancelled(GetParam(), handle.get(), memory.address(), done); });
    while (done <= round % 7) std::this_thread::yield();
    spin(37 * round % 4096);
    thread.cancel();
    EXPECT_EQ(read_file(handle.get(), others.address(), kBlock), moved(kBlock)) << "round " << round;
    ASSERT_TRUE(thread.join()) << "round " << round;
    if (round == settled) mapped = mapped_kib();
  }
  // A MiB of staging memory that was lost with each thread would be 900 MiB by now.
  constexpr std::size_t slack_kib = std::size_t{300} * 1024;
  EXPECT_LT(mapped_kib(), mapped + slack_kib);
  EXPECT_TRUE(same_bytes(file.content(), memory.get()));
  EXPECT_TRUE(same_bytes(file.content(), content_of(file.path())));
  handle.deregister();  // would wait for ever for a transfer that was cut off
  close_driver_fully();
}

INSTANTIATE_TEST_SUITE_P(Type, LifeCancel, ::testing::Values(PTHREAD_CANCEL_DEFERRED, PTHREAD_CANCEL_ASYNCHRONOUS),
                         [](const auto& parameters) {
                           return std::string(parameters.param == PTHREAD_CANCEL_DEFERRED ? "deferred"
                                                                                          : "asynchronous");
                         });

}  // namespace
}  // namespace sluice::contract
