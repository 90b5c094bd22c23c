// SPDX-License-Identifier: Apache-2.0
// Faults among the entries of a batch: each is told by its own event, the others are whole, and nothing behind a count
// is touched.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "fault/interpose.h"
#include "fault/mixture.h"
#include "fault/watched.h"
#include "support/batch.h"
#include "support/calls.h"
#include "support/deadline.h"

namespace sluice::fault {
namespace {

using namespace support;

// How many entries there are, how large, how far their targets are apart, and how the file is opened.
struct Shape {
  const char* name;
  MemoryKind memory;
  int flags;
  std::size_t entries;
  std::size_t size;
  std::size_t apart;
};
constexpr std::size_t kEntries = 24;
constexpr std::size_t kSize = 20000;
constexpr std::size_t kApart = 24000;  // of targets that do not touch
constexpr Shape kShapes[] = {
    {"device", MemoryKind::device, O_RDONLY, kEntries, kSize, kApart},
    {"plain", MemoryKind::plain, O_RDONLY, kEntries, kSize, kApart},
    {"device_direct", MemoryKind::device, O_RDONLY | O_DIRECT, kEntries, kSize, kApart},
    // Several pieces each.
    {"device_direct_large", MemoryKind::device, O_RDONLY | O_DIRECT, 8, 1'300'000, 1'304'001},
};
constexpr unsigned char kUntouched = 0xa5;

class BatchFaults : public CufileTest, public ::testing::WithParamInterface<Shape> {
 protected:
  void SetUp() override {
    CufileTest::SetUp();
    ASSERT_TRUE(interposition_works()) << "the library does not call pread by way of the loader";
    if (!available(shape_.memory)) GTEST_SKIP() << "no CUDA device";
    memory_.emplace(shape_.memory, shape_.entries * shape_.apart);
    handle_.emplace(fd_);
    ASSERT_EQ(code(cuFileBatchIOSetUp(&batch_, entries())), CU_FILE_SUCCESS);
  }
  void TearDown() override {
    if (batch_ != nullptr) cuFileBatchIODestroy(batch_);
    handle_.reset();
    CufileTest::TearDown();
  }

  unsigned entries() const { return static_cast<unsigned>(shape_.entries); }
  ssize_t whole() const { return static_cast<ssize_t>(shape_.size); }

  enum class Then { collect, cancel };

  // So many bytes of an entry's piece are in its memory, from the start on.
  std::size_t brought(std::size_t entry, const Bytes& memory) const {
    const auto from = std::span(file_.content()).subspan(entry * shape_.size, shape_.size);
    std::size_t count = 0;
    while (count < shape_.size && count < memory.size() && memory[count] == from[count]) ++count;
    return count;
  }

