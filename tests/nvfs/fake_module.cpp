// SPDX-License-Identifier: Apache-2.0
// Nodes, mappings and the order in which arguments are refused. Fields are found by their offsets, not by the library's
// structures: a mistake there must not hide here.
#include "nvfs/fake_module.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "nvfs/fake_job.h"

namespace sluice::nvfs_test {

namespace {

std::atomic<FakeModule*> installed{nullptr};

constexpr std::uint64_t kibibyte = 1024;
constexpr std::uint64_t block = 4 * kibibyte;
constexpr std::uint64_t gpu_page = 64 * kibibyte;
constexpr std::size_t argument_bytes = 104;

int file_with(const std::string& content) {
  const int fd = static_cast<int>(syscall(SYS_memfd_create, "procfs", MFD_CLOEXEC));
  if (fd < 0) return fd;
  std::size_t done = 0;
  while (done < content.size()) {
    const ssize_t put = write(fd, content.data() + done, content.size() - done);
    if (put <= 0) break;
    done += static_cast<std::size_t>(put);
  }
  lseek(fd, 0, SEEK_SET);
  return fd;
}

std::string text_of(int fd) {
  std::string text;
  std::array<char, 4096> piece{};
  for (ssize_t got = 0; (got = read(fd, piece.data(), piece.size())) > 0;) {
    text.append(piece.data(), static_cast<std::size_t>(got));
  }
  return text;
}

// Whether the process has a mapping of device memory that holds all of this.
bool is_device_memory(std::uint64_t begin, std::uint64_t length) {
  const int fd = static_cast<int>(syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC));
  const std::string maps = text_of(fd);
  syscall(SYS_close, fd);
  for (std::size_t at = 0; at < maps.size();) {
    const std::size_t end = std::min(maps.find('\n', at), maps.size());
    const std::string line = maps.substr(at, end - at);
    std::uint64_t from = 0;
    std::uint64_t to = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx", &from, &to) == 2 && from <= begin && begin + length <= to) {
      return line.find(FakeModule::device_memory) != std::string::npos;
    }
    at = end + 1;
  }
  return false;
}

}  // namespace

FakeModule::FakeModule(Machine machine) : machine_(std::move(machine)) {
  constexpr int workers = 4;
  for (int i = 0; i < workers; ++i) workers_.emplace_back([this] { work(); });
  installed = this;
}

FakeModule::~FakeModule() {
  installed = nullptr;
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    holding_ = false;
  }
  changed_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

FakeModule* FakeModule::present() {
  return installed.load();
}

void FakeModule::set_hooked(bool hooked) {
  const std::lock_guard lock(mutex_);
  hooked_ = hooked;
}

void FakeModule::plan(Fault fault, std::size_t skip, std::size_t count) {
  const std::lock_guard lock(mutex_);
  fault_ = fault;
  fault_skip_ = skip;
  fault_count_ = count;
}

void FakeModule::refuse_maps(int error, std::size_t count) {
  const std::lock_guard lock(mutex_);
  map_error_ = error;
  map_refusals_ = count;
}

void FakeModule::set_bar(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  bar_ = bytes;
}

void FakeModule::end_at_once(bool at_once) {
  const std::lock_guard lock(mutex_);
  ends_at_once_ = at_once;
}

void FakeModule::hold() {
  const std::lock_guard lock(mutex_);
  holding_ = true;
}

void FakeModule::release() {
  const std::lock_guard lock(mutex_);
  holding_ = false;
  changed_.notify_all();
}

void FakeModule::wait_until_held(std::size_t calls) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return held_ >= calls; });
}

FakeModule::Counts FakeModule::counts() {
  const std::lock_guard lock(mutex_);
  Counts counts = counts_;
  counts.nodes_open = nodes_.size();
  counts.live = static_cast<std::size_t>(
      std::count_if(shadows_.begin(), shadows_.end(), [](const auto& one) { return one.second->is_mapped; }));
  return counts;
}

bool FakeModule::owns(int fd) {
  const std::lock_guard lock(mutex_);
  return nodes_.count(fd) != 0;
}

int FakeModule::open_special(const char* path, bool& is_ours) {
  const std::string_view name(path);
  constexpr std::string_view proc = "/proc/driver/nvidia-fs/";
  constexpr std::string_view node = "/dev/nvidia-fs";
  const std::lock_guard lock(mutex_);
  is_ours = name.starts_with(proc) || name.starts_with(node) || name == "/proc/kallsyms";
  if (!is_ours) return -1;
  errno = ENOENT;
  if (name == "/proc/kallsyms") return file_with(machine_.symbols);
  if (!machine_.loaded) return -1;
  if (name == std::string(proc) + "version") return file_with("version: " + machine_.version + "\n");
  if (name == std::string(proc) + "devcount") return file_with(std::to_string(machine_.nodes) + "\n");
  // Hooks are looked up as a node is opened, and dropped with the last.
  if (name == std::string(proc) + "modules") return file_with(nodes_.empty() ? "wekafsio: 1\n" : machine_.modules);
  if (!name.starts_with(node)) return -1;
  if (std::atoi(name.substr(node.size()).data()) >= machine_.nodes) return -1;
  if (machine_.open_error != 0) {
    errno = machine_.open_error;
    return -1;
  }
  const int fd = static_cast<int>(syscall(SYS_memfd_create, "nvidia-fs", MFD_CLOEXEC));
  if (fd >= 0) nodes_[fd] = true;
  return fd;
}

