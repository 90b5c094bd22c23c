// SPDX-License-Identifier: Apache-2.0
// Large writes into the page cache, which several threads make in turn: whatever one of them meets, the bytes up to the
// count are in the file, in order, and nothing behind it is.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fault/interpose.h"
#include "support/batch.h"
#include "support/calls.h"
#include "support/deadline.h"
#include "support/storage_reads.h"

namespace sluice::fault::turns_test {
namespace {

using namespace support;

constexpr std::size_t kMegabyte = 1 << 20;
constexpr std::size_t kFileSize = 6 * kMegabyte;
constexpr std::size_t kAt = 4097;  // where in the file

// As the library counts them. Its threads tell nothing: with one processor it has some, which lend no hand here.
unsigned processors() {
  cpu_set_t here;
  cpu_set_t first;
  CPU_ZERO(&here);
  CPU_ZERO(&first);
  ::sched_getaffinity(0, sizeof here, &here);
  ::sched_getaffinity(::getpid(), sizeof first, &first);
  CPU_OR(&here, &here, &first);
  const auto allowed = static_cast<unsigned>(CPU_COUNT(&here));
  std::ifstream granted("/sys/fs/cgroup/cpu.max");  // "200000 100000"; "max 100000" where there is no limit
  std::uint64_t quota = 0;
  std::uint64_t period = 0;
  if (!(granted >> quota >> period) || period == 0) return allowed;
  return static_cast<unsigned>(std::min<std::uint64_t>(allowed, quota / period));
}

// As the library asks.
bool is_cached(int fd, std::uint64_t size) {
  std::array<std::uint64_t, 2> range{0, size};
  std::array<std::uint64_t, 5> counts{};
  return ::syscall(451, fd, range.data(), counts.data(), 0U) == 0 && counts[0] == (size + 4095) / 4096;
}

// Where turns are not taken what holds of bytes and counts holds all the same.
std::string why_there_are_no_turns(int fd, std::uint64_t size) {
  if (std::getenv("SLUICE_MODE") != nullptr) return "plain mode";
  if (processors() < 2) return "there is one processor, and none for a second hand";
  if (!is_cached(fd, size)) return "this system does not tell what it has cached";
  struct statfs where {};
  if (::fstatfs(fd, &where) != 0 || (where.f_type != EXT4_SUPER_MAGIC && where.f_type != TMPFS_MAGIC)) {
    return "the file is neither on ext4 nor in memory";
  }
  return "";
}

class WritesInTurn : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped()) return;
    ASSERT_TRUE(interposition_works()) << "the library does not call pread by way of the loader";
    memory_.emplace(MemoryKind::device, kFileSize);
    handle_.emplace(fd_);
  }
  void TearDown() override {
    handle_.reset();
    memory_.reset();
    DeviceTest::TearDown();
  }

  // Writes so much under the plan, and checks what must hold whatever happens.
  Transfer run(std::size_t size, std::vector<Step> steps, Direction direction = Direction::write) {
    const Bytes before = content_of(file_.path());
    const Bytes bytes = random_bytes(size, ++seed_);
    memory_->put(0, bytes);
    Transfer transfer;
    {
      const Plan plan(fd_.get(), direction, std::move(steps));
      transfer = write_file(handle_->get(), memory_->address(), size, kAt);
      calls_ = plan.calls();
      threads_ = plan.threads();
    }
    Bytes expected = before;
    std::copy_n(bytes.begin(), std::max<ssize_t>(transfer.count, 0), expected.begin() + kAt);
    EXPECT_TRUE(same_bytes(expected, content_of(file_.path()))) << ::testing::PrintToString(transfer);
    return transfer;
  }

  const ScratchFile file_{kFileSize};
  const Fd fd_ = file_.open(O_RDWR);
  std::optional<Memory> memory_;
  std::optional<Handle> handle_;
  std::uint64_t seed_ = 1;
  std::size_t calls_ = 0;
  std::size_t threads_ = 0;
};