  // Reads all pieces under the plan, to places so far apart, and checks what must hold whatever happens. The results by
  // entry.
  std::vector<ssize_t> run(std::vector<Step> steps, Then then = Then::collect, bool touching = false) {
    const std::size_t apart = touching ? shape_.size : shape_.apart;
    memory_->fill(kUntouched);
    std::vector<CUfileIOParams_t> wanted(entries());
    for (std::size_t i = 0; i < shape_.entries; ++i) {
      wanted[i].mode = CUFILE_BATCH;
      wanted[i].fh = handle_->get();
      wanted[i].opcode = CUFILE_READ;
      wanted[i].cookie = reinterpret_cast<void*>(i);
      wanted[i].u.batch.devPtr_base = memory_->at(i * apart);
      wanted[i].u.batch.file_offset = static_cast<off_t>(i * shape_.size);
      wanted[i].u.batch.size = shape_.size;
    }
    std::vector<ssize_t> results(entries(), -1);
    std::vector<bool> told(entries());
    {
      const Plan plan(fd_.get(), Direction::read, std::move(steps));
      EXPECT_EQ(code(cuFileBatchIOSubmit(batch_, entries(), wanted.data(), 0)), CU_FILE_SUCCESS);
      if (then == Then::cancel) {
        // As late as a lane may have begun something.
        while (plan.calls() == 0) std::this_thread::yield();
        EXPECT_EQ(code(cuFileBatchIOCancel(batch_)), CU_FILE_SUCCESS);
      }
      std::vector<CUfileIOEvents_t> events(entries());
      for (unsigned found = 0; found < entries();) {
        unsigned room = entries();
        EXPECT_EQ(code(cuFileBatchIOGetStatus(batch_, entries(), &room, events.data(), nullptr)), CU_FILE_SUCCESS);
        if (room == 0 && then == Then::cancel) break;  // the rest has ended, too
        if (room == 0) {
          ADD_FAILURE() << "only " << found << " events";
          break;
        }
        for (unsigned i = 0; i < room; ++i) {
          const auto result = static_cast<ssize_t>(events[i].ret);
          EXPECT_EQ(events[i].status, result < 0 ? CUFILE_FAILED : CUFILE_COMPLETE);
          told.at(reinterpret_cast<std::size_t>(events[i].cookie)) = true;
          results.at(reinterpret_cast<std::size_t>(events[i].cookie)) = result;
        }
        found += room;
      }
      EXPECT_GT(plan.calls(), 0U) << "the plan was not asked";
    }
    for (std::size_t i = 0; i < shape_.entries; ++i) {
      // An entry that a cancel came before, and that had begun, has brought what is not told.
      const auto count = told[i] ? static_cast<std::size_t>(std::max<ssize_t>(results[i], 0))
                                 : brought(i, memory_->get(i * apart, apart));
      EXPECT_TRUE(
          same_bytes(std::span(file_.content()).subspan(i * shape_.size, count), memory_->get(i * apart, count)))
          << i;
      EXPECT_TRUE(all_bytes(kUntouched, memory_->get(i * apart + count, apart - count))) << i << ", count " << count;
    }
    return results;
  }