void FakeModule::closed(int fd) {
  const std::lock_guard lock(mutex_);
  nodes_.erase(fd);
}

// At most 16 MiB; above 64 KiB whole pages of the device.
void* FakeModule::map_shadow(std::size_t length, int protection, int flags, std::int64_t offset) {
  const bool good_length = length > 0 && length <= 16 * kibibyte * kibibyte && length % block == 0 &&
                           (length <= gpu_page || length % gpu_page == 0);
  if (!good_length || (flags & MAP_SHARED) == 0 || protection != (PROT_READ | PROT_WRITE) || offset != 0) {
    errno = EINVAL;
    return MAP_FAILED;
  }
  const long answer = syscall(SYS_mmap, nullptr, length, protection, MAP_SHARED | MAP_ANONYMOUS, -1, 0L);
  if (answer == -1) return MAP_FAILED;
  auto shadow = std::make_shared<Shadow>();
  shadow->address = static_cast<std::uint64_t>(answer);
  shadow->length = length;
  const std::lock_guard lock(mutex_);
  shadows_[shadow->address] = shadow;
  return reinterpret_cast<void*>(answer);
}

// Releases pages and mapping, behind the call that is under way.
bool FakeModule::unmap_shadow(void* address, std::size_t length) {
  std::unique_lock lock(mutex_);
  const auto place = shadows_.find(reinterpret_cast<std::uint64_t>(address));
  if (place == shadows_.end() || place->second->length != length) return false;
  const ShadowRef shadow = place->second;
  changed_.wait(lock, [&] { return !shadow->in_use; });
  if (shadow->is_mapped) ++counts_.unmaps;
  shadows_.erase(shadow->address);
  syscall(SYS_munmap, address, length);
  return true;
}

std::uint64_t FakeModule::pinned() const {
  std::uint64_t sum = 0;
  for (const auto& [address, shadow] : shadows_) {
    if (shadow->is_mapped && !shadow->is_dead) sum += shadow->gpu_length;
  }
  return sum;
}

std::int64_t FakeModule::map(void* argument) {
  const auto bytes = static_cast<std::uint64_t>(field<std::int64_t>(argument, 0));
  const auto gpu = field<std::uint64_t>(argument, 24);
  const auto fence = field<std::uint64_t>(argument, 32);
  const std::uint64_t shadow_length = field<std::uint32_t>(argument, 40) * block;
  const std::lock_guard lock(mutex_);
  const auto place = shadows_.find(field<std::uint64_t>(argument, 16));
  if (place == shadows_.end() || place->second->is_mapped || place->second->length != shadow_length) return -EINVAL;
  if (fence == 0 || fence % block != 0) return -EINVAL;
  const std::uint64_t into_page = gpu % gpu_page;
  if (bytes == 0 || (bytes < gpu_page && shadow_length < into_page + bytes)) return -EINVAL;
  // Whole pages of the device are pinned.
  if (!is_device_memory(gpu, bytes)) return -EINVAL;
  if (map_refusals_ > 0) {
    --map_refusals_;
    return -map_error_;
  }
  if (pinned() + bytes > bar_) return -ENOMEM;
  Shadow& shadow = *place->second;
  shadow.is_mapped = true;
  shadow.gpu = gpu;
  shadow.gpu_length = bytes;
  shadow.fence = reinterpret_cast<std::byte*>(fence);
  put<std::uint64_t>(shadow.fence, 24, 0xabc0cba1abc2cba3);
  put<std::uint32_t>(shadow.fence, 32, 1);
  ++counts_.maps;
  return 0;
}

int FakeModule::call(unsigned long number, void* argument) {
  std::array<std::byte, argument_bytes> copied{};
  std::memcpy(copied.data(), argument, argument_bytes);
  std::int64_t answer = 0;
  switch (number) {
    case 0x40047401:  // remove: does nothing
      return 0;
    case 0x40047402:
      answer = begin_io(true, copied.data());
      break;
    case 0x40047403:
      answer = map(copied.data());
      break;
    case 0x40047404:
      answer = begin_io(false, copied.data());
      break;
    default:
      errno = ENOTTY;
      return -1;
  }
  const bool is_map = number == 0x40047403;
  if (!is_map || answer < 0) put<std::int64_t>(argument, 32, answer);
  if (answer >= 0) return 0;
  errno = EPERM;
  return -1;
}

void FakeModule::free_device_memory(std::uint64_t begin, std::uint64_t length) {
  std::unique_lock lock(mutex_);
  std::vector<ShadowRef> all;
  for (const auto& [address, shadow] : shadows_) all.push_back(shadow);
  for (const ShadowRef& shadow : all) {
    if (!shadow->is_mapped || shadow->gpu >= begin + length || shadow->gpu + shadow->gpu_length <= begin) continue;
    changed_.wait(lock, [&one = *shadow] { return !one.in_use; });
    shadow->is_dead = true;
    put<std::int32_t>(shadow->fence, 16, 2);
  }
}

}  // namespace sluice::nvfs_test