TEST_F(WritesInTurn, ArriveWhateverTheirSize) {
  for (const std::size_t size : {kMegabyte - 1, kMegabyte, kMegabyte + 1, kMegabyte * 3 / 2, 5 * kMegabyte + 4099}) {
    SCOPED_TRACE(size);
    for (int i = 0; i < 5; ++i) EXPECT_EQ(run(size, {pass()}), moved(size));
  }
}

TEST_F(WritesInTurn, AreMadeByMoreThanOneThread) {
  std::size_t most = 0;
  for (const Deadline deadline; most < 2 && !deadline.has_passed();) {
    EXPECT_EQ(run(4 * kMegabyte, {pass()}), moved(4 * kMegabyte));
    most = std::max(most, threads_);
    if (const std::string why = why_there_are_no_turns(fd_.get(), kFileSize); !why.empty()) GTEST_SKIP() << why;
  }
  EXPECT_GE(most, 2U);
}

TEST_F(WritesInTurn, OfAFileInMemoryAreMadeByMoreThanOneThread) {
  const Fd memory(::memfd_create("sluice-turns", 0));
  const Handle handle(memory);
  const Bytes bytes = random_bytes(4 * kMegabyte, 3);
  memory_->put(0, bytes);
  std::size_t most = 0;
  for (const Deadline deadline; most < 2 && !deadline.has_passed();) {
    const Plan plan(memory.get(), Direction::write, {pass()});
    EXPECT_EQ(write_file(handle.get(), memory_->address(), bytes.size()), moved(bytes.size()));
    most = std::max(most, plan.threads());
    if (const std::string why = why_there_are_no_turns(memory.get(), bytes.size()); !why.empty()) GTEST_SKIP() << why;
  }
  EXPECT_GE(most, 2U);
  Bytes now(bytes.size());
  EXPECT_EQ(::pread(memory.get(), now.data(), now.size(), 0), static_cast<ssize_t>(now.size()));
  EXPECT_TRUE(same_bytes(bytes, now));
}

// What is written over need not be read, and the write would have to wait for it.
TEST_F(WritesInTurn, HaveNothingReadOfAPlaceThatIsNotCached) {
  constexpr int most_tries = 20;
  for (const std::size_t size : {std::size_t{16} << 10U, std::size_t{4} << 20U}) {
    const Bytes bytes = random_bytes(size, 8);
    memory_->put(0, bytes);
    std::optional<std::uint64_t> read;
    for (int i = 0; i < most_tries && !read; ++i) {
      ASSERT_EQ(::fsync(fd_.get()), 0);
      ASSERT_EQ(::posix_fadvise(fd_.get(), 0, 0, POSIX_FADV_DONTNEED), 0);
      const long faults = major_faults();
      const auto before = bytes_read_from_storage();
      if (!before || is_cached(fd_.get(), kFileSize)) {
        GTEST_SKIP() << "nothing leaves this cache, or reads are not counted";
      }
      for (std::size_t at = 0; at + size <= kFileSize; at += size) {
        ASSERT_EQ(write_file(handle_->get(), memory_->address(), size, static_cast<off_t>(at)), moved(size));
      }
      const auto after = bytes_read_from_storage();
      if (after && major_faults() == faults) read = *after - *before;
    }
    if (!read) GTEST_SKIP() << "pages of this program are read from storage again and again";
    // A file system looks up where its blocks are.
    EXPECT_LE(*read, 64U << 10U) << "writes of " << size << " bytes";
  }
}

TEST_F(WritesInTurn, EndWhereAPieceIsRefused) {
  constexpr std::size_t size = 4 * kMegabyte;
  ASSERT_EQ(run(size, {pass()}), moved(size));
  const std::size_t pieces = calls_;
  EXPECT_GT(pieces, 1U);
  for (const int error : {EIO, ENOSPC, EDQUOT}) {
    for (std::size_t good = 0; good < pieces; ++good) {
      SCOPED_TRACE(::testing::Message() << strerrorname_np(error) << " after " << good << " good writes");
      std::vector<Step> steps(good, pass());
      steps.push_back(fail(error));
      steps.push_back(pass());
      const Transfer transfer = run(size, steps);
      EXPECT_EQ(transfer.error, good == 0 ? error : 0);
      EXPECT_EQ(transfer.count > 0, good > 0);
      EXPECT_LT(transfer.count, ssize_t{size});
      EXPECT_EQ(calls_, good + 1) << "no thread writes behind what was refused";
    }
  }
}

