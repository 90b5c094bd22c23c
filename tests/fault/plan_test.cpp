// SPDX-License-Identifier: Apache-2.0
// Faults among the items of a plan: each is told by its own result, the others are whole, and nothing behind a count is
// touched.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fault/interpose.h"
#include "fault/mixture.h"
#include "sluice.h"
#include "support/calls.h"
#include "support/planned.h"

namespace sluice::fault {
namespace {

using namespace support;

struct PlanShape {
  const char* name;
  MemoryKind memory;
  int flags;
  std::size_t apart;  // of targets; those that touch go as one transfer
};
constexpr std::size_t kItems = 24;
constexpr std::size_t kBytes = 20000;
constexpr PlanShape kPlanShapes[] = {
    {"device", MemoryKind::device, O_RDONLY, 24000},
    {"device_together", MemoryKind::device, O_RDONLY, kBytes},
    {"plain", MemoryKind::plain, O_RDONLY, 24000},
    {"plain_together", MemoryKind::plain, O_RDONLY, kBytes},
    {"device_direct", MemoryKind::device, O_RDONLY | O_DIRECT, 24000},
    {"device_direct_together", MemoryKind::device, O_RDONLY | O_DIRECT, kBytes},
};
constexpr unsigned char kLeftAlone = 0xa5;

class PlanFaults : public CufileTest, public ::testing::WithParamInterface<PlanShape> {
 protected:
  void SetUp() override {
    CufileTest::SetUp();
    ASSERT_TRUE(interposition_works()) << "the library does not call pread by way of the loader";
    if (!available(shape_.memory)) GTEST_SKIP() << "no CUDA device";
    memory_.emplace(shape_.memory, kItems * shape_.apart);
    handle_.emplace(fd_);
  }
  void TearDown() override {
    handle_.reset();
    CufileTest::TearDown();
  }

  enum class Then { collect, cancel };

  // Reads all items under the steps, and checks what must hold whatever happens.
  std::vector<sluice_item_result_t> run(std::vector<Step> steps, Then then = Then::collect) {
    memory_->fill(kLeftAlone);
    Planned plan;
    for (std::size_t i = 0; i < kItems; ++i) {
      plan.add(handle_->get(), memory_->at(i * shape_.apart), kBytes, i * kBytes);
    }
    std::vector<sluice_item_result_t> results;
    {
      const Plan faults(fd_.get(), Direction::read, std::move(steps));
      plan.submit();
      if (then == Then::cancel) {
        // As late as a thread may have begun something.
        while (faults.calls() == 0) std::this_thread::yield();
        EXPECT_EQ(code(sluice_plan_cancel(plan.get())), CU_FILE_SUCCESS);
      }
      results = plan.collect();
      EXPECT_GT(faults.calls(), 0U) << "no fault was asked for";
    }
    for (std::size_t i = 0; i < kItems; ++i) {
      const std::size_t count = results[i].bytes;
      EXPECT_TRUE(
          same_bytes(std::span(file_.content()).subspan(i * kBytes, count), memory_->get(i * shape_.apart, count)))
          << i;
      EXPECT_TRUE(results[i].state == SLUICE_ITEM_DONE || count < kBytes) << i;
      EXPECT_EQ(results[i].state == SLUICE_ITEM_FAILED, results[i].error != 0) << i;
      // What a cancel came before may have begun among neighbours that went as one, and no further than there.
      EXPECT_TRUE(all_bytes(kLeftAlone, memory_->get(i * shape_.apart + count, shape_.apart - count)))
          << i << ", count " << count;
    }
    return results;
  }

