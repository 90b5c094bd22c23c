// SPDX-License-Identifier: Apache-2.0
// Signals: a thread under a storm of them gets its bytes whole; the library's own threads never take one.
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include "contract/life/gated_file.h"
#include "support/calls.h"

namespace sluice::contract::life_signal_test {
namespace {

using namespace support;
using life::GatedFile;

constexpr std::size_t kSize = 3'000'001;

#if defined(__SANITIZE_THREAD__)
constexpr bool kSignalsAreHeldBack = true;
#else
constexpr bool kSignalsAreHeldBack = false;
#endif

std::atomic<int> caught{0};

void catch_signal(int /*signal*/) {
  const int kept = errno;
  ++caught;
  errno = kept;
}

// SIGUSR1 is caught with the given flags, and rains on this thread for as long as the scope lasts.
class Storm {
 public:
  explicit Storm(int flags) {
    struct sigaction action {};
    action.sa_handler = catch_signal;
    action.sa_flags = flags;
    sigaction(SIGUSR1, &action, &before_);
    caught = 0;
    rain_ = std::thread([this, target = pthread_self()] {
      while (!stop_) {
        // One at a time: signals that are pending already would be merged and cost nothing.
        const int seen = caught;
        pthread_kill(target, SIGUSR1);
        for (int look = 0; look < 1000 && caught == seen && !stop_; ++look) std::this_thread::yield();
      }
    });
    while (caught == 0) std::this_thread::yield();
  }
  ~Storm() {
    stop_ = true;
    rain_.join();
    sigaction(SIGUSR1, &before_, nullptr);
  }
  Storm(const Storm&) = delete;
  Storm& operator=(const Storm&) = delete;
  // Waits until this many more have struck.
  static void endure(int strokes) {
    for (const int start = caught; caught < start + strokes;) std::this_thread::yield();
  }

 private:
  struct sigaction before_ {};
  std::atomic<bool> stop_{false};
  std::thread rain_;
};

class LifeSignal : public CufileTest, public ::testing::WithParamInterface<int> {};

TEST_P(LifeSignal, StormsLeaveTransfersWholeOnEveryFileSystem) {
  for (const Place& place : places()) {
    if (!place.why_not.empty() || place.name == "loop" || place.name == "tiny") continue;
    for (const int flags : {0, O_DIRECT}) {
      SCOPED_TRACE(place.name + (flags == 0 ? " buffered" : " direct"));
      const ScratchFile file(random_bytes(kSize, 1), place.path);
      const Fd fd(open(file.path().c_str(), O_RDWR | flags | O_CLOEXEC));
      if (!fd.valid()) continue;  // a file system without O_DIRECT
      const Handle handle(fd);
      const Memory memory(usual_memory(), kSize);
      const Bytes written = random_bytes(kSize, 2);
      const Storm storm(GetParam());
      EXPECT_EQ(read_file(handle.get(), memory.address(), kSize), moved(kSize));
      EXPECT_TRUE(same_bytes(file.content(), memory.get()));
      memory.put(0, written);
      EXPECT_EQ(write_file(handle.get(), memory.address(), kSize - 1, 1), moved(kSize - 1));
      memory.fill(0);
      EXPECT_EQ(read_file(handle.get(), memory.address(), kSize - 1, 1), moved(kSize - 1));
      EXPECT_TRUE(same_bytes({written.data(), kSize - 1}, memory.get(0, kSize - 1)));
    }
  }
}

TEST_P(LifeSignal, StormsDoNotEndAWaitForABatchEarly) {
  if (kSignalsAreHeldBack) GTEST_SKIP() << "ThreadSanitizer holds signals back while a thread waits";
  GatedFile gated(4096);
  const Memory memory(usual_memory(), 4096);
  CUfileBatchHandle_t batch = nullptr;
  ASSERT_EQ(code(cuFileBatchIOSetUp(&batch, 1)), CU_FILE_SUCCESS);
  CUfileIOParams_t entry{};
  entry.mode = CUFILE_BATCH;
  entry.fh = gated.handle();
  entry.opcode = CUFILE_READ;
  entry.u.batch.devPtr_base = memory.address();
  entry.u.batch.size = 4096;
  std::thread submitter([&] { EXPECT_EQ(code(cuFileBatchIOSubmit(batch, 1, &entry, 0)), CU_FILE_SUCCESS); });
  gated.wait_until_inside();
  {
    const Storm storm(GetParam());
    std::thread opener([&] {
      Storm::endure(200);
      gated.open();
    });
    unsigned count = 1;
    CUfileIOEvents_t event{};
    EXPECT_EQ(code(cuFileBatchIOGetStatus(batch, 1, &count, &event, nullptr)), CU_FILE_SUCCESS);
    EXPECT_EQ(count, 1U);
    EXPECT_EQ(event.ret, 4096U);
    opener.join();
  }
  submitter.join();
  cuFileBatchIODestroy(batch);
}

TEST_P(LifeSignal, StormsDoNotEndADeregistrationBeforeTheTransfer) {
  if (kSignalsAreHeldBack) GTEST_SKIP() << "ThreadSanitizer holds signals back while a thread waits";
  GatedFile gated(kSize);
  const Memory memory(usual_memory(), kSize);
  std::atomic<bool> opened{false};
  std::thread reader([&] { EXPECT_EQ(read_file(gated.handle(), memory.address(), kSize), moved(kSize)); });
  gated.wait_until_inside();
  {
    const Storm storm(GetParam());
    std::thread opener([&] {
      Storm::endure(200);
      opened = true;
      gated.open();
    });
    gated.deregister();
    EXPECT_TRUE(opened) << "the handle was given up while a transfer used it";
    opener.join();
  }
  reader.join();
}

INSTANTIATE_TEST_SUITE_P(Caught, LifeSignal, ::testing::Values(0, SA_RESTART), [](const auto& parameters) {
  return std::string(parameters.param == 0 ? "without_restart" : "with_restart");
});

using LifeSignals = CufileTest;

// The signals that a thread blocks, as the kernel's 64 bits; empty when the thread has gone.
std::optional<std::uint64_t> blocked_by(const std::filesystem::path& task) {
  std::ifstream status(task / "status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("SigBlk:")) return std::stoull(line.substr(7), nullptr, 16);
  }
  return std::nullopt;
}

TEST_F(LifeSignals, AreAllBlockedInTheThreadsOfTheLibrary) {
  const ScratchFile file(kSize);
  const Fd fd = file.open(O_RDWR | O_DIRECT);
  const Handle handle(fd);
  const Memory memory(usual_memory(), kSize);
  ASSERT_EQ(write_file(handle.get(), memory.address(), 5001, 3), moved(5001)) << "which takes a thread of the library";
  int found = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::ifstream(task.path() / "comm") >> name;
    if (!name.starts_with("sluice")) continue;
    const auto blocked = blocked_by(task.path());
    if (!blocked) continue;
    ++found;
    for (int signal = 1; signal <= SIGRTMAX; ++signal) {
      // No thread can block these two, and glibc keeps the ones below SIGRTMIN open for itself.
      if (signal == SIGKILL || signal == SIGSTOP || (signal >= 32 && signal < SIGRTMIN)) continue;
      EXPECT_NE(*blocked >> (signal - 1) & 1, 0U) << name << " takes signal " << signal;
    }
  }
  EXPECT_GE(found, 1) << "no thread of the library was found";
}

}  // namespace
}  // namespace sluice::contract::life_signal_test