  const Shape shape_ = GetParam();
  const ScratchFile file_{shape_.entries * shape_.size};
  const Fd fd_ = file_.open(shape_.flags);
  std::optional<Memory> memory_;
  std::optional<Handle> handle_;
  CUfileBatchHandle_t batch_ = nullptr;
};

TEST_P(BatchFaults, ShortReadsAreContinued) {
  for (const std::size_t length : {1000U, 4096U, 7777U, 16384U}) {
    SCOPED_TRACE(length);
    for (const ssize_t result : run({shorten(length)})) EXPECT_EQ(result, whole());
  }
}

TEST_P(BatchFaults, InterruptionsAreOutlasted) {
  std::vector<Step> storm(500, fail(EINTR));
  storm.push_back(pass());
  for (const ssize_t result : run(storm)) EXPECT_EQ(result, whole());
}

TEST_P(BatchFaults, AnErrorIsToldByTheEntryThatMetIt) {
  for (std::size_t good = 0; good < 16; ++good) {  // some shapes make no more reads
    SCOPED_TRACE(::testing::Message() << good << " good reads");
    std::vector<Step> steps(good, pass());
    steps.push_back(fail(ESTALE));
    steps.push_back(pass());
    const auto results = run(steps);
    const auto good_ones = std::count(results.begin(), results.end(), whole());
    // Where bytes of the entry were in place already, what was behind them was asked for again.
    EXPECT_GE(good_ones, ssize_t{entries()} - 1);
  }
}

TEST_P(BatchFaults, AnErrorThatStaysIsToldByAll) {
  for (const int error : {EIO, ENOMEM, ESTALE}) {
    SCOPED_TRACE(strerrorname_np(error));
    for (const ssize_t result : run({fail(error)})) EXPECT_EQ(result, -error);
  }
}

// An error behind the beginning of an entry costs what lies behind it; one that says that O_DIRECT is not to be had
// here costs nothing.
TEST_P(BatchFaults, WhatAnEntryIsRefusedInPrincipleComesAnotherWay) {
  for (std::size_t good = 0; good < 6; ++good) {
    SCOPED_TRACE(::testing::Message() << good << " good reads");
    std::vector<Step> steps(good, pass());
    steps.push_back(fail(EINVAL));
    steps.push_back(pass());
    for (const ssize_t result : run(steps)) EXPECT_EQ(result, whole());
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
    for (const bool touching : {false, true}) {
      for (const ssize_t result : run(steps, Then::collect, touching))
        EXPECT_TRUE(result > 0 || result == -EIO) << result;
    }
    if (HasFailure()) return;
  }
}

TEST_P(BatchFaults, ARandomMixtureKeepsItsPromises) {
  with_random_mixtures(
      kSize, [this](std::vector<Step> steps, int round) { run(std::move(steps), Then::collect, round % 2 != 0); });
}

TEST_P(BatchFaults, CancellingAmidARandomMixtureKeepsThePromises) {
  with_random_mixtures(
      kSize, [this](std::vector<Step> steps, int round) { run(std::move(steps), Then::cancel, round % 2 != 0); });
}

INSTANTIATE_TEST_SUITE_P(Kinds, BatchFaults, ::testing::ValuesIn(kShapes),
                         [](const auto& parameters) { return std::string(parameters.param.name); });

// One entry's file does not answer; who waits for as many as come all the same is not kept waiting.
TEST(BatchWaiters, AreWokenByAsManyEventsAsTheyWaitFor) {
  const ScratchFile still_file(kSize);
  const ScratchFile file(kSize);
  const Fd still_fd = still_file.open(O_RDONLY);
  const Fd fd = file.open(O_RDONLY);
  const Handle still(still_fd);
  const Handle handle(fd);
  const Memory memory(MemoryKind::plain, kSize);
  for (const unsigned enough : {1U, 3U}) {
    SCOPED_TRACE(enough);
    Batch batch(8);
    Plan plan(still_fd.get(), Direction::read, {block(), pass()});
    batch.read(still.get(), memory, kSize, 0, 0);
    batch.submit();
    plan.wait_until_blocked();
    unsigned room = 8;
    std::array<CUfileIOEvents_t, 8> events;
    Watched waiter([&] {
      EXPECT_EQ(code(cuFileBatchIOGetStatus(batch.get(), enough, &room, events.data(), nullptr)), CU_FILE_SUCCESS);
    });
    for (unsigned i = 0; i < enough; ++i) {
      waiter.wait_until_done_or_asleep();
      EXPECT_FALSE(waiter.is_done()) << "with " << i << " events";
      batch.clear();
      batch.read(handle.get(), memory, 100, 0, 0);
      batch.submit();
    }
    for (const Deadline deadline; !waiter.is_done() && !deadline.has_passed();) std::this_thread::yield();
    EXPECT_TRUE(waiter.is_done()) << "asleep, with " << enough << " events there";
    plan.release();
    waiter.join();
    EXPECT_GE(room, enough);
  }
}

// Entries that were begun among others, and left by them, end all the same; by the thread that waits, where no other
// thread comes for them: the batch is being destroyed, or there are no lanes.
TEST(BatchWaiters, HearOfAllThatWasBegunOrThatTheBatchIsGone) {
  if (!available(MemoryKind::device)) GTEST_SKIP() << "no CUDA device";
  const ScratchFile file(kEntries * kSize);
  const Fd fd = file.open(O_RDONLY);
  const Handle handle(fd);
  const Memory memory(MemoryKind::device, kEntries * kSize);
  Random random(run_seed());
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE(::testing::Message() << "round " << round << "; SLUICE_TEST_SEED=" << run_seed());
    std::vector<Step> steps;
    for (std::size_t i = 0; i < 2 * kEntries; ++i) {
      steps.push_back(random.below(2) == 0 ? shorten(1 + random.below(kSize)) : fail(EAGAIN));
    }
    steps.push_back(pass());
    const Plan plan(fd.get(), Direction::read, std::move(steps));
    Batch batch(kEntries);
    for (std::size_t i = 0; i < kEntries; ++i) batch.read(handle.get(), memory, kSize, i * kSize, i * kSize);
    std::atomic<std::size_t> heard_of{0};
    Watched waiter([&] {
      CUfileIOEvents_t event;
      for (unsigned room = 1;; room = 1) {
        if (code(cuFileBatchIOGetStatus(batch.get(), 1, &room, &event, nullptr)) != CU_FILE_SUCCESS) return;
        heard_of += room;
      }
    });
    batch.submit();
    const std::size_t enough = round % 2 == 0 ? kEntries : random.below(kEntries);
    while (heard_of < enough) std::this_thread::yield();
    cuFileBatchIODestroy(batch.get());
    waiter.join();
  }
}

// Some entries' disk does not answer; the others' events come all the same, however many of them there are.
// A worker that was called for the first batch, and is still to come, is not all that the second one gets.
TEST(BatchWaiters, HearOfABatchBehindOneWhoseFileDoesNotAnswer) {
  const ScratchFile still_file(kSize);
  const ScratchFile file(kSize);
  const Fd still_fd = still_file.open(O_RDONLY);
  const Fd fd = file.open(O_RDONLY);
  const Handle still_handle(still_fd);
  const Handle handle(fd);
  const Memory memory(MemoryKind::plain, 2 * kSize);
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE(::testing::Message() << "round " << round);
    Plan faults(still_fd.get(), Direction::read, {block(), pass()});
    Batch still(1);
    Batch batch(1);
    still.read(still_handle.get(), memory, kSize, 0, 0);
    batch.read(handle.get(), memory, kSize, 0, kSize);
    still.submit();
    batch.submit();
    // A thread that waited would do it itself.
    unsigned ended = 0;
    for (const Deadline deadline; ended == 0 && !deadline.has_passed();) {
      timespec at_once{0, 0};
      CUfileIOEvents_t event{};
      ended = 1;
      EXPECT_EQ(code(cuFileBatchIOGetStatus(batch.get(), 0, &ended, &event, &at_once)), CU_FILE_SUCCESS);
    }
    EXPECT_EQ(ended, 1U) << "still waiting";
    faults.wait_until_blocked();
    faults.release();
    EXPECT_EQ(still.collect(), std::vector<ssize_t>{kSize});
    if (HasFailure()) return;
  }
}

