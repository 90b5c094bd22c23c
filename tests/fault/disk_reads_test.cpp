// SPDX-License-Identifier: Apache-2.0
// How O_DIRECT reads into device memory are kept on their way (sluice.disk_reads), as the kernel sees it: which
// rings are made, and what they are asked for.
#include <gtest/gtest.h>
#include <linux/io_uring.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "fault/interpose.h"
#include "support/batch.h"
#include "support/calls.h"
#include "support/system_call.h"

namespace sluice::fault::disk_reads_test {
namespace {

using namespace support;

constexpr std::size_t kMiB = std::size_t{1} << 20;

bool is_in_the_first_user_namespace() {
  constexpr std::uint64_t every_id = 0xffffffff;
  std::ifstream map("/proc/self/uid_map");
  std::uint64_t inside = 1;
  std::uint64_t outside = 1;
  std::uint64_t count = 0;
  return map >> inside >> outside >> count && inside == 0 && outside == 0 && count == every_id;
}

// A capability that a container without root has of its own does not count.
bool may_lock_plenty() {
  struct rlimit locked {};
  getrlimit(RLIMIT_MEMLOCK, &locked);
  std::ifstream status("/proc/self/status");
  std::uint64_t capabilities = 0;
  for (std::string word; status >> word;) {
    if (word == "CapEff:") status >> std::hex >> capabilities;
  }
  constexpr unsigned ipc_lock = 14;
  return locked.rlim_cur >= 256 * kMiB || ((capabilities >> ipc_lock & 1U) != 0 && is_in_the_first_user_namespace());
}

// As the library makes its tables.
bool tables_begin_empty() {
  io_uring_params params{};
  const long setup[6] = {1, reinterpret_cast<long>(&params)};
  const Fd ring(static_cast<int>(system_call(SYS_io_uring_setup, setup)));
  io_uring_rsrc_register table{};
  table.nr = 1;
  table.flags = IORING_RSRC_REGISTER_SPARSE;
  const long registration[6] = {ring.get(), IORING_REGISTER_BUFFERS2, reinterpret_cast<long>(&table), sizeof table};
  return system_call(SYS_io_uring_register, registration) == 0;
}

class DiskReads : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped()) return;
    const char* const mode = std::getenv("SLUICE_MODE");
    if (mode != nullptr && std::string(mode) == "plain") GTEST_SKIP() << "plain mode does without";
    const char* const way = std::getenv("SLUICE_DISK_READS");
    way_ = way == nullptr ? "auto" : way;
    handle_.emplace(fd_);
    memory_.emplace(MemoryKind::device, kMiB);
  }
  void TearDown() override {
    handle_.reset();
    DeviceTest::TearDown();
  }

  // In a thread of its own, which has no rings yet.
  void read_often(int times, std::size_t size = kMiB) {
    std::thread thread([&] {
      for (int i = 0; i < times; ++i) {
        memory_->fill(0xa5);
        EXPECT_EQ(read_file(handle_->get(), memory_->address(), size, 0, 0), moved(size));
        ASSERT_TRUE(same_bytes(std::span(file_.content()).first(size), memory_->get(0, size))) << "read " << i;
      }
    });
    thread.join();
  }

  const ScratchFile file_{kMiB};
  const Fd fd_ = file_.open(O_RDONLY | O_DIRECT);
  std::string way_;
  std::optional<Handle> handle_;
  std::optional<Memory> memory_;
};

TEST_F(DiskReads, GoByTheRingThatIsChosen) {
  const RingsSeen seen;
  read_often(1);
  if (way_ == "threads") {
    EXPECT_EQ(seen.made(), 0U);
    return;
  }
  if (seen.refused() > 0) GTEST_SKIP() << "the kernel refuses rings here";
  EXPECT_EQ(seen.made_with(way_ == "iopoll" ? IORING_SETUP_IOPOLL : 0U, IORING_SETUP_IOPOLL), 1U);
}

TEST_F(DiskReads, OfSmallSizeAskForARingOnlyToBePolledFor) {
  const RingsSeen seen;
  read_often(3, 4096);
  if (seen.refused() > 0) GTEST_SKIP() << "the kernel refuses rings here";
  EXPECT_EQ(seen.made_with(IORING_SETUP_IOPOLL, IORING_SETUP_IOPOLL), way_ == "iopoll" ? 1U : 0U);
  if (way_ != "iopoll") {
    EXPECT_EQ(seen.made(), 0U);
  }
}

TEST_F(DiskReads, FindTheirMemoryAtHandAfterAWhile) {
  if (way_ != "auto" && way_ != "io_uring") GTEST_SKIP() << "these go another way";
  constexpr int enough = 40;  // of four requests each
  const RingsSeen seen;
  read_often(enough);
  if (seen.made() == 0) GTEST_SKIP() << "no io_uring here";
  if (!may_lock_plenty()) {
    EXPECT_EQ(seen.requests_at_hand(), 0U) << "others need the memory that may be locked";
    GTEST_SKIP() << "little memory may be locked here";
  }
  if (!tables_begin_empty()) GTEST_SKIP() << "kernels before 5.19 want all memory of a table at once";
  EXPECT_GT(seen.requests_at_hand(), 0U);
}