  const PlanShape shape_ = GetParam();
  const ScratchFile file_{kItems * kBytes};
  const Fd fd_ = file_.open(shape_.flags);
  std::optional<Memory> memory_;
  std::optional<Handle> handle_;
};

TEST_P(PlanFaults, ShortReadsAreContinued) {
  for (const std::size_t length : {1000U, 4096U, 7777U, 16384U}) {
    SCOPED_TRACE(length);
    for (const sluice_item_result_t& result : run({shorten(length)})) EXPECT_EQ(result.bytes, kBytes);
  }
}

TEST_P(PlanFaults, InterruptionsAreOutlasted) {
  std::vector<Step> storm(500, fail(EINTR));
  storm.push_back(pass());
  for (const sluice_item_result_t& result : run(storm)) EXPECT_EQ(result.bytes, kBytes);
}

TEST_P(PlanFaults, AnErrorIsToldByTheItemThatMetItAtMost) {
  for (std::size_t good = 0; good < 16; ++good) {
    SCOPED_TRACE(::testing::Message() << good << " good reads");
    std::vector<Step> steps(good, pass());
    steps.push_back(fail(ESTALE));
    steps.push_back(pass());
    const auto results = run(steps);
    const auto whole = std::count_if(results.begin(), results.end(),
                                     [](const sluice_item_result_t& result) { return result.bytes == kBytes; });
    EXPECT_GE(whole, static_cast<std::ptrdiff_t>(kItems - 1));
  }
}

TEST_P(PlanFaults, AnErrorThatStaysIsToldByAll) {
  for (const int error : {EIO, ENOMEM, ESTALE}) {
    SCOPED_TRACE(strerrorname_np(error));
    for (const sluice_item_result_t& result : run({fail(error)})) {
      EXPECT_EQ(result.state, SLUICE_ITEM_FAILED);
      EXPECT_EQ(result.error, error);
      EXPECT_EQ(result.bytes, 0U);
    }
  }
}

TEST_P(PlanFaults, AFileThatEndsEarlyIsToldByItsCounts) {
  for (const sluice_item_result_t& result : run({nothing()})) {
    EXPECT_EQ(result.state, SLUICE_ITEM_DONE);
    EXPECT_EQ(result.bytes, 0U);
  }
}

TEST_P(PlanFaults, WhatIsInPlaceBeforeAnErrorIsCountedAndTheErrorTold) {
  for (std::size_t good = 0; good < 2 * kItems; ++good) {
    SCOPED_TRACE(::testing::Message() << good << " good reads");
    std::vector<Step> steps(good, pass());
    steps.push_back(fail(EAGAIN));
    steps.push_back(fail(EIO));
    for (const sluice_item_result_t& result : run(steps)) {
      EXPECT_TRUE(result.bytes == kBytes || result.error == EIO) << result.bytes << ", " << result.error;
    }
    if (HasFailure()) return;
  }
}

TEST_P(PlanFaults, ARandomMixtureKeepsItsPromises) {
  with_random_mixtures(kBytes, [this](std::vector<Step> steps, int /*round*/) { run(std::move(steps)); });
}

TEST_P(PlanFaults, CancellingAmidARandomMixtureKeepsThePromises) {
  with_random_mixtures(kBytes, [this](std::vector<Step> steps, int /*round*/) { run(std::move(steps), Then::cancel); });
}

INSTANTIATE_TEST_SUITE_P(Kinds, PlanFaults, ::testing::ValuesIn(kPlanShapes),
                         [](const auto& parameters) { return std::string(parameters.param.name); });

// The first item's file does not answer; the others arrive, and those that wait for them hear of it.
TEST(PlanWaiters, HearOfAnItemWhileAnothersFileDoesNotAnswer) {
  const ScratchFile still_file(kBytes);
  const ScratchFile file(kBytes);
  const Fd still_fd = still_file.open(O_RDONLY);
  const Fd fd = file.open(O_RDONLY);
  const Handle still(still_fd);
  const Handle handle(fd);
  const Memory memory(MemoryKind::plain, 2 * kBytes);
  Plan faults(still_fd.get(), Direction::read, {block(), pass()});
  Planned plan;
  plan.add(still.get(), memory.address(), kBytes, 0);
  plan.add(handle.get(), memory.at(kBytes), kBytes, 0);
  plan.submit();
  EXPECT_EQ(sluice_plan_wait_item(plan.get(), 1, nullptr), 1);
  faults.wait_until_blocked();
  constexpr timespec none{0, 0};
  EXPECT_EQ(sluice_plan_wait(plan.get(), 2, &none), 0) << "the first has not ended";
  EXPECT_EQ(plan.counts().items_ended, 1U);
  faults.release();
  for (const sluice_item_result_t& result : plan.collect()) EXPECT_EQ(result.bytes, kBytes);
}

TEST(PlanWrites, ADiskThatIsFullIsToldWithWhatWasWritten) {
  const ScratchFile file(kItems * kBytes);
  const Fd fd = file.open(O_RDWR);
  const Handle handle(fd);
  const Memory memory(usual_memory(), kItems * kBytes);
  const Plan faults(fd.get(), Direction::write, {pass(), pass(), fail(ENOSPC)});
  Planned plan(CUFILE_WRITE);
  for (std::size_t i = 0; i < kItems; ++i) plan.add(handle.get(), memory.at(i * kBytes), kBytes - 1, i * kBytes);
  std::size_t failed = 0;
  for (const sluice_item_result_t& result : plan.run()) {
    if (result.state == SLUICE_ITEM_DONE) continue;
    EXPECT_EQ(result.error, ENOSPC);
    ++failed;
  }
  EXPECT_GT(failed, kItems / 2);
  EXPECT_EQ(plan.counts().items_failed, failed);
}

}  // namespace
}  // namespace sluice::fault
