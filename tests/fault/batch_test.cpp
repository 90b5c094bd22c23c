// Faults among the entries of a batch: each is told by its own event, the others are whole, and nothing behind a count
// is touched.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "fault/interpose.h"
#include "support/batch.h"
#include "support/calls.h"

namespace sluice::fault {
namespace {

using namespace support;

constexpr std::size_t kEntries = 24;
constexpr std::size_t kSize = 20000;
constexpr std::size_t kApart = 24000;  // of targets that do not touch
constexpr unsigned char kUntouched = 0xa5;

class BatchFaults : public CufileTest, public ::testing::WithParamInterface<MemoryKind> {
 protected:
  void SetUp() override {
    CufileTest::SetUp();
    ASSERT_TRUE(interposition_works()) << "the library does not call pread by way of the loader";
    if (!available(GetParam())) GTEST_SKIP() << "no CUDA device";
    memory_.emplace(GetParam(), kEntries * kApart);
    handle_.emplace(fd_);
    ASSERT_EQ(code(cuFileBatchIOSetUp(&batch_, kEntries)), CU_FILE_SUCCESS);
  }
  void TearDown() override {
    if (batch_ != nullptr) cuFileBatchIODestroy(batch_);
    handle_.reset();
    CufileTest::TearDown();
  }

  enum class Then { collect, cancel };

  // Reads all pieces under the plan, to places so far apart, and checks what must hold whatever happens. The results by
  // entry.
  std::vector<ssize_t> run(std::vector<Step> steps, Then then = Then::collect, std::size_t apart = kApart) {
    memory_->fill(kUntouched);
    std::vector<CUfileIOParams_t> entries(kEntries);
    for (std::size_t i = 0; i < kEntries; ++i) {
      entries[i].mode = CUFILE_BATCH;
      entries[i].fh = handle_->get();
      entries[i].opcode = CUFILE_READ;
      entries[i].cookie = reinterpret_cast<void*>(i);
      entries[i].u.batch.devPtr_base = memory_->at(i * apart);
      entries[i].u.batch.file_offset = static_cast<off_t>(i * kSize);
      entries[i].u.batch.size = kSize;
    }
    std::vector<ssize_t> results(kEntries, -1);
    {
      const Plan plan(fd_.get(), Direction::read, std::move(steps));
      EXPECT_EQ(code(cuFileBatchIOSubmit(batch_, kEntries, entries.data(), 0)), CU_FILE_SUCCESS);
      if (then == Then::cancel) {
        // As late as a lane may have begun something.
        while (plan.calls() == 0) std::this_thread::yield();
        EXPECT_EQ(code(cuFileBatchIOCancel(batch_)), CU_FILE_SUCCESS);
      }
      std::vector<CUfileIOEvents_t> events(kEntries);
      for (unsigned found = 0; found < kEntries;) {
        unsigned room = kEntries;
        EXPECT_EQ(code(cuFileBatchIOGetStatus(batch_, kEntries, &room, events.data(), nullptr)), CU_FILE_SUCCESS);
        if (room == 0) {
          ADD_FAILURE() << "only " << found << " events";
          break;
        }
        for (unsigned i = 0; i < room; ++i) {
          const auto result = static_cast<ssize_t>(events[i].ret);
          const CUfileStatus_t expected = result < 0 ? CUFILE_FAILED : CUFILE_COMPLETE;
          const bool cancelled = then == Then::cancel && events[i].status == CUFILE_CANCELED;
          EXPECT_EQ(events[i].status, cancelled ? CUFILE_CANCELED : expected);
          EXPECT_TRUE(!cancelled || result == 0) << result;
          results.at(reinterpret_cast<std::size_t>(events[i].cookie)) = result;
        }
        found += room;
      }
      EXPECT_GT(plan.calls(), 0U) << "the plan was not asked";
    }
    for (std::size_t i = 0; i < kEntries; ++i) {
      const auto count = static_cast<std::size_t>(std::max<ssize_t>(results[i], 0));
      EXPECT_TRUE(same_bytes(std::span(file_.content()).subspan(i * kSize, count), memory_->get(i * apart, count)))
          << i;
      EXPECT_TRUE(all_bytes(kUntouched, memory_->get(i * apart + count, apart - count))) << i << ", count " << count;
    }
    return results;
  }

