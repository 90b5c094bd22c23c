// Reserving addresses and mapping memory files.
#include "address_space.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "refusal.h"

namespace sluice::softgpu {

namespace {

// Small allocations share pages, as a real driver's do.
constexpr std::uint64_t small_granule = 512;
constexpr std::uint64_t large_from = std::uint64_t{1} << 20U;
constexpr std::uint64_t host_page = 4096;

constexpr std::uint64_t rounded_up(std::uint64_t value, std::uint64_t to) {
  return (value + to - 1) & ~(to - 1);
}

void* map(void* at, std::uint64_t size, int protection, int flags, int file) {
  void* const mapped = ::mmap(at, size, protection, flags, file, 0);
  require(mapped != MAP_FAILED, cuda::error_out_of_memory);
  return mapped;
}

// A forked child must not share what the parent's device holds, and a core dump need not contain it.
void keep_private(void* start, std::uint64_t size) noexcept {
  ::madvise(start, size, MADV_DONTFORK);
  ::madvise(start, size, MADV_DONTDUMP);
}

}  // namespace

Window::Window(std::uint64_t size) : size_(size) {
  void* const reserved = map(nullptr, size + device_page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
  const auto first = reinterpret_cast<std::uint64_t>(reserved);
  start_ = rounded_up(first, device_page);
  const std::uint64_t before = start_ - first;
  if (before != 0) ::munmap(reserved, before);
  if (before != device_page) ::munmap(reinterpret_cast<void*>(start_ + size), device_page - before);
  keep_private(reinterpret_cast<void*>(start_), size);
}

DeviceMemory::DeviceMemory(int ordinal, std::uint64_t size) : window_(size), ranges_(0, size) {
  const std::string name = "sluice-softgpu-" + std::to_string(ordinal);
  file_ = ::memfd_create(name.c_str(), MFD_CLOEXEC);
  require(file_ >= 0 && ::ftruncate(file_, static_cast<off_t>(size)) == 0, cuda::error_operating_system);
  map(reinterpret_cast<void*>(window_.start()), size, PROT_NONE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, file_);
  bytes_ = static_cast<std::byte*>(map(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file_));
  keep_private(reinterpret_cast<void*>(window_.start()), size);
  keep_private(bytes_, size);
}

std::uint64_t DeviceMemory::available() const {
  const std::lock_guard lock(mutex_);
  return ranges_.available();
}

std::uint64_t DeviceMemory::take(std::uint64_t size, std::uint64_t alignment) {
  const std::lock_guard lock(mutex_);
  const auto offset = ranges_.take(size, alignment);
  require(offset.has_value(), cuda::error_out_of_memory);
  return *offset;
}

void DeviceMemory::give_back(std::uint64_t offset, std::uint64_t size) noexcept {
  // Whole pages go back to the system; parts of pages may belong to a neighbour.
  const std::uint64_t first = rounded_up(offset, host_page);
  const std::uint64_t last = (offset + size) & ~(host_page - 1);
  const std::lock_guard lock(mutex_);
  if (last > first) {
    ::fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(first),
                static_cast<off_t>(last - first));
  }
  try {
    ranges_.give_back(offset, size);
  } catch (...) {  // NOLINT(bugprone-empty-catch): no memory to remember a hole: the range stays unused
  }
}

DeviceStorage::DeviceStorage(DeviceMemory& memory, std::uint64_t size)
    : memory_(memory),
      size_(rounded_up(size, size < large_from ? small_granule : device_page)),
      offset_(memory.take(size_, size < large_from ? small_granule : device_page)) {}

DeviceStorage::~DeviceStorage() {
  memory_.give_back(offset_, size_);
}

HostStorage::HostStorage(std::uint64_t size)
    : size_(rounded_up(size, host_page)),
      bytes_(static_cast<std::byte*>(
          map(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1))) {}

HostStorage::~HostStorage() {
  ::munmap(bytes_, size_);
}

}  // namespace sluice::softgpu
