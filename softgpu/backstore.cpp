// SPDX-License-Identifier: Apache-2.0
// Mapping what a device's memory consists of.
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <string>
#include <string_view>

#include "address_space.h"
#include "backed_file.h"
#include "refusal.h"

namespace sluice::softgpu {

namespace {

struct Stretch {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

// How many bytes a provider of peer-to-peer memory has left: it says so in a file beside `allocate`. The size of
// `allocate` itself means nothing.
std::uint64_t left_at_provider(const std::string& path) {
  constexpr std::string_view allocate = "/allocate";
  if (!path.ends_with(allocate)) return ~std::uint64_t{0};
  const std::string beside = path.substr(0, path.size() - allocate.size()) + "/available";
  const Descriptor file(::open(beside.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 32> text{};
  const ssize_t length = file.valid() ? ::read(file.get(), text.data(), text.size()) : -1;
  std::uint64_t left = ~std::uint64_t{0};
  if (length > 0) std::from_chars(text.data(), text.data() + length, left);
  return left;
}

bool is_device_mapping(int file) {
  struct statfs system {};
  struct stat status {};
  require(::fstatfs(file, &system) == 0 && ::fstat(file, &status) == 0, cuda::error_operating_system);
  return system.f_type == SYSFS_MAGIC || S_ISCHR(status.st_mode);
}

std::uint64_t size_of(int file) {
  struct stat status {};
  require(::fstat(file, &status) == 0, cuda::error_operating_system);
  return static_cast<std::uint64_t>(status.st_size);
}

std::uint64_t bytes_behind(int file, const Backing& backing) {
  const std::uint64_t there = size_of(file);
  return there > backing.offset ? there - backing.offset : 0;
}

Stretch stretch_of_device(int file, const Backing& backing, std::uint64_t most) {
  const std::uint64_t behind = bytes_behind(file, backing);
  std::uint64_t size = backing.length;
  if (size == 0) size = std::min({most, left_at_provider(backing.path), behind != 0 ? behind : most});
  return {backing.offset, size / device_page * device_page};
}

// Held by the open file: until the process has ended, and all that it has forked.
bool lock(int file, const Stretch& stretch) {
  struct flock wanted {};
  wanted.l_type = F_WRLCK;
  wanted.l_whence = SEEK_SET;
  wanted.l_start = static_cast<off_t>(stretch.offset);
  wanted.l_len = static_cast<off_t>(stretch.size);
  return ::fcntl(file, F_OFD_SETLK, &wanted) == 0;
}

// Processes that run at the same time have devices of their own, as on any machine: each takes the first range that
// no other process holds. A file that ends before is made longer.
Stretch stretch_of_file(int file, const Backing& backing, std::uint64_t most) {
  constexpr std::uint64_t most_processes = 4096;
  // No other process looks at the size meanwhile.
  while (::flock(file, LOCK_EX) != 0) require(errno == EINTR, cuda::error_operating_system);
  const std::uint64_t behind = bytes_behind(file, backing);
  std::uint64_t size = backing.length;
  if (size == 0) size = behind >= device_page ? std::min(behind, most) : most;
  Stretch stretch{backing.offset, size / device_page * device_page};
  require(stretch.size != 0, cuda::error_out_of_memory);
  std::uint64_t number = 0;
  while (number < most_processes && !lock(file, stretch)) {
    require(errno == EAGAIN || errno == EACCES, cuda::error_operating_system);
    stretch.offset += stretch.size;
    ++number;
  }
  require(number < most_processes, cuda::error_out_of_memory);
  const std::uint64_t end = stretch.offset + stretch.size;
  if (size_of(file) < end) {
    require(end <= largest_file(), cuda::error_out_of_memory);
    require(::ftruncate(file, static_cast<off_t>(end)) == 0, cuda::error_operating_system);
  }
  ::flock(file, LOCK_UN);
  return stretch;
}

// A program that frees so much soon takes as much again. Larger memory is often asked for to be had, and hardly used.
constexpr std::uint64_t most_kept = 64U << 20U;

}  // namespace

// From a multiple of 64 KiB on, as a device's pages lie: modules of the kernel that pin it go by those.
std::byte* map_shared(int file, std::uint64_t offset, std::uint64_t size) {
  constexpr std::uint64_t page = 65536;
  void* const room = ::mmap(nullptr, size + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  require(room != MAP_FAILED, cuda::error_out_of_memory);
  auto* const first = static_cast<std::byte*>(room);
  const std::uint64_t before = (page - reinterpret_cast<std::uintptr_t>(room) % page) % page;
  void* const mapped =
      ::mmap(first + before, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, static_cast<off_t>(offset));
  const int error = errno;
  if (mapped == MAP_FAILED) ::munmap(room, size + page);
  require(mapped != MAP_FAILED, error == ENOMEM ? cuda::error_out_of_memory : cuda::error_operating_system);
  if (before > 0) ::munmap(first, before);
  ::munmap(first + before + size, page - before);
  // A forked child must not share what the parent's device holds, and a core dump need not contain it.
  ::madvise(mapped, size, MADV_DONTFORK);
  ::madvise(mapped, size, MADV_DONTDUMP);
  return static_cast<std::byte*>(mapped);
}

// A limit leaves a device less memory; it is no reason to have no device.
Backstore::Backstore(int ordinal, std::uint64_t size)
    : size_(std::min(size, largest_file() / device_page * device_page)) {
  require(size_ != 0, cuda::error_out_of_memory);
  const std::string name = "sluice-softgpu-" + std::to_string(ordinal);
  file_ = ::memfd_create(name.c_str(), MFD_CLOEXEC);
  require(file_ >= 0 && ::ftruncate(file_, static_cast<off_t>(size_)) == 0, cuda::error_operating_system);
  bytes_ = map_shared(file_, 0, size_);
}

Backstore::Backstore(const Backing& backing, std::uint64_t most) : given_(true) {
  Descriptor file(::open(backing.path.c_str(), O_RDWR | O_CLOEXEC));
  require(file.valid(), cuda::error_operating_system);
  const bool is_device = is_device_mapping(file.get());
  const Stretch stretch =
      is_device ? stretch_of_device(file.get(), backing, most) : stretch_of_file(file.get(), backing, most);
  require(stretch.size != 0, cuda::error_out_of_memory);
  offset_ = stretch.offset;
  size_ = stretch.size;
  bytes_ = map_shared(file.get(), stretch.offset, size_);
  // The mapping of a device keeps what it needs; memory from a provider goes back to it when the process ends.
  if (!is_device) file_ = file.release();
}

Backstore::~Backstore() {
  ::munmap(bytes_, size_);
  if (file_ >= 0) ::close(file_);
}

std::byte* Backstore::map_again(std::uint64_t first, std::uint64_t size) const {
  require(file_ >= 0, cuda::error_operating_system);
  return map_shared(file_, offset_ + first, size);
}

void Backstore::map_at(void* place, std::uint64_t first, std::uint64_t size) const {
  require(file_ >= 0, cuda::error_operating_system);
  void* const mapped =
      ::mmap(place, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file_, static_cast<off_t>(offset_ + first));
  require(mapped != MAP_FAILED, cuda::error_out_of_memory);
  ::madvise(mapped, size, MADV_DONTFORK);
  ::madvise(mapped, size, MADV_DONTDUMP);
}

int Backstore::open_at(std::uint64_t first) const {
  require(file_ >= 0, cuda::error_not_supported);
  // Opened anew, since copies of a descriptor share where they stand.
  const std::string path = "/proc/self/fd/" + std::to_string(file_);
  Descriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  const auto place = static_cast<off_t>(offset_ + first);
  require(file.valid() && ::lseek(file.get(), place, SEEK_SET) == place, cuda::error_operating_system);
  return file.release();
}

void Backstore::prepare(std::uint64_t first, std::uint64_t size) const noexcept {
  if (is_given() || size > most_kept) return;
  const std::uint64_t before = first % host_page_size();
  ::madvise(bytes_ + first - before, before + size, MADV_POPULATE_WRITE);  // older kernels refuse: one by one, then
}

void Backstore::forget(std::uint64_t first, std::uint64_t last) const noexcept {
  if (is_given() || last <= first || last - first <= most_kept) return;
  ::fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(first),
              static_cast<off_t>(last - first));
}

}  // namespace sluice::softgpu
