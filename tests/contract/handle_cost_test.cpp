// SPDX-License-Identifier: Apache-2.0
// What the life of a handle asks of the kernel, as a debugger sees it: open, register, read, deregister and close of a
// file on a file system that the library has met.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "sluice.h"
#include "support/calls.h"

namespace sluice::contract {
namespace {

using namespace support;

// Closing a descriptor that no process has marks where the calls begin and end that are counted.
constexpr int begin_mark = -1000;
constexpr int end_mark = -1001;

struct Named {
  long number;
  const char* name;
};

// What asks for or about files. Memory, locks and clocks are no matter of this test.
constexpr std::array counted{
    Named{SYS_openat, "openat"},
    Named{SYS_close, "close"},
    Named{SYS_fcntl, "fcntl"},
    Named{SYS_statx, "statx"},
    Named{SYS_newfstatat, "fstat"},
    Named{SYS_fstat, "fstat"},
    Named{SYS_statfs, "statfs"},
    Named{SYS_fstatfs, "statfs"},
    Named{SYS_pread64, "pread"},
    Named{SYS_preadv, "pread"},
    Named{SYS_preadv2, "pread"},
    Named{SYS_read, "read"},
    Named{SYS_readlinkat, "readlink"},
    Named{SYS_faccessat, "access"},
    Named{SYS_faccessat2, "access"},
    Named{SYS_getdents64, "getdents"},
    Named{SYS_ioctl, "ioctl"},
    Named{SYS_lseek, "lseek"},
    Named{SYS_clone, "clone"},
    Named{SYS_clone3, "clone"},
    Named{SYS_pwrite64, "write"},
    Named{SYS_write, "write"},
    Named{SYS_io_uring_enter, "io_uring"},
#ifdef SYS_open  // architectures with a history
    Named{SYS_open, "openat"},
    Named{SYS_stat, "stat"},
    Named{SYS_readlink, "readlink"},
    Named{SYS_access, "access"},
    Named{SYS_poll, "poll"},
#endif
};

using Counts = std::map<std::string, int>;

// Stands at a system call that it is about to make.
void count(pid_t child, bool& counting, Counts& counts) {
  struct __ptrace_syscall_info info {};
  if (::ptrace(static_cast<__ptrace_request>(PTRACE_GET_SYSCALL_INFO), child, sizeof info, &info) <= 0) return;
  if (info.op != PTRACE_SYSCALL_INFO_ENTRY) return;
  const int first = static_cast<int>(info.entry.args[0]);
  const bool closes = info.entry.nr == SYS_close;
  if (closes && first == end_mark) counting = false;
  for (const Named& known : counted) {
    if (counting && info.entry.nr == static_cast<std::uint64_t>(known.number)) ++counts[known.name];
  }
  if (closes && first == begin_mark) counting = true;
}

// The calls of a child's first thread between the marks; empty where the system allows no tracing.
Counts calls_of(const std::function<void()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(0);
    ::raise(SIGSTOP);
    body();
    ::_exit(0);
  }
  Counts counts;
  bool counting = false;
  int status = 0;
  while (::waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
    int signal = 0;
    if (WSTOPSIG(status) == (SIGTRAP | 0x80)) {
      count(child, counting, counts);
    } else if (WSTOPSIG(status) == SIGSTOP) {
      ::ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
    } else {
      signal = WSTOPSIG(status);
    }
    ::ptrace(PTRACE_SYSCALL, child, nullptr, signal);
  }
  EXPECT_EQ(status, 0);
  return counts;
}

bool mounts_have_unique_numbers() {
  constexpr unsigned unique_number = 0x4000;
  struct statx status {};
  return ::statx(AT_FDCWD, ".", 0, unique_number, &status) == 0 && (status.stx_mask & unique_number) != 0;
}

class HandleCost : public testing::Test {
 protected:
  void SetUp() override {
    if (entry<decltype(sluice_explain)>("sluice_explain") == nullptr) GTEST_SKIP() << "the cost of this library alone";
    if (!mounts_have_unique_numbers()) GTEST_SKIP() << "this kernel gives the numbers of mounts anew";
  }

  // Where nothing is denied and nothing explained; a process that has met the file system.
  Counts of(int cycles, int reads) const {
    return calls_of([&] {
      std::array<unsigned char, 4096> bytes{};
      const auto cycle = [&] {
        const Fd fd(::open(file_.path().c_str(), O_RDONLY | O_CLOEXEC));
        const Handle handle(fd);
        for (int i = 0; i < reads; ++i) {
          if (cuFileRead(handle.get(), bytes.data(), bytes.size(), 0, 0) != 4096) ::_exit(1);
        }
      };
      cycle();
      ::close(begin_mark);
      for (int i = 0; i < cycles; ++i) cycle();
      ::close(end_mark);
    });
  }

  const ScratchFile file_{4096};
};

TEST_F(HandleCost, IsTwoSystemCallsForARegistrationAndNoneForItsEnd) {
  const Counts counts = of(3, 0);
  if (counts.empty()) GTEST_SKIP() << "tracing is not permitted here";
  EXPECT_EQ(counts, (Counts{{"openat", 3}, {"fcntl", 3}, {"statx", 3}, {"close", 3}}));
}

TEST_F(HandleCost, IsTheSameForTheFirstReadAndTheTenth) {
  const Counts first = of(3, 1);
  const Counts ten = of(3, 10);
  if (first.empty() || ten.empty()) GTEST_SKIP() << "tracing is not permitted here";
  EXPECT_EQ(first, (Counts{{"openat", 3}, {"fcntl", 3}, {"statx", 3}, {"fstat", 3}, {"pread", 3}, {"close", 3}}));
  EXPECT_EQ(ten, (Counts{{"openat", 3}, {"fcntl", 3}, {"statx", 3}, {"fstat", 30}, {"pread", 30}, {"close", 3}}));
}

}  // namespace
}  // namespace sluice::contract
