// SPDX-License-Identifier: Apache-2.0
// What the kernel can do to entries that are on their way to a drive together: each entry ends as a transfer by itself
// would, on the path and for the reason that one has, and the others are whole.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "direct/direct_fixture.h"
#include "fault/interpose.h"
#include "support/batch.h"
#include "support/cuda_driver.h"

namespace sluice::direct {
namespace {

using namespace support;
using fault::block;
using fault::fail;
using fault::hold;
using fault::pass;
using fault::Plan;
using fault::shorten;
using fault::Step;

constexpr std::size_t kEntries = 40;
constexpr std::size_t kSize = 4 * kBlock;

class DirectBatchFaults : public DirectTest {
 protected:
  void SetUp() override {
    DirectTest::SetUp();
    if (IsSkipped()) return;
    ASSERT_TRUE(fault::interposition_works());
    close_driver_fully();
    scratch_.emplace(kEntries * kSize);
    file_.emplace(*scratch_);
    memory_.emplace(MemoryKind::device, kEntries * kSize);
    ASSERT_STREQ(explain(file_->handle(), memory_->address()).reason_name, "direct");
    batch_.emplace(kEntries);
    for (std::size_t i = 0; i < kEntries; ++i) {
      batch_->read(file_->handle(), *memory_, kSize, (kEntries - 1 - i) * kSize, i * kSize);
    }
  }
  void TearDown() override {
    batch_.reset();
    file_.reset();
    memory_.reset();
    DirectTest::TearDown();
  }

  // Runs what the batch holds under the plan; every byte that is counted has to be right.
  std::vector<ssize_t> run(std::vector<Step> steps) {
    memory_->fill(0);
    std::vector<ssize_t> results;
    {
      const Plan plan(file_->fd(), fault::Direction::read, std::move(steps));
      results = batch_->run();
      EXPECT_GT(plan.calls(), 0U) << "the plan was not asked";
    }
    for (std::size_t i = 0; i < kEntries; ++i) {
      const auto count = static_cast<std::size_t>(std::max<ssize_t>(results[i], 0));
      const auto expected = std::span(scratch_->content()).subspan((kEntries - 1 - i) * kSize, count);
      EXPECT_TRUE(same_bytes(expected, memory_->get(i * kSize, count))) << i;
    }
    return results;
  }
  void run_whole(std::vector<Step> steps) {
    const std::vector<ssize_t> results = run(std::move(steps));
    EXPECT_EQ(std::count(results.begin(), results.end(), ssize_t{kSize}), ssize_t{kEntries});
  }

