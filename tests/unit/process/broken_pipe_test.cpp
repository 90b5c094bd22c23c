// SPDX-License-Identifier: Apache-2.0
// What the kernel does to a thread when an NVMe/TCP connection breaks is played by raise(): both send to the thread.
#include "process/broken_pipe.h"

#include <gmock/gmock.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <csignal>

#include "api/funnel.h"

namespace {

using sluice::base::Outcome;
using sluice::process::BrokenPipeHeld;

std::atomic<int> heard;

class BrokenPipe : public testing::Test {
 protected:
  BrokenPipe() {
    heard = 0;
    before_ = std::signal(SIGPIPE, [](int /*signal*/) { ++heard; });
    sluice::process::broken_pipes_expected = true;
  }
  ~BrokenPipe() override {
    sluice::process::broken_pipes_expected = false;
    std::signal(SIGPIPE, before_);
  }

  static bool is_blocked() {
    sigset_t mask;
    ::pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    return sigismember(&mask, SIGPIPE) == 1;
  }

 private:
  void (*before_)(int);
};

class WhereTheProgramHoldsItBack : public BrokenPipe {
 protected:
  WhereTheProgramHoldsItBack() { change(SIG_BLOCK); }
  ~WhereTheProgramHoldsItBack() override { change(SIG_UNBLOCK); }

  static void change(int how) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    ::pthread_sigmask(how, &set, nullptr);
  }
};

TEST_F(BrokenPipe, ReachesTheProgramOtherwise) {
  std::raise(SIGPIPE);
  EXPECT_EQ(heard, 1);
}

TEST_F(BrokenPipe, OfATransferDoesNotReachTheProgram) {
  const ssize_t moved = sluice::api::guarded_transfer("cuFileRead", [] {
    std::raise(SIGPIPE);
    return Outcome::bytes(17);
  });
  EXPECT_EQ(moved, 17);
  EXPECT_EQ(heard, 0);
  EXPECT_FALSE(is_blocked());
}

TEST_F(BrokenPipe, OfAnyOtherCallDoesNotReachTheProgram) {
  const CUfileError_t answer = sluice::api::guarded("cuFileBatchIOSubmit", [] { std::raise(SIGPIPE); });
  EXPECT_EQ(answer.err, CU_FILE_SUCCESS);
  EXPECT_EQ(heard, 0);
  EXPECT_FALSE(is_blocked());
}

TEST_F(BrokenPipe, LeavesTheErrorOfTheCall) {
  errno = 0;
  EXPECT_EQ(sluice::api::guarded_transfer("cuFileRead",
                                          [] {
                                            std::raise(SIGPIPE);
                                            return Outcome::system_error(EIO);
                                          }),
            -1);
  EXPECT_EQ(errno, EIO);
}

TEST_F(BrokenPipe, ReachesTheProgramWhereNoneIsExpected) {
  sluice::process::broken_pipes_expected = false;
  sluice::api::guarded("cuFileDriverOpen", [] { std::raise(SIGPIPE); });
  EXPECT_EQ(heard, 1);
}

TEST_F(BrokenPipe, OtherSignalsAreDelivered) {
  static std::atomic<int> others;
  others = 0;
  auto* const before = std::signal(SIGUSR1, [](int /*signal*/) { ++others; });
  {
    const BrokenPipeHeld held;
    std::raise(SIGUSR1);
    EXPECT_EQ(others, 1);
  }
  std::signal(SIGUSR1, before);
}

TEST_F(WhereTheProgramHoldsItBack, IsTakenAwayAllTheSame) {
  {
    const BrokenPipeHeld held;
    std::raise(SIGPIPE);
  }
  EXPECT_TRUE(is_blocked());
  change(SIG_UNBLOCK);
  EXPECT_EQ(heard, 0);
}

TEST_F(WhereTheProgramHoldsItBack, TheProgramsOwnIsLeft) {
  std::raise(SIGPIPE);
  {
    const BrokenPipeHeld held;
    std::raise(SIGPIPE);
  }
  EXPECT_EQ(heard, 0);
  change(SIG_UNBLOCK);
  EXPECT_EQ(heard, 1);
}

}  // namespace
