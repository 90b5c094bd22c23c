// SPDX-License-Identifier: Apache-2.0
#include "failures/refused_calls.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstddef>

namespace sluice::failures {

namespace {

#define CALL(name)    \
  SystemCall {        \
#name, SYS_##name \
  }
constexpr std::array calls_of_all_machines {
  CALL(brk), CALL(capget), CALL(clock_gettime), CALL(clock_nanosleep), CALL(clone), CALL(clone3), CALL(close),
      CALL(close_range), CALL(dup), CALL(dup3), CALL(epoll_create1), CALL(epoll_ctl), CALL(epoll_pwait), CALL(eventfd2),
      CALL(faccessat), CALL(faccessat2), CALL(fallocate), CALL(fcntl), CALL(fdatasync), CALL(fstat), CALL(fstatfs),
      CALL(fsync), CALL(ftruncate), CALL(get_mempolicy), CALL(getcpu), CALL(getcwd), CALL(getdents64), CALL(getpid),
      CALL(getrandom), CALL(gettid), CALL(geteuid), CALL(getuid), CALL(io_uring_enter), CALL(io_uring_register),
      CALL(io_uring_setup), CALL(ioctl), CALL(kcmp), CALL(lseek), CALL(madvise), CALL(mbind), CALL(membarrier),
      CALL(memfd_create), CALL(mincore), CALL(mlock), CALL(mmap), CALL(mprotect), CALL(mremap), CALL(munlock),
      CALL(munmap), CALL(newfstatat), CALL(openat), CALL(openat2), CALL(pidfd_getfd), CALL(pidfd_open), CALL(pipe2),
      CALL(ppoll), CALL(prctl), CALL(pread64), CALL(preadv), CALL(preadv2), CALL(prlimit64), CALL(process_vm_readv),
      CALL(process_vm_writev), CALL(pwrite64), CALL(pwritev), CALL(pwritev2), CALL(read), CALL(readlinkat), CALL(readv),
      CALL(renameat2), CALL(rseq), CALL(rt_sigaction), CALL(rt_sigpending), CALL(rt_sigprocmask), CALL(rt_sigtimedwait),
      CALL(sched_getaffinity), CALL(sched_setaffinity), CALL(sched_setscheduler), CALL(sched_yield),
      CALL(set_robust_list), CALL(sigaltstack), CALL(statfs), CALL(statx), CALL(sync_file_range), CALL(sysinfo),
      CALL(tgkill), CALL(timerfd_create), CALL(timerfd_settime), CALL(uname), CALL(unlinkat), CALL(userfaultfd),
      CALL(write), CALL(writev),
#if defined(__x86_64__)
      CALL(access), CALL(arch_prctl), CALL(dup2), CALL(getrlimit), CALL(open), CALL(poll), CALL(readlink), CALL(rename),
      CALL(unlink),
#endif
};
#undef CALL

}  // namespace

std::span<const SystemCall> refusable_calls() {
  return calls_of_all_machines;
}

bool refuse(long number, int error) {
  std::array<sock_filter, 4> steps{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<unsigned>(offsetof(seccomp_data, nr))),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(number), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog program{static_cast<unsigned short>(steps.size()), steps.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}

}  // namespace sluice::failures
