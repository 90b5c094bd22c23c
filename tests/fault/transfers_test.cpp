// SPDX-License-Identifier: Apache-2.0
// Short transfers, interruptions and errors on the way: a transfer is continued where it can be, and what was moved
// before an error is told, exactly.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <tuple>
#include <utility>

#include "fault/interpose.h"
#include "support/calls.h"

namespace sluice::fault::transfers_test {
namespace {

using namespace support;

constexpr std::size_t kFileSize = 400000;
constexpr unsigned char kUntouched = 0xa5;

// Where a transfer lies.
struct Range {
  std::size_t size;
  std::size_t file_offset;
  std::size_t buffer_offset;
};
constexpr Range kAligned{65536, 8192, 4096};
constexpr Range kRagged{20003, 4097, 11};
// Reads of this size into a device have several chunks on their way at a time, on O_DIRECT by io_uring.
constexpr Range kLarge{390001, 4097, 11};

using Parameters = std::tuple<int, MemoryKind, Direction>;

class Faults : public CufileTest, public ::testing::WithParamInterface<Parameters> {
 protected:
  void SetUp() override {
    CufileTest::SetUp();
    ASSERT_TRUE(interposition_works()) << "the library does not call pread by way of the loader";
    if (!available(std::get<1>(GetParam()))) GTEST_SKIP() << "no CUDA device";
    memory_.emplace(std::get<1>(GetParam()), kFileSize);
    handle_.emplace(fd_);
    // From here on it is known what the storage refuses whatever is asked, such as polling.
    ASSERT_EQ(read_file(handle_->get(), memory_->address(), kAligned.size), moved(kAligned.size));
  }
  void TearDown() override {
    handle_.reset();
    CufileTest::TearDown();
  }

  static bool direct() { return (std::get<0>(GetParam()) & O_DIRECT) != 0; }
  static Direction direction() { return std::get<2>(GetParam()); }

  // Runs one transfer under the plan and checks what must hold whatever happens: the bytes up to the count have
  // arrived, all others are as before.
  Transfer run(const Range& range, std::vector<Step> steps) {
    const Bytes memory_before = direction() == Direction::read ? Bytes(kFileSize, kUntouched) : written_;
    const Bytes file_before = content_of(file_.path());
    memory_->put(0, memory_before);
    Transfer transfer;
    {
      const Plan plan(fd_.get(), direction(), std::move(steps));
      const auto file_offset = static_cast<off_t>(range.file_offset);
      const auto buffer_offset = static_cast<off_t>(range.buffer_offset);
      transfer = direction() == Direction::read
                     ? read_file(handle_->get(), memory_->address(), range.size, file_offset, buffer_offset)
                     : write_file(handle_->get(), memory_->address(), range.size, file_offset, buffer_offset);
      calls_ = plan.calls();
    }
    EXPECT_GT(calls_, 0U) << "the plan was not asked";
    const auto count = static_cast<std::ptrdiff_t>(std::max<ssize_t>(transfer.count, 0));
    Bytes memory_after = memory_before;
    Bytes file_after = file_before;
    const auto in_file = static_cast<std::ptrdiff_t>(range.file_offset);
    const auto in_memory = static_cast<std::ptrdiff_t>(range.buffer_offset);
    if (direction() == Direction::read) {
      std::copy_n(file_before.begin() + in_file, count, memory_after.begin() + in_memory);
    } else {
      std::copy_n(memory_before.begin() + in_memory, count, file_after.begin() + in_file);
    }
    EXPECT_TRUE(same_bytes(memory_after, memory_->get())) << "in memory, after " << ::testing::PrintToString(transfer);
    EXPECT_TRUE(same_bytes(file_after, content_of(file_.path())))
        << "in the file, after " << ::testing::PrintToString(transfer);
    return transfer;
  }