  std::optional<ScratchFile> scratch_;
  std::optional<OpenFile> file_;
  std::optional<Memory> memory_;
  std::optional<Batch> batch_;
};

TEST_F(DirectBatchFaults, EntriesAreHandedOverByOneThread) {
  const Plan plan(file_->fd(), fault::Direction::read, {pass()});
  batch_->run();
  EXPECT_EQ(plan.calls(), kEntries);
  EXPECT_EQ(plan.threads(), 1U);
}

struct Refused {
  int error;
  sluice_reason_t reason;
};
void PrintTo(const Refused& refused, std::ostream* out) {  // NOLINT(readability-identifier-naming): GoogleTest's name
  *out << strerrorname_np(refused.error);
}

class DirectBatchRefused : public DirectBatchFaults, public ::testing::WithParamInterface<Refused> {};

// Those that were on their way when the pair was refused end as the kernel answers them.
TEST_P(DirectBatchRefused, IsRefusedOnceAndTheRestIsTheCpus) {
  const Refused& refused = GetParam();
  const Meter direct(SLUICE_PATH_P2PDMA, SLUICE_REASON_DIRECT);
  const Meter cpu(SLUICE_PATH_POSIX, refused.reason);
  run_whole({fail(refused.error), pass()});
  EXPECT_EQ(direct.so_far().operations + cpu.so_far().operations, kEntries);
  EXPECT_EQ(direct.so_far().bytes + cpu.so_far().bytes, kEntries * kSize);
  EXPECT_GE(cpu.so_far().operations, 1U);
  EXPECT_EQ(explain(file_->handle(), memory_->address()).reason, refused.reason);
  EXPECT_EQ(pairs().at(0).rerouted, 1U);
  // From then on nothing is asked of the drive.
  const Meter later(SLUICE_PATH_P2PDMA, SLUICE_REASON_DIRECT);
  run_whole({pass()});
  EXPECT_EQ(later.so_far(), Count{});
}

TEST_P(DirectBatchRefused, InAllEntriesIsTheCpus) {
  const Refused& refused = GetParam();
  const Meter direct(SLUICE_PATH_P2PDMA, SLUICE_REASON_DIRECT);
  const Meter cpu(SLUICE_PATH_POSIX, refused.reason);
  // As many as the ring is deep are on their way before the first answer comes.
  std::vector<Step> steps(16, fail(refused.error));
  steps.push_back(pass());
  run_whole(steps);
  EXPECT_EQ(direct.so_far(), Count{});
  EXPECT_EQ(cpu.so_far(), (Count{kEntries, kEntries * kSize}));
}

TEST_P(DirectBatchRefused, InMidWayCountsOnBothPaths) {
  const Refused& refused = GetParam();
  Batch one(1);
  one.read(file_->handle(), *memory_, kSize, 0, 0);
  const Meter direct(SLUICE_PATH_P2PDMA, SLUICE_REASON_DIRECT);
  const Meter cpu(SLUICE_PATH_POSIX, refused.reason);
  {
    // The refused piece is asked for again before it is given up.
    const Plan plan(file_->fd(), fault::Direction::read,
                    {shorten(kBlock), fail(refused.error), fail(refused.error), pass()});
    EXPECT_EQ(one.run(), std::vector<ssize_t>{kSize});
  }
  EXPECT_TRUE(same_bytes(std::span(scratch_->content()).first(kSize), memory_->get(0, kSize)));
  EXPECT_EQ(direct.so_far(), (Count{1, kBlock}));
  EXPECT_EQ(cpu.so_far(), (Count{1, kSize - kBlock}));
}

TEST_P(DirectBatchRefused, OfAWriteIsTheCpus) {
  const Bytes written = random_bytes(kEntries * kSize, 3);
  memory_->put(0, written);
  batch_->clear();
  for (std::size_t i = 0; i < kEntries; ++i) batch_->write(file_->handle(), *memory_, kSize, i * kSize, i * kSize);
  {
    const Plan plan(file_->fd(), fault::Direction::write, {pass(), fail(GetParam().error), pass()});
    for (const ssize_t result : batch_->run()) EXPECT_EQ(result, ssize_t{kSize});
  }
  EXPECT_TRUE(same_bytes(written, content_of(scratch_->path())));
  EXPECT_EQ(explain(file_->handle(), memory_->address()).reason, GetParam().reason);
}

const auto kErrorName = [](const auto& info) { return std::string(strerrorname_np(info.param.error)); };
INSTANTIATE_TEST_SUITE_P(Kernel, DirectBatchRefused,
                         ::testing::Values(Refused{EREMOTEIO, SLUICE_REASON_PAGES_REFUSED},
                                           Refused{EINVAL, SLUICE_REASON_UNREACHABLE_DEVICE},
                                           Refused{EFAULT, SLUICE_REASON_PINNING_REFUSED}),
                         kErrorName);

// What says nothing of the pair: the entry goes on by the CPU, the pair stays.
TEST_F(DirectBatchFaults, ARefusalThatBlamesNobodyStopsItsEntryAlone) {
  const Meter direct(SLUICE_PATH_P2PDMA, SLUICE_REASON_DIRECT);
  const Meter stopped(SLUICE_PATH_POSIX, SLUICE_REASON_STOPPED_IN_FLIGHT);
  run_whole({pass(), fail(EOPNOTSUPP), pass()});
  EXPECT_EQ(stopped.so_far(), (Count{1, kSize}));
  EXPECT_EQ(direct.so_far(), (Count{kEntries - 1, (kEntries - 1) * kSize}));
  EXPECT_STREQ(explain(file_->handle(), memory_->address()).reason_name, "direct");
}

TEST_F(DirectBatchFaults, ABrokenMediumIsToldByAll) {
  for (const ssize_t result : run({fail(EIO)})) EXPECT_EQ(result, -EIO);
  const Meter direct(SLUICE_PATH_P2PDMA, SLUICE_REASON_DIRECT);
  run_whole({pass()});
  EXPECT_EQ(direct.so_far(), (Count{kEntries, kEntries * kSize}));
}

TEST_F(DirectBatchFaults, AFullDeviceIsToldByAll) {
  batch_->clear();
  for (std::size_t i = 0; i < kEntries; ++i) batch_->write(file_->handle(), *memory_, kSize, i * kSize, i * kSize);
  const Plan plan(file_->fd(), fault::Direction::write, {fail(ENOSPC)});
  for (const ssize_t result : batch_->run()) EXPECT_EQ(result, -ENOSPC);
}

TEST_F(DirectBatchFaults, InterruptionsAndShortTransfersAreGoneOnFrom) {
  const Meter direct(SLUICE_PATH_P2PDMA, SLUICE_REASON_DIRECT);
  run_whole(
      {fail(EINTR), shorten(kBlock), fail(EAGAIN), pass(), fail(ECANCELED), shorten(3 * kBlock), fail(EAGAIN), pass()});
  EXPECT_EQ(direct.so_far(), (Count{kEntries, kEntries * kSize}));
}

TEST_F(DirectBatchFaults, ARingThatIsLostLosesNoEntry) {
  for (const int error : {EBADF, EAGAIN, EBUSY}) {
    for (const std::size_t skip : {0U, 1U, 3U, 10U}) {
      SCOPED_TRACE(::testing::Message() << strerrorname_np(error) << " after " << skip << " visits");
      const fault::RefusedVisits refused(skip, fault::for_ever, error);
      memory_->fill(0);
      for (const ssize_t result : batch_->run()) EXPECT_EQ(result, ssize_t{kSize});
      for (std::size_t i = 0; i < kEntries; ++i) {
        const auto expected = std::span(scratch_->content()).subspan((kEntries - 1 - i) * kSize, kSize);
        ASSERT_TRUE(same_bytes(expected, memory_->get(i * kSize, kSize))) << i;
      }
    }
  }
}

// More entries than go at once, but less than twice as many: when the last answer comes, nothing is left to be begun
// that would meet the refusal again.
TEST_F(DirectBatchFaults, WhatALostRingHasNotTakenDoesNotWaitForAnAnswer) {
  constexpr std::size_t kFew = 24;
  Batch few(kFew);
  for (std::size_t i = 0; i < kFew; ++i) few.read(file_->handle(), *memory_, kSize, i * kSize, i * kSize);
  memory_->fill(0);
  Plan plan(file_->fd(), fault::Direction::read, {hold(false), pass()});
  const fault::RefusedVisits refused(1, fault::for_ever, EBADF);
  std::thread releaser([&] {
    plan.wait_until_blocked();
    while (refused.visits() < 3) std::this_thread::yield();  // the second was refused
    plan.release();
  });
  EXPECT_EQ(few.run(), std::vector<ssize_t>(kFew, kSize));
  releaser.join();
  EXPECT_TRUE(same_bytes(std::span(scratch_->content()).first(kFew * kSize), memory_->get(0, kFew * kSize)));
}

TEST_F(DirectBatchFaults, AMomentWithoutRoomIsOutlasted) {
  const Meter direct(SLUICE_PATH_P2PDMA, SLUICE_REASON_DIRECT);
  const fault::RefusedVisits refused(1, 20, EAGAIN);
  run_whole({pass()});
  EXPECT_EQ(direct.so_far(), (Count{kEntries, kEntries * kSize}));
}

TEST_F(DirectBatchFaults, MemoryThatIsFreedInMidWayBlamesNobody) {
  Memory freed(MemoryKind::device, kEntries * kSize);
  Batch batch(kEntries);
  for (std::size_t i = 0; i < kEntries; ++i) batch.read(file_->handle(), freed, kSize, i * kSize, i * kSize);
  {
    Plan plan(file_->fd(), fault::Direction::read, {block(EFAULT), fail(EFAULT)});
    batch.submit();
    plan.wait_until_blocked();
    freed.free();
    plan.release();
    for (const ssize_t result : batch.collect()) EXPECT_LT(result, 0);
  }
  const Meter direct(SLUICE_PATH_P2PDMA, SLUICE_REASON_DIRECT);
  run_whole({pass()});
  EXPECT_EQ(direct.so_far(), (Count{kEntries, kEntries * kSize})) << "the pair was blamed for memory that was freed";
}

TEST_F(DirectBatchFaults, CancellingEndsWhatTheDriveHasNotGot) {
  memory_->fill(0x5b);
  std::vector<CUfileIOEvents_t> events(kEntries);
  Plan plan(file_->fd(), fault::Direction::read, {block(), pass()});
  batch_->submit();
  plan.wait_until_blocked();
  // All went together: nothing of them is left to be cancelled.
  EXPECT_EQ(code(cuFileBatchIOCancel(batch_->get())), CU_FILE_SUCCESS);
  unsigned found = kEntries;
  timespec none{};
  EXPECT_EQ(code(cuFileBatchIOGetStatus(batch_->get(), 0, &found, events.data(), &none)), CU_FILE_SUCCESS);
  EXPECT_EQ(found, 0U);
  EXPECT_EQ(sluice_batch_cancelled(batch_->get()), 0) << "the drive may still write to their memory";
  plan.release();
  found = kEntries;
  EXPECT_EQ(code(cuFileBatchIOGetStatus(batch_->get(), kEntries, &found, events.data(), nullptr)), CU_FILE_SUCCESS);
  EXPECT_EQ(found, 0U);
  EXPECT_EQ(sluice_batch_cancelled(batch_->get()), long{kEntries});
  for (std::size_t i = 0; i < kEntries; ++i) {
    const auto expected = std::span(scratch_->content()).subspan((kEntries - 1 - i) * kSize, kSize);
    EXPECT_TRUE(same_bytes(expected, memory_->get(i * kSize, kSize))) << i;
  }
}

TEST_F(DirectBatchFaults, ARandomMixtureKeepsItsPromises) {
  Random random(run_seed());
  for (int round = 0; round < 30; ++round) {
    SCOPED_TRACE(::testing::Message() << "round " << round << "; SLUICE_TEST_SEED=" << run_seed());
    std::vector<Step> steps;
    for (int i = 0; i < 60; ++i) {
      switch (random.below(8)) {
        case 0:
          steps.push_back(shorten(kBlock * (1 + random.below(3))));
          break;
        case 1:
          steps.push_back(fail(random.below(2) == 0 ? EINTR : EAGAIN));
          break;
        case 2:
          steps.push_back(fail(random.below(2) == 0 ? EIO : EOPNOTSUPP));
          break;
        default:
          steps.push_back(pass());
      }
    }
    steps.push_back(pass());
    for (const ssize_t result : run(steps))
      EXPECT_TRUE(result > 0 || result == -EIO || result == -EOPNOTSUPP) << result;
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace sluice::direct
