// SPDX-License-Identifier: Apache-2.0
// A process's POSIX record locks vanish when it closes any descriptor of the file. The library may open files on its
// own; the user's locks must outlive that.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "support/calls.h"

namespace sluice::contract {
namespace {

using namespace support;

constexpr off_t kLockStart = 100;
constexpr off_t kLockLength = 5000;

// Another process asks who holds a lock on the range. True when it is this process.
bool another_process_sees_the_lock(const std::string& path) {
  const pid_t self = getpid();
  const pid_t child = fork();
  if (child == 0) {
    const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
    struct flock query {};
    query.l_type = F_WRLCK;
    query.l_whence = SEEK_SET;
    query.l_start = kLockStart;
    query.l_len = kLockLength;
    const bool asked = fd >= 0 && fcntl(fd, F_GETLK, &query) == 0;
    _exit(asked && query.l_type == F_WRLCK && query.l_pid == self ? 0 : 1);
  }
  int status = 1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

class RecordLocks : public CufileTest {
 protected:
  void SetUp() override {
    CufileTest::SetUp();
    struct flock lock {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    lock.l_start = kLockStart;
    lock.l_len = kLockLength;
    ASSERT_EQ(fcntl(lock_fd_.get(), F_SETLK, &lock), 0);
    ASSERT_TRUE(another_process_sees_the_lock(file_.path()));
  }

  // Transfers of every shape through a handle of its own descriptor, which stays open.
  void use(int flags) {
    const Memory memory(usual_memory(), 300000);
    const Handle handle(fd_for(flags));
    const bool reads = (flags & O_ACCMODE) != O_WRONLY;
    const bool writes = (flags & O_ACCMODE) != O_RDONLY;
    for (const off_t offset : {0, 1, 4095, 4097}) {
      for (const std::size_t size : {std::size_t{1}, std::size_t{4096}, std::size_t{5001}, std::size_t{200001}}) {
        if (writes) {
          ASSERT_EQ(write_file(handle.get(), memory.address(), size, offset, 3), moved(size));
        }
        if (reads) {
          ASSERT_EQ(read_file(handle.get(), memory.address(), size, offset, 3), moved(size));
        }
      }
    }
  }

  int fd_for(int flags) {
    fds_.push_back(file_.open(flags));
    return fds_.back().get();
  }

  const ScratchFile file_{400000};
  const Fd lock_fd_ = file_.open(O_RDWR);
  std::vector<Fd> fds_;  // open until the test ends: closing one would drop the locks, and rightly so
};

TEST_F(RecordLocks, SurviveRegistration) {
  for (const int flags : {O_RDWR, O_RDONLY, O_RDWR | O_DIRECT, O_WRONLY | O_DIRECT}) {
    { const Handle handle(fd_for(flags)); }
    EXPECT_TRUE(another_process_sees_the_lock(file_.path())) << flags;
  }
}

TEST_F(RecordLocks, SurviveBufferedTransfers) {
  use(O_RDWR);
  EXPECT_TRUE(another_process_sees_the_lock(file_.path()));
}

TEST_F(RecordLocks, SurviveRaggedDirectTransfers) {
  use(O_RDWR | O_DIRECT);
  EXPECT_TRUE(another_process_sees_the_lock(file_.path()));
}

TEST_F(RecordLocks, SurviveRaggedDirectWritesToAWriteOnlyFile) {
  use(O_WRONLY | O_DIRECT);
  EXPECT_TRUE(another_process_sees_the_lock(file_.path()));
}

TEST_F(RecordLocks, SurviveDirectReadsOfAReadOnlyFile) {
  use(O_RDONLY | O_DIRECT);
  EXPECT_TRUE(another_process_sees_the_lock(file_.path()));
}

TEST_F(RecordLocks, SurviveAClosedDriver) {
  use(O_WRONLY | O_DIRECT);
  close_driver_fully();
  EXPECT_TRUE(another_process_sees_the_lock(file_.path()));
  use(O_WRONLY | O_DIRECT);
  close_driver_fully();
  EXPECT_TRUE(another_process_sees_the_lock(file_.path()));
}

}  // namespace
}  // namespace sluice::contract
