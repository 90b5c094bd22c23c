// SPDX-License-Identifier: Apache-2.0
// in_environment [LIMIT...] -- PROGRAM ARGUMENT...: runs a program as containers and clusters run it.
//   without_udev           /run is an empty directory, of this program alone
//   without_locked_memory  RLIMIT_MEMLOCK is 0, and nothing exempts the program from it
//   in_user_namespace      it is root in a namespace of its own, as `unshare -Ur` makes it
//   as_nobody              it is an ordinary user
//   without_io_uring       a seccomp filter answers EPERM to io_uring's calls, as Docker's does
//   under_an_old_filter    and to what such filters of some years ago had not heard of, or gave to root alone
//   with_reachable_memory  the soft GPU's memory is a file that I/O can reach: the direct path is open
// Status 77, with the reason, where the machine refuses to make it so.
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr int kSkipped = 77;

[[noreturn]] void skip(const char* what) {
  std::printf("skipped: %s: %s\n", what, std::strerror(errno));
  std::exit(kSkipped);
}

void must(bool good, const char* what) {
  if (!good) skip(what);
}

void write_file(const char* path, const std::string& text) {
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  must(fd >= 0 && write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()), path);
  close(fd);
}

void without_udev() {
  if (access("/run/udev", F_OK) != 0) return;
  must(unshare(CLONE_NEWNS) == 0, "a mount namespace");
  must(mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0, "private mounts");
  must(mount("none", "/run", "tmpfs", 0, "size=4k") == 0, "an empty /run");
}

void without_locked_memory() {
  const rlimit nothing{0, 0};
  must(setrlimit(RLIMIT_MEMLOCK, &nothing) == 0, "RLIMIT_MEMLOCK");
  // Root is exempt by this capability; what it starts does not get it.
  if (geteuid() == 0) must(prctl(PR_CAPBSET_DROP, CAP_IPC_LOCK) == 0, "giving CAP_IPC_LOCK up");
}

void in_user_namespace() {
  const std::string user = std::to_string(geteuid());
  const std::string group = std::to_string(getegid());
  must(unshare(CLONE_NEWUSER) == 0, "a user namespace");
  write_file("/proc/self/setgroups", "deny");
  write_file("/proc/self/uid_map", "0 " + user + " 1");
  write_file("/proc/self/gid_map", "0 " + group + " 1");
}

// Answers EPERM to these calls from here on.
void refuse(std::initializer_list<unsigned> calls) {
  constexpr auto nr = static_cast<unsigned>(offsetof(seccomp_data, nr));
  constexpr unsigned refused = SECCOMP_RET_ERRNO | EPERM;
  std::vector<sock_filter> program{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, nr)};
  for (const unsigned call : calls) {
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1));
    program.push_back(BPF_STMT(BPF_RET | BPF_K, refused));
  }
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "PR_SET_NO_NEW_PRIVS");
  must(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0, "a seccomp filter");
}

void without_io_uring() {
  refuse({SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register});
}

// Younger than the C library's headers may be.
constexpr unsigned kCachestat = 451;
constexpr unsigned kStatmount = 457;
constexpr unsigned kListmount = 458;

void under_an_old_filter() {
  refuse({SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register, SYS_unshare, SYS_setns, SYS_userfaultfd,
          SYS_process_vm_readv, SYS_process_vm_writev, SYS_close_range, SYS_openat2, SYS_pidfd_getfd, kCachestat,
          kStatmount, kListmount});
}

void as_nobody() {
  constexpr unsigned nobody = 65534;
  must(setgroups(0, nullptr) == 0 && setgid(nobody) == 0 && setuid(nobody) == 0, "becoming an ordinary user");
}

// The file stays open in the program, and is nowhere else.
void with_reachable_memory() {
  const int file = memfd_create("reachable", 0);
  must(file >= 0, "a memory file");
  setenv("SLUICE_SOFTGPU_BACKING", ("/proc/self/fd/" + std::to_string(file)).c_str(), 1);
  setenv("CUFILE_USE_PCIP2PDMA", "true", 1);
}

struct Limit {
  std::string_view name;
  void (*impose)();
};

// In the order in which they are imposed: each leaves the rights that the next one needs.
constexpr std::array<Limit, 7> kLimits{{{"with_reachable_memory", with_reachable_memory},
                                        {"without_udev", without_udev},
                                        {"without_locked_memory", without_locked_memory},
                                        {"in_user_namespace", in_user_namespace},
                                        {"as_nobody", as_nobody},
                                        {"without_io_uring", without_io_uring},
                                        {"under_an_old_filter", under_an_old_filter}}};

}  // namespace

int main(int argc, char** argv) {
  int end = 1;
  while (end < argc && std::strcmp(argv[end], "--") != 0) ++end;
  int known = 0;
  for (const Limit& limit : kLimits) {
    for (int i = 1; i < end; ++i) {
      if (limit.name != argv[i]) continue;
      limit.impose();
      ++known;
    }
  }
  if (known != end - 1 || end + 1 >= argc) {
    std::fprintf(stderr, "usage: %s [LIMIT...] -- PROGRAM ARGUMENT...\n", argv[0]);
    return 2;
  }
  execv(argv[end + 1], argv + end + 1);
  std::fprintf(stderr, "%s: %s\n", argv[end + 1], std::strerror(errno));
  return 127;
}
