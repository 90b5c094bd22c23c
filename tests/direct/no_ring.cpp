// A kernel without io_uring: the program's own syscall() refuses to set a ring up, and the library goes by pread and
// pwrite, which fault/interpose.cpp has in its hands. All other calls pass, by the bare instruction, since this is the
// function that others would use.
#include <sys/syscall.h>

#include <cerrno>
#include <cstdarg>

namespace {

long pass(long number, long a, long b, long c, long d, long e, long f) {
  long answer = 0;
#if defined(__x86_64__)
  register long fourth __asm__("r10") = d;
  register long fifth __asm__("r8") = e;
  register long sixth __asm__("r9") = f;
  __asm__ volatile("syscall"
                   : "=a"(answer)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(fifth), "r"(sixth)
                   : "rcx", "r11", "memory");
#elif defined(__aarch64__)
  register long eighth __asm__("x8") = number;
  register long first __asm__("x0") = a;
  register long second __asm__("x1") = b;
  register long third __asm__("x2") = c;
  register long fourth __asm__("x3") = d;
  register long fifth __asm__("x4") = e;
  register long sixth __asm__("x5") = f;
  __asm__ volatile("svc 0"
                   : "+r"(first)
                   : "r"(eighth), "r"(second), "r"(third), "r"(fourth), "r"(fifth), "r"(sixth)
                   : "memory");
  answer = first;
#else
#error "the system call of this processor is missing here"
#endif
  return answer;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" long syscall(long number, ...) {
  va_list list;
  va_start(list, number);
  long arguments[6];
  for (long& argument : arguments) argument = va_arg(list, long);
  va_end(list);
  const long answer = number == SYS_io_uring_setup ? -ENOSYS
                                                   : pass(number, arguments[0], arguments[1], arguments[2],
                                                          arguments[3], arguments[4], arguments[5]);
  if (answer >= 0 || answer < -4095) return answer;
  errno = static_cast<int>(-answer);
  return -1;
}
#pragma GCC visibility pop
