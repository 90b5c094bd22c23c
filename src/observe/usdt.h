// SPDX-License-Identifier: Apache-2.0
// Static probes for perf, bpftrace, SystemTap and gdb: a nop, and a note beside it that says where it is, what it is
// called, where its arguments are and which counter tells that a tool listens. The format is SystemTap's, version 3
// (sys/sdt.h), written here by ourselves: a macro of this size is worth no package to build with, and every build has
// the probes.
#pragma once

#include <cstdint>

#if defined(__x86_64__) || defined(__aarch64__)

// As a string of the assembler's: each argument "8@WHERE", where the compiler chooses a register, memory or a constant.
#define SLUICE_USDT_ARGUMENTS_1 "8@%[a1]"
#define SLUICE_USDT_ARGUMENTS_2 SLUICE_USDT_ARGUMENTS_1 " 8@%[a2]"
#define SLUICE_USDT_ARGUMENTS_3 SLUICE_USDT_ARGUMENTS_2 " 8@%[a3]"
#define SLUICE_USDT_ARGUMENTS_4 SLUICE_USDT_ARGUMENTS_3 " 8@%[a4]"
#define SLUICE_USDT_ARGUMENTS_5 SLUICE_USDT_ARGUMENTS_4 " 8@%[a5]"
#define SLUICE_USDT_ARGUMENTS_6 SLUICE_USDT_ARGUMENTS_5 " 8@%[a6]"
#define SLUICE_USDT_ARGUMENTS_7 SLUICE_USDT_ARGUMENTS_6 " 8@%[a7]"

// `counter` is a symbol of the assembler's, with an offset where there is one. The section .stapsdt.base tells tools by
// how much a prelinked file was moved; its one byte exists once a library.
#define SLUICE_USDT(provider, name, counter, arguments, ...)                  \
  asm volatile(                                                               \
      "990: nop\n"                                                            \
      ".pushsection .note.stapsdt,\"\",\"note\"\n"                            \
      ".balign 4\n"                                                           \
      ".4byte 992f-991f, 994f-993f, 3\n"                                      \
      "991: .asciz \"stapsdt\"\n"                                             \
      "992: .balign 4\n"                                                      \
      "993: .8byte 990b\n"                                                    \
      ".8byte _.stapsdt.base\n"                                               \
      ".8byte " counter                                                       \
      "\n"                                                                    \
      ".asciz \"" provider                                                    \
      "\"\n"                                                                  \
      ".asciz \"" name                                                        \
      "\"\n"                                                                  \
      ".asciz \"" arguments                                                   \
      "\"\n"                                                                  \
      "994: .balign 4\n"                                                      \
      ".popsection\n"                                                         \
      ".ifndef _.stapsdt.base\n"                                              \
      ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n" \
      ".weak _.stapsdt.base\n"                                                \
      ".hidden _.stapsdt.base\n"                                              \
      "_.stapsdt.base: .space 1\n"                                            \
      ".size _.stapsdt.base, 1\n"                                             \
      ".popsection\n"                                                         \
      ".endif\n" ::__VA_ARGS__)

#else

#define SLUICE_USDT(provider, name, counter, arguments, ...) static_cast<void>(0)

#endif
