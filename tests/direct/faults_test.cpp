// SPDX-License-Identifier: Apache-2.0
// What the kernel can do to a direct transfer: refuse it at the trial or in mid-way, or report success and lose the
// bytes. Each has its reason, and the bytes arrive all the same.
#include <gtest/gtest.h>

#include <cerrno>
#include <string>
#include <thread>

#include "direct/direct_fixture.h"
#include "fault/interpose.h"

namespace sluice::direct {
namespace {

using namespace support;
using fault::block;
using fault::fail;
using fault::lose;
using fault::pass;
using fault::Plan;
using fault::shorten;
using fault::Step;

// A trial reads twice: into host memory first, then into device memory. A lost one reads the file once more.
class DirectFaults : public DirectTest {
 protected:
  void SetUp() override {
    DirectTest::SetUp();
    if (IsSkipped()) return;
    ASSERT_TRUE(fault::interposition_works());
    close_driver_fully();
  }

  static std::string reason(CUfileHandle_t handle, const Memory& memory) {
    return explain(handle, memory.address()).reason_name;
  }

  void expect_right_read(CUfileHandle_t handle) {
    memory_.fill(0);
    ASSERT_EQ(read_file(handle, memory_.address(), kMebibyte), moved(kMebibyte));
    EXPECT_TRUE(same_bytes(scratch_.content(), memory_.get()));
  }