TEST(BatchWaiters, HearOfEntriesWhoseDiskAnswersWhileAnothersDoesNot) {
  if (!available(MemoryKind::device)) GTEST_SKIP() << "no CUDA device";
  if (!reads_disks_by_ring()) GTEST_SKIP() << "no io_uring here, or a mode that does without";
  constexpr unsigned answered = 5;
  for (const unsigned held : {1U, 2 * answered + 1}) {
    SCOPED_TRACE(held);
    const ScratchFile still_file(held * kSize);
    const ScratchFile file(answered * kSize);
    const Fd still_fd = still_file.open(O_RDONLY | O_DIRECT);
    const Fd fd = file.open(O_RDONLY | O_DIRECT);
    const Handle still(still_fd);
    const Handle handle(fd);
    const Memory memory(MemoryKind::device, (held + answered) * kSize);
    Batch batch(held + answered);
    for (unsigned i = 0; i < held; ++i) batch.read(still.get(), memory, kSize, i * kSize, i * kSize);
    for (unsigned i = 0; i < answered; ++i) batch.read(handle.get(), memory, kSize, i * kSize, (held + i) * kSize);
    std::vector<Step> steps(held, hold());
    steps.push_back(pass());
    Plan plan(still_fd.get(), Direction::read, std::move(steps));
    batch.submit();
    plan.wait_until_blocked();
    unsigned room = held + answered;
    std::vector<CUfileIOEvents_t> events(room);
    Watched waiter([&] {
      EXPECT_EQ(code(cuFileBatchIOGetStatus(batch.get(), answered, &room, events.data(), nullptr)), CU_FILE_SUCCESS);
    });
    for (const Deadline deadline; !waiter.is_done() && !deadline.has_passed();) std::this_thread::yield();
    EXPECT_TRUE(waiter.is_done()) << "still waiting";
    plan.release();
    waiter.join();
    EXPECT_EQ(room, answered);
    for (unsigned i = 0; i < room; ++i) EXPECT_GE(reinterpret_cast<std::size_t>(events[i].cookie), held);
    room = held;
    EXPECT_EQ(code(cuFileBatchIOGetStatus(batch.get(), held, &room, events.data(), nullptr)), CU_FILE_SUCCESS);
    EXPECT_EQ(room, held);
    EXPECT_TRUE(same_bytes(still_file.content(), memory.get(0, held * kSize)));
    EXPECT_TRUE(same_bytes(file.content(), memory.get(held * kSize, answered * kSize)));
  }
}

