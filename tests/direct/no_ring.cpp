// SPDX-License-Identifier: Apache-2.0
// A kernel without io_uring: the program's own syscall() refuses to set a ring up, and the library goes by pread and
// pwrite, which fault/interpose.cpp has in its hands. All other calls pass, by the bare instruction, since this is the
// function that others would use.
#include <sys/syscall.h>

#include <cerrno>
#include <cstdarg>

#include "support/system_call.h"

#pragma GCC visibility push(default)
// It looks for six arguments whatever the caller passed: the rest is read from behind the caller's frame, and not used.
extern "C" [[gnu::no_sanitize_address]] long syscall(long number, ...) {
  va_list list;
  va_start(list, number);
  long arguments[6];
  for (long& argument : arguments) argument = va_arg(list, long);
  va_end(list);
  const long answer = number == SYS_io_uring_setup ? -ENOSYS : sluice::support::system_call(number, arguments);
  if (answer >= 0 || answer < -4095) return answer;
  errno = static_cast<int>(-answer);
  return -1;
}
#pragma GCC visibility pop
