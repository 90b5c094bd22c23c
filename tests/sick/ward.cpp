// SPDX-License-Identifier: Apache-2.0
#include "sick/ward.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <new>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "support/deadline.h"

namespace sluice::sick {
namespace {

[[noreturn]] void fail(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

void wait_a_moment() {
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

std::string server_program() {
  return (std::filesystem::canonical("/proc/self/exe").parent_path() / "sick_server").string();
}

}  // namespace

std::string Ward::why_not() {
  if (geteuid() != 0) return "mounting needs root";
  const support::Fd device(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
  if (!device.valid()) return "/dev/fuse cannot be opened";
  // A container may have the device and not the right.
  try {
    const Ward trial;
  } catch (const std::exception& refusal) {
    return refusal.what();
  }
  return {};
}

Ward::Ward() {
  std::array<char, 32> name{"/tmp/sluice-sick-XXXXXX"};
  if (mkdtemp(name.data()) == nullptr) fail("no folder for a sick file system");
  folder_ = name.data();
  // Inherited by the server alone: no other process may keep the connection alive when it dies.
  const support::Fd device(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
  const support::Fd memory(memfd_create("sluice-sick", MFD_CLOEXEC));
  if (!device.valid() || !memory.valid() || ftruncate(memory.get(), sizeof(Condition)) != 0)
    fail("no sick file system");
  void* const mapped = mmap(nullptr, sizeof(Condition), PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (mapped == MAP_FAILED) fail("no memory to share with the server");
  condition_ = new (mapped) Condition;
  const std::string options =
      "fd=" + std::to_string(device.get()) + ",rootmode=40000,user_id=0,group_id=0,max_read=1048576";
  if (mount("sick", folder_.c_str(), "fuse", MS_NOSUID | MS_NODEV, options.c_str()) != 0) {
    const int error = errno;
    rmdir(folder_.c_str());
    munmap(condition_, sizeof(Condition));
    errno = error;
    fail("FUSE cannot be mounted");
  }
  constexpr int memory_there = 200;
  constexpr int device_there = 201;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, memory.get(), memory_there);
  posix_spawn_file_actions_adddup2(&actions, device.get(), device_there);
  const std::string program = server_program();
  std::string first = std::to_string(memory_there);
  std::string second = std::to_string(device_there);
  const std::array<char*, 4> arguments{const_cast<char*>(program.c_str()), first.data(), second.data(), nullptr};
  const int error = posix_spawn(&server_, program.c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    umount2(folder_.c_str(), MNT_DETACH);
    throw std::system_error(error, std::generic_category(), "cannot start " + program);
  }
  const support::Deadline deadline;
  while (condition_->serves == 0) {
    if (deadline.has_passed()) throw std::runtime_error(program + " does not begin");
    wait_a_moment();
  }
}

void Ward::end_server() {
  if (server_ < 0) return;
  kill(server_, SIGKILL);
  waitpid(server_, nullptr, 0);
  server_ = -1;
}

Ward::~Ward() {
  end_server();
  umount2(folder_.c_str(), MNT_DETACH);
  rmdir(folder_.c_str());
  munmap(condition_, sizeof(Condition));
}

support::Fd Ward::open(std::size_t file, int flags) const {
  const std::string path = folder_ + "/" + std::to_string(file);
  support::Fd fd(::open(path.c_str(), flags | O_CLOEXEC));
  if (!fd.valid()) fail("cannot open " + path);
  return fd;
}

bool Ward::withholds(std::uint32_t count) const {
  const support::Deadline deadline;
  while (condition_->withheld < count) {
    if (deadline.has_passed()) return false;
    wait_a_moment();
  }
  return true;
}

}  // namespace sluice::sick