  const ScratchFile scratch_{kMebibyte};
  const Memory memory_{MemoryKind::device, kMebibyte};
};

struct Refusal {
  const char* name;
  Step step;
  sluice_reason_t reason;
  const char* words;
};
void PrintTo(const Refusal& refusal, std::ostream* out) {  // NOLINT(readability-identifier-naming): GoogleTest's name
  *out << refusal.name;
}

const Refusal kRefusals[] = {
    {"EREMOTEIO", fail(EREMOTEIO), SLUICE_REASON_PAGES_REFUSED, "answered EREMOTEIO"},
    {"EINVAL", fail(EINVAL), SLUICE_REASON_UNREACHABLE_DEVICE, "answered EINVAL"},
    {"EFAULT", fail(EFAULT), SLUICE_REASON_PINNING_REFUSED, "answered EFAULT"},
    {"LostData", lose(), SLUICE_REASON_DATA_LOST, "reported 65536 bytes; 0 arrived"},
};

class RefusedTrial : public DirectFaults, public ::testing::WithParamInterface<Refusal> {};

TEST_P(RefusedTrial, KeepsItsReasonAndLeavesTheBytesToTheCpu) {
  const Refusal& refusal = GetParam();
  const OpenFile file(scratch_);
  {
    const Plan plan(file.fd(), fault::Direction::read, {pass(), refusal.step, pass()});
    const sluice_explanation_t answer = explain(file.handle(), memory_.address());
    EXPECT_STREQ(answer.path_name, "posix");
    EXPECT_EQ(answer.reason, refusal.reason) << answer.reason_name;
    EXPECT_NE(std::string(answer.detail).find(refusal.words), std::string::npos) << answer.detail;
  }
  const Meter direct(SLUICE_PATH_P2PDMA, SLUICE_REASON_DIRECT);
  const Meter cpu(SLUICE_PATH_POSIX, refusal.reason);
  expect_right_read(file.handle());
  EXPECT_EQ(direct.so_far(), Count{}) << "a path that failed its trial was taken";
  EXPECT_EQ(cpu.so_far(), (Count{1, kMebibyte}));
}

TEST_P(RefusedTrial, SpeaksForAllFilesOfTheFileSystem) {
  const OpenFile file(scratch_);
  {
    const Plan plan(file.fd(), fault::Direction::read, {pass(), GetParam().step, pass()});
    explain(file.handle(), memory_.address());
  }
  const ScratchFile neighbour(kMebibyte);
  const OpenFile other(neighbour);
  EXPECT_EQ(explain(other.handle(), memory_.address()).reason, GetParam().reason);
}

class RefusedInFlight : public DirectFaults, public ::testing::WithParamInterface<Refusal> {};

TEST_P(RefusedInFlight, EndsOnTheCpusWayAndSoDoAllLaterOnes) {
  const Refusal& refusal = GetParam();
  const OpenFile file(scratch_);
  ASSERT_EQ(reason(file.handle(), memory_), "direct");
  const Meter direct(SLUICE_PATH_P2PDMA, SLUICE_REASON_DIRECT);
  const Meter cpu(SLUICE_PATH_POSIX, refusal.reason);
  {
    const Plan plan(file.fd(), fault::Direction::read, {refusal.step, pass()});
    expect_right_read(file.handle());
  }
  EXPECT_EQ(cpu.so_far(), (Count{1, kMebibyte}));
  expect_right_read(file.handle());
  EXPECT_EQ(cpu.so_far(), (Count{2, 2 * kMebibyte}));
  EXPECT_EQ(direct.so_far(), Count{});
  EXPECT_EQ(explain(file.handle(), memory_.address()).reason, refusal.reason);
  const std::vector<Pair> known = pairs();
  ASSERT_EQ(known.size(), 1U);
  EXPECT_EQ(known[0].rerouted, 1U);
  EXPECT_NE(std::string(explain(file.handle(), memory_.address()).detail)
                .find(std::string("a transfer was ") + refusal.words + " after a trial had succeeded"),
            std::string::npos);
}

TEST_P(RefusedInFlight, OfAWriteEndsOnTheCpusWay) {
  const OpenFile file(scratch_);
  ASSERT_EQ(reason(file.handle(), memory_), "direct");
  const Bytes written = random_bytes(kMebibyte, 9);
  memory_.put(0, written);
  {
    const Plan plan(file.fd(), fault::Direction::write, {GetParam().step, pass()});
    ASSERT_EQ(write_file(file.handle(), memory_.address(), kMebibyte), moved(kMebibyte));
  }
  EXPECT_TRUE(same_bytes(written, content_of(scratch_.path())));
}

TEST_P(RefusedInFlight, InMidWayCountsOnBothPaths) {
  const Refusal& refusal = GetParam();
  const OpenFile file(scratch_);
  ASSERT_EQ(reason(file.handle(), memory_), "direct");
  const Meter direct(SLUICE_PATH_P2PDMA, SLUICE_REASON_DIRECT);
  const Meter cpu(SLUICE_PATH_POSIX, refusal.reason);
  {
    // The refused piece is asked for again before it is given up.
    const Plan plan(file.fd(), fault::Direction::read, {shorten(kMebibyte / 4), refusal.step, refusal.step, pass()});
    expect_right_read(file.handle());
  }
  EXPECT_EQ(direct.so_far(), (Count{1, kMebibyte / 4}));
  EXPECT_EQ(cpu.so_far(), (Count{1, 3 * kMebibyte / 4}));
}

const auto kName = [](const auto& info) { return std::string(info.param.name); };
INSTANTIATE_TEST_SUITE_P(Kernel, RefusedTrial, ::testing::ValuesIn(kRefusals), kName);
// Data that is lost in flight is what SLUICE_VERIFY is for.
INSTANTIATE_TEST_SUITE_P(Kernel, RefusedInFlight, ::testing::Values(kRefusals[0], kRefusals[1], kRefusals[2]), kName);

TEST_F(DirectFaults, ABrokenMediumIsNoFaultOfThePath) {
  const OpenFile file(scratch_);
  ASSERT_EQ(reason(file.handle(), memory_), "direct");
  {
    const Plan plan(file.fd(), fault::Direction::read, {fail(EIO)});
    EXPECT_EQ(read_file(file.handle(), memory_.address(), kMebibyte), failed(EIO));
  }
  const Meter direct(SLUICE_PATH_P2PDMA, SLUICE_REASON_DIRECT);
  expect_right_read(file.handle());
  EXPECT_EQ(direct.so_far(), (Count{1, kMebibyte}));
}

TEST_F(DirectFaults, AFullDeviceIsToldAsTheCpusWayTellsIt) {
  const OpenFile file(scratch_);
  ASSERT_EQ(reason(file.handle(), memory_), "direct");
  const Plan plan(file.fd(), fault::Direction::write, {fail(ENOSPC)});
  EXPECT_EQ(write_file(file.handle(), memory_.address(), kMebibyte), failed(ENOSPC));
}

TEST_F(DirectFaults, AnInterruptionOrAShortTransferIsGoneOnFrom) {
  const OpenFile file(scratch_);
  ASSERT_EQ(reason(file.handle(), memory_), "direct");
  const Meter direct(SLUICE_PATH_P2PDMA, SLUICE_REASON_DIRECT);
  const Plan plan(file.fd(), fault::Direction::read,
                  {fail(EINTR), shorten(kBlock), fail(EAGAIN), shorten(3 * kBlock), fail(ECANCELED), pass()});
  expect_right_read(file.handle());
  EXPECT_EQ(direct.so_far(), (Count{1, kMebibyte}));
}

TEST_F(DirectFaults, ATrialThatCannotBeMadeIsMadeLater) {
  const OpenFile file(scratch_);
  {
    const Plan plan(file.fd(), fault::Direction::read, {pass(), fail(EIO), pass()});
    EXPECT_EQ(reason(file.handle(), memory_), "not_proven");
  }
  EXPECT_EQ(reason(file.handle(), memory_), "direct");
}

TEST_F(DirectFaults, MemoryThatIsFreedInMidWayBlamesNobody) {
  const OpenFile file(scratch_);
  ASSERT_EQ(reason(file.handle(), memory_), "direct");
  Memory freed(MemoryKind::device, kMebibyte);
  {
    Plan plan(file.fd(), fault::Direction::read, {block(EFAULT), pass()});
    Transfer answer;
    std::thread reader([&] { answer = read_file(file.handle(), freed.address(), kMebibyte); });
    plan.wait_until_blocked();
    freed.free();
    plan.release();
    reader.join();
    EXPECT_EQ(answer, failed(EPERM));
  }
  const Meter direct(SLUICE_PATH_P2PDMA, SLUICE_REASON_DIRECT);
  expect_right_read(file.handle());
  EXPECT_EQ(direct.so_far(), (Count{1, kMebibyte})) << "the pair was blamed for memory that was freed";
}

TEST_F(DirectFaults, ATransferThatComesDuringATrialIsTheCpus) {
  const OpenFile file(scratch_);
  const ScratchFile neighbour(kMebibyte);
  const OpenFile other(neighbour);
  const Meter cpu(SLUICE_PATH_POSIX, SLUICE_REASON_NOT_PROVEN);
  Plan plan(file.fd(), fault::Direction::read, {block(), pass()});
  std::thread trier([&] { explain(file.handle(), memory_.address()); });
  plan.wait_until_blocked();
  const Memory memory(MemoryKind::device, kMebibyte);
  EXPECT_EQ(read_file(other.handle(), memory.address(), kMebibyte), moved(kMebibyte));
  EXPECT_EQ(cpu.so_far(), (Count{1, kMebibyte}));
  plan.release();
  trier.join();
  EXPECT_EQ(reason(file.handle(), memory_), "direct");
}

}  // namespace
}  // namespace sluice::direct