  const ScratchFile file_{kFileSize};
  const Fd fd_ = file_.open(O_RDWR | std::get<0>(GetParam()));
  const Bytes written_ = random_bytes(kFileSize, 0x33);
  std::optional<Memory> memory_;
  std::optional<Handle> handle_;
  std::size_t calls_ = 0;
};

TEST_P(Faults, ShortTransfersOfEveryLengthAreContinued) {
  for (const Range& range : {kAligned, kRagged}) {
    for (const std::size_t length : {1U, 2U, 511U, 512U, 4095U, 4096U, 4097U, 16384U, 20002U, 65535U}) {
      SCOPED_TRACE(::testing::Message() << "size " << range.size << ", at most " << length << " a call");
      ASSERT_EQ(run(range, {shorten(length)}), moved(range.size));
      EXPECT_GE(calls_, direct() ? 1U : range.size / length);
    }
  }
}

TEST_P(Faults, InterruptionsAreOutlasted) {
  for (const Range& range : {kAligned, kRagged}) {
    std::vector<Step> storm(1000, fail(EINTR));
    for (int i = 0; i < 20; ++i) {
      storm.push_back(shorten(3000));
      storm.insert(storm.end(), 50, fail(EINTR));
    }
    storm.push_back(pass());
    EXPECT_EQ(run(range, storm), moved(range.size));
  }
}

TEST_P(Faults, AnErrorAtTheStartIsTheCause) {
  for (const int error : {EIO, ENOSPC, EDQUOT, EROFS, ESTALE, EREMOTEIO, ENOMEM, EPERM, ETIMEDOUT}) {
    SCOPED_TRACE(strerrorname_np(error));
    EXPECT_EQ(run(kAligned, {fail(error)}), failed(error));
    EXPECT_EQ(run(kRagged, {fail(error)}), failed(error));
  }
}

TEST_P(Faults, AnErrorMidwayGivesWhatWasMoved) {
  for (const int error : {EIO, ENOSPC}) {
    for (const std::size_t before : {std::size_t{4096}, std::size_t{8192}, std::size_t{61440}}) {
      SCOPED_TRACE(::testing::Message() << strerrorname_np(error) << " after " << before);
      EXPECT_EQ(run(kAligned, {shorten(before), fail(error)}), moved(before));
    }
  }
}

TEST_P(Faults, AnErrorBehindAnInterruptedShortTransferGivesWhatWasMoved) {
  EXPECT_EQ(run(kAligned, {fail(EINTR), shorten(8192), fail(EINTR), fail(EINTR), fail(EIO)}), moved(8192));
}

TEST_P(Faults, AnErrorAtTheRaggedEdgesLosesNothing) {
  // Wherever the error strikes, run() checks that exactly the count was moved and nothing else was touched.
  for (std::size_t good = 0; good < 6; ++good) {
    SCOPED_TRACE(::testing::Message() << good << " good calls");
    std::vector<Step> steps(good, pass());
    steps.push_back(fail(EIO));
    const Transfer transfer = run(kRagged, steps);
    if (calls_ <= good) {
      EXPECT_EQ(transfer, moved(kRagged.size));
    } else {
      EXPECT_TRUE(transfer == failed(EIO) || (transfer.count > 0 && transfer.count < ssize_t{20003}))
          << ::testing::PrintToString(transfer);
    }
  }
}

TEST_P(Faults, ShortAnswersToManyChunksAtATimeAreContinued) {
  for (const std::size_t length : {std::size_t{4096}, std::size_t{69632}}) {
    EXPECT_EQ(run(kLarge, {shorten(length)}), moved(kLarge.size));
    EXPECT_EQ(run(kLarge, {fail(EINTR), shorten(length), fail(EAGAIN), pass()}), moved(kLarge.size));
  }
}

TEST_P(Faults, AnErrorAmongManyChunksCostsWhatLiesBehindIt) {
  // One call fails, those before and after it do not: run() checks that nothing behind the count was touched. A
  // buffered read into a device begins with two looks at what is cached, which may fail.
  const bool looks = !direct() && std::get<1>(GetParam()) == MemoryKind::device && direction() == Direction::read;
  for (std::size_t good = 0; good < 8; ++good) {
    for (const Step& step : {fail(ESTALE), nothing()}) {
      SCOPED_TRACE(::testing::Message() << good << " good calls");
      std::vector<Step> steps(good, pass());
      steps.push_back(step);
      steps.push_back(pass());
      const Transfer transfer = run(kLarge, steps);
      // A read that comes short where the file goes on asks for the rest: an error that does not stay is not met
      // behind bytes that are in place.
      const bool asks_again =
          direction() == Direction::read && (step.kind == Step::Kind::nothing || transfer.count > 0);
      if (calls_ <= good || asks_again) {
        EXPECT_EQ(transfer, moved(kLarge.size));
      } else if (!looks || good > 1) {
        EXPECT_NE(transfer, moved(kLarge.size));
        EXPECT_TRUE(transfer.count >= 0 || transfer == failed(ESTALE) || transfer == failed(ENOSPC))
            << ::testing::PrintToString(transfer);
      }
    }
  }
}

TEST_P(Faults, ARingThatTheKernelRefusesToServeCostsNothing) {
  bool asked = false;
  for (const auto& [count, error] : {std::pair{std::size_t{1}, EBUSY},
                                     {std::size_t{3}, EAGAIN},
                                     {for_ever, EBUSY},
                                     {for_ever, EBADF},
                                     {for_ever, EPERM}}) {
    for (std::size_t good = 0; good < 4; ++good) {
      SCOPED_TRACE(::testing::Message() << strerrorname_np(error) << " after " << good << " visits");
      const RefusedVisits refused(good, count, error);
      EXPECT_EQ(run(kLarge, {pass()}), moved(kLarge.size));
      asked = asked || refused.visits() > 0;
    }
  }
  const bool by_ring = direct() && std::get<1>(GetParam()) == MemoryKind::device && direction() == Direction::read;
  if (by_ring && !asked) GTEST_SKIP() << "no io_uring here, or a mode that does without";
}

TEST_P(Faults, AgainIsRetriedOrTold) {
  const Transfer once = run(kAligned, {fail(EAGAIN), pass()});
  EXPECT_TRUE(once == moved(kAligned.size) || once == failed(EAGAIN)) << ::testing::PrintToString(once);
  EXPECT_EQ(run(kAligned, {fail(EAGAIN)}), failed(EAGAIN)) << "for ever";
}

TEST_P(Faults, AnAnswerOfZeroEndsTheTransfer) {
  if (direction() == Direction::read) {
    EXPECT_EQ(run(kAligned, {nothing()}), moved(0));
    EXPECT_EQ(run(kAligned, {shorten(8192), nothing()}), moved(8192));
    return;
  }
  const Transfer transfer = run(kAligned, {nothing()});
  EXPECT_TRUE(transfer == failed(EIO) || transfer == failed(ENOSPC)) << ::testing::PrintToString(transfer);
  EXPECT_EQ(run(kAligned, {shorten(8192), nothing()}), moved(8192));
}

TEST_P(Faults, ARandomMixtureKeepsItsPromises) {
  Random random(run_seed());
  for (int round = 0; round < 60; ++round) {
    Range range{1 + random.below(150000), random.below(200000), random.below(200000)};
    if (round % 3 == 0) range = {250000 + random.below(100000), random.below(50000), random.below(50000)};
    std::vector<Step> steps;
    for (std::uint64_t i = random.below(12); i > 0; --i) {
      const std::uint64_t kind = random.below(4);
      if (kind == 0) steps.push_back(pass());
      if (kind == 1) steps.push_back(fail(EINTR));
      if (kind >= 2) steps.push_back(shorten(1 + random.below(40000)));
    }
    const bool fails = random.below(2) == 0;
    steps.push_back(fails ? fail(EIO) : pass());
    SCOPED_TRACE(::testing::Message() << "round " << round << ", SLUICE_TEST_SEED=" << run_seed() << ": size "
                                      << range.size << " at " << range.file_offset << ", buffer " << range.buffer_offset
                                      << ", " << steps.size() << " steps, " << (fails ? "failing" : "passing")
                                      << " at the end");
    const Transfer transfer = run(range, steps);
    if (!fails) {
      ASSERT_EQ(transfer, moved(range.size));
    }
    ASSERT_TRUE(transfer.count > 0 || transfer == failed(EIO)) << ::testing::PrintToString(transfer);
    ASSERT_FALSE(HasFailure());
  }
}

std::string name_of_parameters(const ::testing::TestParamInfo<Parameters>& info) {
  const auto [flags, kind, direction] = info.param;
  return std::string((flags & O_DIRECT) != 0 ? "direct_" : "buffered_") + name_of(kind) +
         (direction == Direction::read ? "_read" : "_write");
}

INSTANTIATE_TEST_SUITE_P(Each, Faults,
                         ::testing::Combine(::testing::Values(0, O_DIRECT),
                                            ::testing::Values(MemoryKind::plain, MemoryKind::device),
                                            ::testing::Values(Direction::read, Direction::write)),
                         name_of_parameters);

}  // namespace
}  // namespace sluice::fault::transfers_test