TEST_F(WritesInTurn, AreContinuedWhereTheyComeShort) {
  for (const std::size_t length : {5000U, 300000U, 524287U}) {
    SCOPED_TRACE(length);
    EXPECT_EQ(run(2 * kMegabyte + 77, {shorten(length)}), moved(2 * kMegabyte + 77));
  }
}

TEST_F(WritesInTurn, AreFullWhereADeviceTakesNothingMore) {
  EXPECT_EQ(run(2 * kMegabyte, {nothing()}), failed(ENOSPC));
  const Transfer some = run(2 * kMegabyte, {pass(), nothing()});
  EXPECT_GT(some.count, 0);
  EXPECT_LT(some.count, ssize_t{2 * kMegabyte});
}

TEST_F(WritesInTurn, HaveNothingToDoWithReadsThatFail) {
  for (const int error : {EIO, EAGAIN, EINTR}) {
    EXPECT_EQ(run(3 * kMegabyte, {fail(error)}, Direction::read), moved(3 * kMegabyte));
    EXPECT_EQ(run(3 * kMegabyte, {pass(), pass(), pass(), fail(error)}, Direction::read), moved(3 * kMegabyte));
  }
}

TEST_F(WritesInTurn, ArriveThroughADescriptorThatMayNotRead) {
  const Fd write_only = file_.open(O_WRONLY);
  const Handle handle(write_only);
  const Bytes bytes = random_bytes(4 * kMegabyte, 5);
  memory_->put(0, bytes);
  EXPECT_EQ(write_file(handle.get(), memory_->address(), bytes.size()), moved(bytes.size()));
  const Bytes now = content_of(file_.path());
  EXPECT_TRUE(same_bytes(bytes, std::span(now).first(bytes.size())));
}

TEST_F(WritesInTurn, ArriveBehindTheEndOfTheFile) {
  const ScratchFile small(100);
  const Fd fd = small.open(O_RDWR);
  const Handle handle(fd);
  const Bytes bytes = random_bytes(4 * kMegabyte, 6);
  memory_->put(0, bytes);
  EXPECT_EQ(write_file(handle.get(), memory_->address(), bytes.size(), 50), moved(bytes.size()));
  const Bytes now = content_of(small.path());
  EXPECT_TRUE(same_bytes(bytes, std::span(now).subspan(50)));
}