  const ScratchFile file_{kEntries * kSize};
  const Fd fd_ = file_.open(O_RDONLY);
  std::optional<Memory> memory_;
  std::optional<Handle> handle_;
  CUfileBatchHandle_t batch_ = nullptr;
};

TEST_P(BatchFaults, ShortReadsAreContinued) {
  for (const std::size_t length : {1000U, 4096U, 7777U, 16384U}) {
    SCOPED_TRACE(length);
    for (const ssize_t result : run({shorten(length)})) EXPECT_EQ(result, ssize_t{kSize});
  }
}

TEST_P(BatchFaults, InterruptionsAreOutlasted) {
  std::vector<Step> storm(500, fail(EINTR));
  storm.push_back(pass());
  for (const ssize_t result : run(storm)) EXPECT_EQ(result, ssize_t{kSize});
}

TEST_P(BatchFaults, AnErrorIsToldByTheEntryThatMetIt) {
  for (std::size_t good = 0; good < 20; ++good) {
    SCOPED_TRACE(::testing::Message() << good << " good reads");
    std::vector<Step> steps(good, pass());
    steps.push_back(fail(EIO));
    steps.push_back(pass());
    const auto results = run(steps);
    const auto whole = std::count(results.begin(), results.end(), ssize_t{kSize});
    // The read that failed was an entry's first or a later one of it.
    EXPECT_EQ(whole, ssize_t{kEntries} - 1);
  }
}

TEST_P(BatchFaults, AnErrorThatStaysIsToldByAll) {
  for (const int error : {EIO, ENOMEM, ESTALE}) {
    SCOPED_TRACE(strerrorname_np(error));
    for (const ssize_t result : run({fail(error)})) EXPECT_EQ(result, -error);
  }
}

TEST_P(BatchFaults, AFileThatEndsEarlyIsToldByItsCounts) {
  for (const ssize_t result : run({nothing()})) EXPECT_EQ(result, 0);
}

// The page cache has the beginning of an entry and not its rest, which is then asked for in another way, and refused.
TEST_P(BatchFaults, WhatIsInPlaceBeforeAnErrorIsCounted) {
  for (std::size_t good = 0; good < 2 * kEntries; ++good) {
    SCOPED_TRACE(::testing::Message() << good << " good reads");
    std::vector<Step> steps(good, pass());
    steps.push_back(fail(EAGAIN));
    steps.push_back(fail(EIO));
    for (const std::size_t apart : {kApart, kSize}) {
      for (const ssize_t result : run(steps, Then::collect, apart)) EXPECT_TRUE(result > 0 || result == -EIO) << result;
    }
    if (HasFailure()) return;
  }
}

std::vector<Step> random_mixture(Random& random) {
  std::vector<Step> steps;
  for (int i = 0; i < 60; ++i) {
    switch (random.below(6)) {
      case 0:
        steps.push_back(shorten(1 + random.below(kSize)));
        break;
      case 1:
        steps.push_back(fail(EINTR));
        break;
      case 2:
        steps.push_back(fail(random.below(2) == 0 ? EIO : EAGAIN));
        break;
      default:
        steps.push_back(pass());
    }
  }
  steps.push_back(pass());
  return steps;
}

TEST_P(BatchFaults, ARandomMixtureKeepsItsPromises) {
  Random random(run_seed());
  for (int round = 0; round < 30; ++round) {
    SCOPED_TRACE(::testing::Message() << "round " << round << "; SLUICE_TEST_SEED=" << run_seed());
    run(random_mixture(random), Then::collect, round % 2 == 0 ? kApart : kSize);
    if (HasFailure()) return;
  }
}

TEST_P(BatchFaults, CancellingAmidARandomMixtureKeepsThePromises) {
  Random random(run_seed());
  for (int round = 0; round < 30; ++round) {
    SCOPED_TRACE(::testing::Message() << "round " << round << "; SLUICE_TEST_SEED=" << run_seed());
    run(random_mixture(random), Then::cancel, round % 2 == 0 ? kApart : kSize);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, BatchFaults, ::testing::Values(MemoryKind::device, MemoryKind::plain),
                         [](const auto& parameters) { return std::string(name_of(parameters.param)); });

// Writes that go together.
class BatchWriteFaults : public DeviceTest, public ::testing::WithParamInterface<int> {
 protected:
  static constexpr std::size_t kWhole = 20480;  // of an entry; blocks, for O_DIRECT
  static constexpr std::size_t kFar = 24576;    // from one entry to the next, in the file

  // Writes all pieces under the plan, and checks what must hold whatever happens. The results by entry.
  std::vector<ssize_t> run(std::vector<Step> steps, std::uint64_t seed = 1, std::size_t entries = kEntries) {
    const ScratchFile file(kEntries * far_);
    const Fd fd = file.open(GetParam());
    const Handle handle(fd);
    const Memory memory(MemoryKind::device, kEntries * kWhole);
    const Bytes bytes = random_bytes(kEntries * kWhole, seed);
    memory.put(0, bytes);
    Batch batch(kEntries);
    for (std::size_t i = 0; i < entries; ++i) batch.write(handle.get(), memory, kWhole, i * far_, i * kWhole);
    std::vector<ssize_t> results;
    {
      const Plan plan(fd.get(), Direction::write, std::move(steps));
      results = batch.run();
      calls_ = plan.calls();
      EXPECT_GT(calls_, 0U) << "the plan was not asked";
    }
    const Bytes now = content_of(file.path());
    for (std::size_t i = 0; i < entries; ++i) {
      const auto count = static_cast<std::size_t>(std::max<ssize_t>(results[i], 0));
      EXPECT_TRUE(same_bytes(std::span(bytes).subspan(i * kWhole, count), std::span(now).subspan(i * far_, count)))
          << i;
      // Nothing behind the count is touched.
      const std::size_t rest = i * far_ + count;
      EXPECT_TRUE(
          same_bytes(std::span(file.content()).subspan(rest, far_ - count), std::span(now).subspan(rest, far_ - count)))
          << i << ", count " << count;
    }
    return results;
  }

  std::size_t far_ = kFar;
  std::size_t calls_ = 0;
};

TEST_P(BatchWriteFaults, ShortWritesAreContinued) {
  for (const std::size_t length : {4096U, 8192U, 16384U}) {
    SCOPED_TRACE(length);
    for (const ssize_t result : run({shorten(length)})) EXPECT_EQ(result, ssize_t{kWhole});
  }
}

TEST_P(BatchWriteFaults, InterruptionsAreOutlasted) {
  std::vector<Step> storm(500, fail(EINTR));
  storm.push_back(pass());
  for (const ssize_t result : run(storm)) EXPECT_EQ(result, ssize_t{kWhole});
}

TEST_P(BatchWriteFaults, AnErrorIsToldByTheEntryThatMetIt) {
  for (std::size_t good = 0; good < kEntries; good += 3) {
    SCOPED_TRACE(::testing::Message() << good << " good writes");
    std::vector<Step> steps(good, pass());
    steps.push_back(fail(EIO));
    steps.push_back(pass());
    const auto results = run(steps);
    EXPECT_EQ(std::count(results.begin(), results.end(), ssize_t{kWhole}), ssize_t{kEntries} - 1);
    EXPECT_EQ(std::count(results.begin(), results.end(), ssize_t{-EIO}), 1);
  }
}

TEST_P(BatchWriteFaults, AnErrorThatStaysIsToldByAll) {
  for (const int error : {EIO, ENOSPC, EDQUOT}) {
    SCOPED_TRACE(strerrorname_np(error));
    for (const ssize_t result : run({fail(error)})) EXPECT_EQ(result, -error);
  }
}

TEST_P(BatchWriteFaults, ADeviceThatTakesNothingMoreIsFull) {
  for (const ssize_t result : run({nothing()})) EXPECT_EQ(result, -ENOSPC);
}

TEST_P(BatchWriteFaults, WhatIsWrittenBeforeAnErrorIsCounted) {
  EXPECT_EQ(run({shorten(8192), fail(EIO)}, 1, 1), std::vector<ssize_t>{8192});
  // Of several, the one that is refused need not be the one that was shortened.
  const auto results = run({shorten(8192), fail(EIO), pass()});
  EXPECT_EQ(std::count(results.begin(), results.end(), ssize_t{kWhole}), ssize_t{kEntries} - 1);
}

// Of a buffered file those that lie one behind the other go into the file together.
class NeighbourWriteFaults : public BatchWriteFaults {
 protected:
  NeighbourWriteFaults() { far_ = kWhole; }
};

TEST_P(NeighbourWriteFaults, AreWrittenWithFewCalls) {
  if (std::getenv("SLUICE_MODE") != nullptr) GTEST_SKIP() << "in plain mode each goes by itself";
  for (const ssize_t result : run({pass()})) EXPECT_EQ(result, ssize_t{kWhole});
  EXPECT_LE(calls_, kEntries / 4);
}

TEST_P(NeighbourWriteFaults, ShortWritesAreContinuedInTheEntryWhereTheyEnd) {
  for (const std::size_t length : {100U, 4096U, 20480U, 50000U}) {
    SCOPED_TRACE(length);
    for (const ssize_t result : run({shorten(length)})) EXPECT_EQ(result, ssize_t{kWhole});
    for (const ssize_t result : run({shorten(length), pass()})) EXPECT_EQ(result, ssize_t{kWhole});
  }
}

TEST_P(NeighbourWriteFaults, AnErrorBehindAShortWriteIsToldByTheEntryWhereItEnded) {
  if (std::getenv("SLUICE_MODE") != nullptr) GTEST_SKIP() << "in plain mode each goes by itself";
  std::vector<ssize_t> expected(kEntries, ssize_t{kWhole});
  expected[2] = 50000 - 2 * ssize_t{kWhole};
  EXPECT_EQ(run({shorten(50000), fail(EIO), pass()}), expected);
}

// Systems tell some errors once: it counts, although the same bytes could be written now.
TEST_P(NeighbourWriteFaults, AnErrorIsToldByTheFirstOfThem) {
  std::vector<ssize_t> expected(kEntries, ssize_t{kWhole});
  expected[0] = -EIO;
  EXPECT_EQ(run({fail(EIO), pass()}), expected);
}

TEST_P(NeighbourWriteFaults, InterruptionsAreOutlasted) {
  std::vector<Step> storm(50, fail(EINTR));
  storm.push_back(fail(EAGAIN));
  storm.push_back(pass());
  for (const ssize_t result : run(storm)) EXPECT_EQ(result, ssize_t{kWhole});
}

INSTANTIATE_TEST_SUITE_P(Buffered, NeighbourWriteFaults, ::testing::Values(O_RDWR), [](const auto&) { return "file"; });

TEST_P(BatchWriteFaults, ARandomMixtureKeepsItsPromises) {
  Random random(run_seed());
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE(::testing::Message() << "round " << round << "; SLUICE_TEST_SEED=" << run_seed());
    far_ = round % 2 == 0 ? kFar : kWhole;
    run(random_mixture(random), random.below(1 << 30));
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Descriptors, BatchWriteFaults, ::testing::Values(O_RDWR, O_RDWR | O_DIRECT),
                         [](const auto& parameters) {
                           return std::string((parameters.param & O_DIRECT) != 0 ? "direct" : "buffered");
                         });

}  // namespace
}  // namespace sluice::fault
