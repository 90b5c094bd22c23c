// SPDX-License-Identifier: Apache-2.0
#include "tests/pool.h"

#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "core/mounts.h"
#include "core/process.h"
#include "facts/read.h"

namespace sluice::csi {
namespace {

void must_run(const std::vector<std::string>& words) {
  const ProgramResult run = run_program(words, std::chrono::seconds(60));
  if (run.status != 0) throw std::runtime_error(words.front() + ": " + run.output);
}

}  // namespace

std::string why_no_pool() {
  if (geteuid() != 0) return "mounting needs root";
  const std::string path = std::string(getenv("PATH") == nullptr ? "" : getenv("PATH")) + ":/usr/sbin:/sbin";
  setenv("PATH", path.c_str(), 1);
  if (run_program({"mkfs.xfs", "-V"}, std::chrono::seconds(10)).status != 0)
    return "mkfs.xfs is not installed (xfsprogs)";
  if (!facts::exists("/dev/loop-control")) return "this machine has no loop devices";
  if (facts::read_text("/proc/filesystems").value_or("").find("\txfs\n") == std::string::npos) {
    run_program({"modprobe", "xfs"}, std::chrono::seconds(10));
    if (facts::read_text("/proc/filesystems").value_or("").find("\txfs\n") == std::string::npos)
      return "this kernel has no xfs";
  }
  return {};
}

void enter_own_mounts() {
  static const bool done = [] {
    if (unshare(CLONE_NEWNS) != 0 || mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
      throw std::runtime_error("no mount namespace of its own can be had");
    }
    return true;
  }();
  static_cast<void>(done);
}

LoopPool::LoopPool(std::int64_t bytes) {
  enter_own_mounts();
  std::string name = "/tmp/sluice-csi-XXXXXX";
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no folder can be made in /tmp");
  folder_ = name;
  // Memory below: what fsync costs on this machine's drive is not what is tested.
  if (mount("tmpfs", folder_.c_str(), "tmpfs", 0, "size=8g") != 0) throw std::runtime_error("no tmpfs can be mounted");
  const std::string image = at("image");
  std::ofstream(image).close();
  std::filesystem::resize_file(image, static_cast<std::uintmax_t>(bytes));
  must_run({"mkfs.xfs", "-q", "-K", image});
  std::filesystem::create_directory(path());
  // With quotas where the kernel has them.
  if (run_program({"mount", "-o", "loop,prjquota", image, path()}, std::chrono::seconds(60)).status != 0) {
    must_run({"mount", "-o", "loop", image, path()});
  }
}

LoopPool::~LoopPool() {
  std::vector<facts::Mount> mounts = all_mounts();
  for (auto each = mounts.rbegin(); each != mounts.rend(); ++each) {
    if (each->point.starts_with(folder_)) umount2(each->point.c_str(), MNT_DETACH);
  }
  rmdir(folder_.c_str());
}

void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file) throw std::runtime_error("cannot write " + path);
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

bool is_mounted(const std::string& path) {
  return mount_at(all_mounts(), path).has_value();
}

int count_mounts_below(const std::string& path) {
  int count = 0;
  for (const facts::Mount& each : all_mounts()) count += each.point.starts_with(path + "/") ? 1 : 0;
  return count;
}

}  // namespace sluice::csi
