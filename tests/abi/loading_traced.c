/* SPDX-License-Identifier: Apache-2.0 */
/* Watches every system call that loading the library makes, as a debugger would. A load may read files and map what it
 * read; it must not create or change a file, start a thread or a program, write anything, or ask for memory of 1 MiB
 * and more. This sees what comparing before and after cannot: what was undone again.
 *
 *     loading_traced LIBRARY
 *
 * Ends with 77 where the system allows no tracing.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "process.h"

enum { largest_allocation = 1 << 20 };

/* Descriptors that no process has: closing them marks where the load begins and ends. */
enum { begin_mark = -1000, end_mark = -1001 };

/* What a load must not do at all, whatever its arguments. */
struct Forbidden {
  long number;
  const char* name;
};
static const struct Forbidden forbidden[] = {
#define FORBIDDEN(name) \
  { SYS_##name, #name }
    FORBIDDEN(bind),          FORBIDDEN(clone),         FORBIDDEN(clone3),         FORBIDDEN(connect),
    FORBIDDEN(epoll_create1), FORBIDDEN(eventfd2),      FORBIDDEN(execve),         FORBIDDEN(fallocate),
    FORBIDDEN(ftruncate),     FORBIDDEN(inotify_init1), FORBIDDEN(io_setup),       FORBIDDEN(io_uring_setup),
    FORBIDDEN(ioctl),         FORBIDDEN(kill),          FORBIDDEN(linkat),         FORBIDDEN(memfd_create),
    FORBIDDEN(mkdirat),       FORBIDDEN(mknodat),       FORBIDDEN(mlock),          FORBIDDEN(mlockall),
    FORBIDDEN(pipe2),         FORBIDDEN(pwrite64),      FORBIDDEN(renameat2),      FORBIDDEN(rt_sigaction),
    FORBIDDEN(sendmsg),       FORBIDDEN(sendto),        FORBIDDEN(setsid),         FORBIDDEN(socket),
    FORBIDDEN(symlinkat),     FORBIDDEN(timer_create),  FORBIDDEN(timerfd_create), FORBIDDEN(unlinkat),
    FORBIDDEN(unshare),       FORBIDDEN(write),         FORBIDDEN(writev),
#ifdef SYS_mkdir /* architectures with a history */
    FORBIDDEN(creat),         FORBIDDEN(fork),          FORBIDDEN(link),           FORBIDDEN(mkdir),
    FORBIDDEN(mknod),         FORBIDDEN(pipe),          FORBIDDEN(rename),         FORBIDDEN(renameat),
    FORBIDDEN(symlink),       FORBIDDEN(unlink),        FORBIDDEN(vfork),
#endif
};

static int wrong = 0;
static int calls = 0;
static uint64_t heap_end = 0;

static void complain(const char* what, const char* detail) {
  printf("wrong: the load calls %s %s\n", what, detail);
  ++wrong;
}

static const char* path_in(pid_t child, uint64_t address, char* path, size_t room) {
  const struct iovec here = {path, room - 1};
  const struct iovec there = {(void*)(uintptr_t)address, room - 1};
  const ssize_t length = process_vm_readv(child, &here, 1, &there, 1, 0);
  path[length > 0 ? length : 0] = '\0';
  return path;
}

static void inspect_open(pid_t child, uint64_t path_address, uint64_t flags) {
  char path[256];
  if ((flags & O_ACCMODE) == O_RDONLY && (flags & (O_CREAT | O_TRUNC)) == 0) return;
  complain("open for writing:", path_in(child, path_address, path, sizeof path));
}

/* Fixed anonymous mappings are the loader's: they are the library's zero-initialised data, no allocation. */
static void inspect_mmap(uint64_t length, uint64_t flags) {
  char detail[64];
  if ((flags & MAP_ANONYMOUS) == 0 || (flags & MAP_FIXED) != 0 || length <= largest_allocation) return;
  snprintf(detail, sizeof detail, "of %llu bytes", (unsigned long long)length);
  complain("mmap", detail);
}

static void inspect_brk(uint64_t end) {
  char detail[64];
  if (end == 0) return;
  if (heap_end == 0) heap_end = end;
  if (end <= heap_end + largest_allocation) return;
  snprintf(detail, sizeof detail, "for %llu bytes", (unsigned long long)(end - heap_end));
  complain("brk", detail);
}

static void inspect(pid_t child, uint64_t number, const uint64_t* arguments) {
  ++calls;
  for (size_t i = 0; i < sizeof forbidden / sizeof forbidden[0]; ++i) {
    if (number == (uint64_t)forbidden[i].number) complain(forbidden[i].name, "");
  }
  if (number == SYS_openat) inspect_open(child, arguments[1], arguments[2]);
#ifdef SYS_open
  if (number == SYS_open) inspect_open(child, arguments[0], arguments[1]);
#endif
  if (number == SYS_mmap) inspect_mmap(arguments[1], arguments[3]);
  if (number == SYS_brk) inspect_brk(arguments[0]);
}

/* The traced process: waits for the tracer, then loads between the marks. */
static int child_main(const char* library) {
  if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) return SKIPPED;
  raise(SIGSTOP);
  close(begin_mark);
  void* handle = load(library);
  close(end_mark);
  return handle != NULL ? 0 : 1;
}

/* A call that the child is about to make. Returns false when the system does not say which. */
static bool enter_call(pid_t child, bool* loading, int* loads) {
  struct __ptrace_syscall_info info;
  if (ptrace(PTRACE_GET_SYSCALL_INFO, child, (void*)sizeof info, &info) <= 0) return false;
  if (info.op != PTRACE_SYSCALL_INFO_ENTRY) return true;
  const bool closes = info.entry.nr == SYS_close;
  if (closes && (int)info.entry.args[0] == end_mark) *loading = false;
  if (*loading) inspect(child, info.entry.nr, info.entry.args);
  if (closes && (int)info.entry.args[0] == begin_mark) {
    *loading = true;
    ++*loads;
  }
  return true;
}

/* Follows the child to its end. Returns its exit status, SKIPPED, or -1 when it died of a signal. */
static int follow(pid_t child) {
  int status = 0;
  bool loading = false;
  int loads = 0;
  while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
    const int stop = WSTOPSIG(status);
    int signal_to_deliver = 0;
    if (stop == (SIGTRAP | 0x80)) {
      if (!enter_call(child, &loading, &loads)) {
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
        return SKIPPED;
      }
    } else if (stop == SIGSTOP) {
      ptrace(PTRACE_SETOPTIONS, child, NULL, (void*)(PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL));
    } else {
      signal_to_deliver = stop;
    }
    ptrace(PTRACE_SYSCALL, child, NULL, (void*)(intptr_t)signal_to_deliver);
  }
  if (!WIFEXITED(status)) return -1;
  if (WEXITSTATUS(status) == 0 && (loads != 1 || calls == 0)) {
    printf("wrong: the load was not seen\n");
    return -1;
  }
  return WEXITSTATUS(status);
}

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: %s LIBRARY\n", argv[0]);
    return 2;
  }
  fflush(NULL);
  const pid_t child = fork();
  if (child < 0) {
    perror("fork");
    return 2;
  }
  if (child == 0) _exit(child_main(argv[1]));

  const int status = follow(child);
  if (status == SKIPPED) {
    printf("skipped: this system allows no tracing\n");
    return SKIPPED;
  }
  printf("%d system calls while loading, %d of them wrong\n", calls, wrong);
  return status == 0 && wrong == 0 ? 0 : 1;
}
