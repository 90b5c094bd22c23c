// SPDX-License-Identifier: Apache-2.0
// The C library's functions that enter the kernel, each with the error that it may have. They are defined under names
// of their own and exported under the C library's: all of their arguments are integers and pointers, which go through
// as they came. Not here: what cannot fail, close(), whose descriptor is gone whatever it answers, and waiting on a
// futex.
#include <dlfcn.h>
#include <sys/syscall.h>

#include <atomic>
#include <cerrno>

#include "failures/point.h"

namespace {

using sluice::failures::is_to_fail;
using sluice::failures::Kind;
using Forward = long(long, long, long, long, long, long, long);

Forward* next(std::atomic<Forward*>& known, const char* name) {
  Forward* function = known.load(std::memory_order_relaxed);
  if (function == nullptr) {
    function = reinterpret_cast<Forward*>(dlsym(RTLD_NEXT, name));
    known.store(function, std::memory_order_relaxed);
  }
  return function;
}

// What a failed call answers.
long minus_one(int error) {
  errno = error;
  return -1;
}
long null(int error) {
  errno = error;
  return 0;
}
long itself(int error) {
  return error;
}

bool may_fail(long system_call) {
  return system_call != SYS_futex && system_call != SYS_gettid;
}

}  // namespace

#define CALL(name, answer, error)                                                                        \
  extern "C" __attribute__((visibility("default"))) long seam_##name(long, long, long, long, long, long, \
                                                                     long) __asm__(#name);               \
  long seam_##name(long a, long b, long c, long d, long e, long f, long g) {                             \
    static std::atomic<Forward*> known{nullptr};                                                         \
    if (is_to_fail(Kind::system_call, #name, __builtin_return_address(0))) return answer(error);         \
    return next(known, #name)(a, b, c, d, e, f, g);                                                      \
  }

CALL(access, minus_one, EACCES)
CALL(dup2, minus_one, EMFILE)
CALL(dup3, minus_one, EMFILE)
CALL(fallocate, minus_one, EOPNOTSUPP)
CALL(fcntl, minus_one, EBUSY)
CALL(fopen, null, EMFILE)
CALL(fstat, minus_one, ENOMEM)
CALL(fstatfs, minus_one, ENOMEM)
CALL(ftruncate, minus_one, ENOSPC)
CALL(getcwd, null, ENOENT)
CALL(getrlimit, minus_one, EPERM)
CALL(ioctl, minus_one, ENOTTY)
CALL(lstat, minus_one, ENOMEM)
CALL(madvise, minus_one, EAGAIN)
CALL(memfd_create, minus_one, EMFILE)
CALL(mmap, minus_one, ENOMEM)
CALL(munmap, minus_one, ENOMEM)
CALL(open, minus_one, EMFILE)
CALL(opendir, null, EMFILE)
CALL(prctl, minus_one, EPERM)
CALL(pread, minus_one, EIO)
CALL(preadv, minus_one, EIO)
CALL(preadv2, minus_one, EIO)
CALL(process_vm_readv, minus_one, EPERM)
CALL(process_vm_writev, minus_one, EPERM)
CALL(pthread_create, itself, EAGAIN)
CALL(pthread_key_create, itself, EAGAIN)
CALL(pthread_setaffinity_np, itself, EINVAL)
CALL(pthread_setspecific, itself, ENOMEM)
CALL(pwrite, minus_one, EIO)
CALL(pwritev, minus_one, EIO)
CALL(pwritev2, minus_one, EIO)
CALL(read, minus_one, EIO)
CALL(readlink, minus_one, EACCES)
CALL(realpath, null, EACCES)
CALL(rename, minus_one, EACCES)
CALL(sched_getaffinity, minus_one, EPERM)
CALL(stat, minus_one, ENOMEM)
CALL(statx, minus_one, ENOMEM)
CALL(uname, minus_one, EFAULT)
CALL(write, minus_one, ENOSPC)

extern "C" __attribute__((visibility("default"))) long seam_syscall(long, long, long, long, long, long,
                                                                    long) __asm__("syscall");
long seam_syscall(long number, long a, long b, long c, long d, long e, long f) {
  static std::atomic<Forward*> known{nullptr};
  if (may_fail(number) && is_to_fail(Kind::system_call, "syscall", __builtin_return_address(0)))
    return minus_one(EAGAIN);
  return next(known, "syscall")(number, a, b, c, d, e, f);
}