// Each thread has a part of the file, and goes through it twice, piece by piece.
TEST_F(WritesInTurn, OfManyThreadsGoToTheirPlaces) {
  constexpr std::size_t threads = 4;
  constexpr std::size_t piece = 1 * kMegabyte + 4096;
  const ScratchFile file(threads * 3 * piece);
  const Fd fd = file.open(O_RDWR);
  const Handle handle(fd);
  const Bytes bytes = random_bytes(file.content().size(), 7);
  std::vector<std::thread> writers;
  for (std::size_t i = 0; i < threads; ++i) {
    writers.emplace_back([&, i] {
      const Memory memory(MemoryKind::device, piece);
      for (std::size_t part = 0; part < 6; ++part) {
        const std::size_t at = (i * 3 + part % 3) * piece;
        memory.put(0, std::span(bytes).subspan(at, piece));
        EXPECT_EQ(write_file(handle.get(), memory.address(), piece, static_cast<off_t>(at)), moved(piece));
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_TRUE(same_bytes(bytes, content_of(file.path())));
}

// Of a batch: entries so large that hands take turns.
class BatchesInTurn : public WritesInTurn, public ::testing::WithParamInterface<std::size_t> {
 protected:
  // Large ones, of which each makes more than a call; and such that several go with one.
  static constexpr std::size_t kSpace = 4200000;
  const std::size_t kWhole = GetParam();
  const std::size_t kEntries = kSpace / kWhole;

  // The results by entry; backwards, so that neighbours in the batch are none in the file, or one behind the other.
  std::vector<ssize_t> run_batch(std::vector<Step> steps, bool backwards) {
    const Bytes before = content_of(file_.path());
    const Bytes bytes = random_bytes(kEntries * kWhole, ++seed_);
    memory_->put(0, bytes);
    Batch batch(static_cast<unsigned>(kEntries));
    const auto place = [&](std::size_t i) { return kAt + (backwards ? kEntries - 1 - i : i) * kWhole; };
    for (std::size_t i = 0; i < kEntries; ++i) batch.write(handle_->get(), *memory_, kWhole, place(i), i * kWhole);
    std::vector<ssize_t> results;
    {
      const Plan plan(fd_.get(), Direction::write, std::move(steps));
      results = batch.run();
      threads_ = plan.threads();
    }
    Bytes expected = before;
    for (std::size_t i = 0; i < kEntries; ++i) {
      std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(i * kWhole), std::max<ssize_t>(results[i], 0),
                  expected.begin() + static_cast<std::ptrdiff_t>(place(i)));
    }
    EXPECT_TRUE(same_bytes(expected, content_of(file_.path())));
    return results;
  }
};

TEST_P(BatchesInTurn, ArriveEntryByEntry) {
  for (const bool backwards : {false, true}) {
    for (int i = 0; i < 10; ++i) {
      for (const ssize_t result : run_batch({pass()}, backwards)) EXPECT_EQ(result, static_cast<ssize_t>(kWhole));
    }
  }
}

TEST_P(BatchesInTurn, AreMadeByMoreThanOneThread) {
  std::size_t most = 0;
  for (const Deadline deadline; most < 2 && !deadline.has_passed();) {
    run_batch({pass()}, true);
    most = std::max(most, threads_);
    if (const std::string why = why_there_are_no_turns(fd_.get(), kFileSize); !why.empty()) GTEST_SKIP() << why;
  }
  EXPECT_GE(most, 2U);
}

TEST_P(BatchesInTurn, TellAnErrorByTheEntryThatMetIt) {
  for (std::size_t good = 0; good < kEntries; ++good) {
    SCOPED_TRACE(::testing::Message() << good << " good writes");
    std::vector<Step> steps(good, pass());
    steps.push_back(fail(EIO));
    steps.push_back(pass());
    const auto results = run_batch(steps, true);
    EXPECT_EQ(std::count(results.begin(), results.end(), static_cast<ssize_t>(kWhole)),
              static_cast<ssize_t>(kEntries) - 1);
  }
  for (const ssize_t result : run_batch({fail(ENOSPC)}, false)) EXPECT_EQ(result, -ENOSPC);
}

TEST_P(BatchesInTurn, AreContinuedWhereTheyComeShort) {
  for (const std::size_t length : {70000U, 500000U, 1000000U}) {
    for (const ssize_t result : run_batch({shorten(length)}, false)) EXPECT_EQ(result, static_cast<ssize_t>(kWhole));
    for (const ssize_t result : run_batch({shorten(length), pass()}, false))
      EXPECT_EQ(result, static_cast<ssize_t>(kWhole));
  }
}

TEST_P(BatchesInTurn, SurviveARandomMixture) {
  Random random(run_seed());
  for (int round = 0; round < 20; ++round) {
    SCOPED_TRACE(::testing::Message() << "round " << round << "; SLUICE_TEST_SEED=" << run_seed());
    std::vector<Step> steps;
    for (int i = 0; i < 30; ++i) {
      const std::uint64_t die = random.below(10);
      steps.push_back(die == 0   ? fail(EIO)
                      : die == 1 ? fail(EINTR)
                      : die < 4  ? shorten(random.below(kWhole) + 1)
                                 : pass());
    }
    run_batch(steps, random.below(2) == 0);
    steps.push_back(pass());
    run(5 * kMegabyte, steps);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Entries, BatchesInTurn, ::testing::Values(700000, 300000),
                         ::testing::PrintToStringParamName());

}  // namespace
}  // namespace sluice::fault::turns_test