// A sandbox, say, that is put up in the middle of a read. What was on its way is given up after a while, and its
// answers are not taken for those of later requests.
TEST_F(DiskReads, AreFinishedWithoutARingThatLetsNobodyIn) {
  if (way_ != "auto" && way_ != "io_uring") GTEST_SKIP() << "these go another way";
  const ScratchFile file(4 * kMiB);
  const Fd fd = file.open(O_RDONLY | O_DIRECT);
  const Handle handle(fd);
  const auto read = [&](std::size_t at) {
    memory_->fill(0xa5);
    EXPECT_EQ(read_file(handle.get(), memory_->address(), kMiB, static_cast<off_t>(at), 0), moved(kMiB));
    EXPECT_TRUE(same_bytes(std::span(file.content()).subspan(at, kMiB), memory_->get(0, kMiB))) << at;
  };
  std::thread thread([&] {
    const RingsSeen seen;
    {
      const RefusedVisits refused(1, for_ever, EPERM, RefusedVisits::Which::all);
      read(0);
      if (refused.visits() == 0) GTEST_SKIP() << "no io_uring here";
    }
    const std::size_t before = seen.made();
    for (std::size_t again = 1; again < 4; ++again) read(again * kMiB);
    EXPECT_LE(seen.made() - before, 1U);
  });
  thread.join();
}

// The same, but what was on its way is answered: a thread of the kernel's goes on with it, and may have taken requests
// that the library thinks it has not handed over.
TEST_F(DiskReads, AreRightWhenARingIsRefusedWhoseAnswersCome) {
  constexpr std::size_t size = 8 * kMiB;
  const ScratchFile file(size);
  const Fd fd = file.open(O_RDONLY | O_DIRECT);
  const Handle handle(fd);
  const Memory memory(MemoryKind::device, size);
  std::thread thread([&] {
    for (const std::size_t skip : {0U, 1U, 3U}) {
      SCOPED_TRACE(skip);
      for (const std::size_t count : {std::size_t{1}, std::size_t{3}, for_ever}) {
        const RefusedVisits refused(skip, count, EBADF);
        memory.fill(0xa5);
        EXPECT_EQ(read_file(handle.get(), memory.address(), size, 0, 0), moved(size));
        EXPECT_TRUE(same_bytes(file.content(), memory.get()));
      }
      // Nothing of that is left to be met by the next one.
      EXPECT_EQ(read_file(handle.get(), memory.address(), size, 0, 0), moved(size));
      EXPECT_TRUE(same_bytes(file.content(), memory.get()));
    }
  });
  thread.join();
}

// Kernels before 6.3 keep a ring by a descriptor. A program that closes all that it has not opened itself, and then
// opens a file, may get its number.
TEST_F(DiskReads, CloseNoFileOfTheProgramWithTheirThread) {
  const auto rings = [] {
    std::set<int> found;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      if (std::filesystem::read_symlink(entry.path(), gone) != "anon_inode:[io_uring]") continue;
      found.insert(std::stoi(entry.path().filename()));
    }
    return found;
  };
  const std::set<int> others = rings();
  std::set<int> taken;
  std::thread thread([&] {
    EXPECT_EQ(read_file(handle_->get(), memory_->address(), kMiB, 0, 0), moved(kMiB));
    for (const int ring : rings()) {
      if (others.contains(ring)) continue;
      ASSERT_EQ(dup2(fd_.get(), ring), ring);
      taken.insert(ring);
    }
    memory_->fill(0xa5);
    EXPECT_EQ(read_file(handle_->get(), memory_->address(), kMiB, 0, 0), moved(kMiB));
    EXPECT_TRUE(same_bytes(file_.content(), memory_->get()));
  });
  thread.join();
  if (taken.empty()) GTEST_SKIP() << "rings have no descriptors here";
  for (const int file : taken) EXPECT_EQ(close(file), 0) << "another thread has closed it";
}

// A request that has to wait needs a thread of the kernel's; where none can be started, as in a storm of signals, the
// request comes back untried.
TEST_F(DiskReads, ThatTheKernelCancelsAreReadAllTheSame) {
  if (way_ != "auto" && way_ != "io_uring") GTEST_SKIP() << "these go another way";
  for (std::size_t before = 0; before < 4; ++before) {
    SCOPED_TRACE(before);
    std::vector<Step> steps(before, pass());
    steps.push_back(fail(ECANCELED));
    steps.push_back(pass());
    const Plan plan(fd_.get(), Direction::read, steps);
    read_often(1, kMiB / 2);  // in four pieces
    EXPECT_GT(plan.calls(), before);
  }
}

TEST_F(DiskReads, InABatchThatTheKernelCancelsAreReadAllTheSame) {
  if (way_ != "auto" && way_ != "io_uring") GTEST_SKIP() << "these go another way";
  constexpr std::size_t entries = 8;
  constexpr std::size_t size = kMiB / entries;
  for (std::size_t before = 0; before < entries; ++before) {
    SCOPED_TRACE(before);
    memory_->fill(0xa5);
    Batch batch(entries);
    for (std::size_t i = 0; i < entries; ++i) {
      batch.read(handle_->get(), *memory_, size, static_cast<off_t>(i * size), static_cast<off_t>(i * size));
    }
    std::vector<Step> steps(before, pass());
    steps.push_back(fail(ECANCELED));
    steps.push_back(pass());
    const Plan plan(fd_.get(), Direction::read, steps);
    for (const ssize_t result : batch.run()) EXPECT_EQ(result, ssize_t{size});
    EXPECT_TRUE(same_bytes(file_.content(), memory_->get()));
  }
}

TEST_F(DiskReads, GoWithoutARingThatTheKernelRefuses) {
  for (const int error : {EPERM, ENOMEM, EINVAL, ENOSYS, EMFILE}) {
    SCOPED_TRACE(error);
    const RefusedRings refused(error);
    read_often(3);
    EXPECT_EQ(refused.count() > 0, way_ != "threads");
  }
}

}  // namespace
}  // namespace sluice::fault::disk_reads_test
