// SPDX-License-Identifier: Apache-2.0
// A system call by the bare instruction, for programs that define syscall() and its like themselves.
#pragma once

namespace sluice::support {

// `arguments`: six. Answers what the kernel does: -errno for an error. ThreadSanitizer comes by here before it has
// begun.
[[gnu::no_sanitize_thread]] inline long system_call(long number, const long* arguments) {
  long answer = 0;
#if defined(__x86_64__)
  register long fourth __asm__("r10") = arguments[3];
  register long fifth __asm__("r8") = arguments[4];
  register long sixth __asm__("r9") = arguments[5];
  __asm__ volatile("syscall"
                   : "=a"(answer)
                   : "a"(number), "D"(arguments[0]), "S"(arguments[1]), "d"(arguments[2]), "r"(fourth), "r"(fifth),
                     "r"(sixth)
                   : "rcx", "r11", "memory");
#elif defined(__aarch64__)
  register long eighth __asm__("x8") = number;
  register long first __asm__("x0") = arguments[0];
  register long second __asm__("x1") = arguments[1];
  register long third __asm__("x2") = arguments[2];
  register long fourth __asm__("x3") = arguments[3];
  register long fifth __asm__("x4") = arguments[4];
  register long sixth __asm__("x5") = arguments[5];
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

}  // namespace sluice::support