// Entries that wait for others of their kind, of whose file nothing comes just now. What they name may be gone when
// their turn comes, and each is told so as a transfer is that begins then. (Memory that a program frees meanwhile is
// there until the kernel in front has ended: freeing waits for that.)
class BatchQueued : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped()) return;
    if (std::getenv("SLUICE_MODE") != nullptr) GTEST_SKIP() << "in plain mode no entry waits for others";
    ASSERT_TRUE(interposition_works());
  }

  // Has the entries submitted and waiting, does `what`, and lets them go.
  template <typename What>
  std::vector<ssize_t> behind_others(const Fd& fd, const Memory& memory, What&& what) {
    const ScratchFile still_file(kSize);
    const Fd still_fd = still_file.open(O_RDONLY);
    const Handle still(still_fd);
    const Handle handle(fd);
    const Memory still_memory(MemoryKind::device, kSize);
    CUfileBatchHandle_t batch = nullptr;
    EXPECT_EQ(code(cuFileBatchIOSetUp(&batch, kEntries + 1)), CU_FILE_SUCCESS);
    std::vector<ssize_t> results(kEntries);
    {
      Plan plan(still_fd.get(), Direction::read, {block(), pass()});
      submit(batch, still.get(), still_memory, 1);
      plan.wait_until_blocked();
      submit(batch, handle.get(), memory, kEntries);
      what();
      plan.release();
      std::vector<CUfileIOEvents_t> events(kEntries + 1);
      for (unsigned found = 0; found < kEntries + 1;) {
        unsigned room = kEntries + 1;
        EXPECT_EQ(code(cuFileBatchIOGetStatus(batch, room, &room, events.data(), nullptr)), CU_FILE_SUCCESS);
        for (unsigned i = 0; i < room; ++i) {
          if (events[i].cookie == nullptr) continue;  // of the one in front
          results.at(reinterpret_cast<std::size_t>(events[i].cookie) - 1) = static_cast<ssize_t>(events[i].ret);
        }
        found += room;
      }
    }
    cuFileBatchIODestroy(batch);
    return results;
  }

 private:
  static void submit(CUfileBatchHandle_t batch, CUfileHandle_t handle, const Memory& memory, std::size_t count) {
    std::vector<CUfileIOParams_t> entries(count);
    for (std::size_t i = 0; i < count; ++i) {
      entries[i].mode = CUFILE_BATCH;
      entries[i].fh = handle;
      entries[i].opcode = CUFILE_READ;
      entries[i].cookie = reinterpret_cast<void*>(count > 1 ? i + 1 : 0);
      entries[i].u.batch.devPtr_base = memory.at(i * kSize);
      entries[i].u.batch.file_offset = static_cast<off_t>(i * kSize);
      entries[i].u.batch.size = kSize;
    }
    ASSERT_EQ(code(cuFileBatchIOSubmit(batch, static_cast<unsigned>(count), entries.data(), 0)), CU_FILE_SUCCESS);
  }
};

TEST_F(BatchQueued, WhoseDescriptorBelongsToAnotherFileByThenTouchesNeither) {
  const ScratchFile file(kEntries * kSize);
  const ScratchFile other(kEntries * kSize);
  const Fd fd = file.open(O_RDONLY);
  const Fd other_fd = other.open(O_RDONLY);
  const Memory memory(MemoryKind::device, kEntries * kSize);
  memory.fill(kUntouched);
  const auto results = behind_others(fd, memory, [&] { ASSERT_EQ(dup2(other_fd.get(), fd.get()), fd.get()); });
  EXPECT_EQ(results, std::vector<ssize_t>(kEntries, -EBADF));
  EXPECT_TRUE(all_bytes(kUntouched, memory.get()));
}

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
  std::vector<ssize_t> results = run({fail(EIO), pass()});
  // Those that go by themselves are written by several threads, and any of them may be the first.
  if (std::getenv("SLUICE_MODE") != nullptr) std::sort(results.begin(), results.end());
  EXPECT_EQ(results, expected);
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
    run(random_mixture(random, kSize), random.below(1 << 30));
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Descriptors, BatchWriteFaults, ::testing::Values(O_RDWR, O_RDWR | O_DIRECT),
                         [](const auto& parameters) {
                           return std::string((parameters.param & O_DIRECT) != 0 ? "direct" : "buffered");
                         });

}  // namespace
}  // namespace sluice::fault
