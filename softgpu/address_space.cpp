// SPDX-License-Identifier: Apache-2.0
// Reserving addresses and handing out pieces of a device.
#include "address_space.h"

#include <sys/mman.h>

#include "answer.h"

namespace sluice::softgpu {

namespace {

Backstore backstore_of(int ordinal, const Knobs& knobs) {
  const std::uint64_t most = knobs.memory_mib << 20U;
  const auto index = static_cast<std::size_t>(ordinal);
  const bool given = index < knobs.backings.size() && !knobs.backings[index].path.empty();
  return given ? Backstore(knobs.backings[index], most) : Backstore(ordinal, most);
}

// Allocations of less than a page share pages, as an H100's do: 1.25 MiB lie right behind 64 KiB.
constexpr std::uint64_t small_granule = 512;
constexpr std::uint64_t large_from = device_page;

constexpr std::uint64_t rounded_up(std::uint64_t value, std::uint64_t to) {
  return (value + to - 1) & ~(to - 1);
}

void* map(std::uint64_t size, int protection) {
  void* const mapped = ::mmap(nullptr, size, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  require(mapped != MAP_FAILED, cuda::error_out_of_memory);
  return mapped;
}

}  // namespace

AddressRange::AddressRange(std::uint64_t size) : size_(size) {
  void* const reserved = map(size + device_page, PROT_NONE);
  const auto first = reinterpret_cast<std::uint64_t>(reserved);
  start_ = rounded_up(first, device_page);
  const std::uint64_t before = start_ - first;
  if (before != 0) ::munmap(reserved, before);
  if (before != device_page) ::munmap(reinterpret_cast<void*>(start_ + size), device_page - before);
  ::madvise(reinterpret_cast<void*>(start_), size, MADV_DONTFORK);
  ::madvise(reinterpret_cast<void*>(start_), size, MADV_DONTDUMP);
}

DeviceMemory::DeviceMemory(int ordinal, const Knobs& knobs)
    : backstore_(backstore_of(ordinal, knobs)),
      range_(backstore_.size()),
      coherent_(backstore_.has_file() ? knobs.coherent : 0),
      ranges_(0, backstore_.size()) {}

std::uint64_t DeviceMemory::available() const {
  const std::lock_guard lock(mutex_);
  return ranges_.available();
}

std::uint64_t DeviceMemory::take(std::uint64_t size, std::uint64_t alignment) {
  const std::lock_guard lock(mutex_);
  const auto offset = ranges_.take(size, alignment);
  require(offset.has_value(), cuda::error_out_of_memory);
  backstore_.prepare(*offset, size);
  show(*offset, size);
  return *offset;
}

void DeviceMemory::show(std::uint64_t offset, std::uint64_t size) const {
  if (coherent_ != 1) return;
  const std::uint64_t first = offset & ~(host_page_size() - 1);
  backstore_.map_at(reinterpret_cast<void*>(address(first)), first,
                    rounded_up(offset + size, host_page_size()) - first);
}

void DeviceMemory::hide(std::uint64_t first, std::uint64_t last) const noexcept {
  if (coherent_ != 1 || last <= first) return;
  [[maybe_unused]] void* const nothing = ::mmap(reinterpret_cast<void*>(address(first)), last - first, PROT_NONE,
                                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

void DeviceMemory::give_back(std::uint64_t offset, std::uint64_t size) noexcept {
  // Whole pages; parts of pages may belong to a neighbour.
  const std::uint64_t host_page = host_page_size();
  const std::uint64_t first = rounded_up(offset, host_page);
  const std::uint64_t last = (offset + size) & ~(host_page - 1);
  const std::lock_guard lock(mutex_);
  hide(first, last);
  backstore_.forget(first, last);
  try {
    ranges_.give_back(offset, size);
  } catch (...) {  // NOLINT(bugprone-empty-catch): no memory to remember a hole: the range stays unused
  }
}

DeviceStorage::DeviceStorage(DeviceMemory& memory, std::uint64_t size)
    : memory_(memory),
      size_(rounded_up(size, size < large_from ? small_granule : device_page)),
      offset_(memory.take(size_, size < large_from ? small_granule : device_page)) {}

std::shared_ptr<HostView> DeviceStorage::view_from(std::uint64_t address, std::uint64_t size) {
  auto view = std::make_shared<HostView>(memory_.map_again(address, size), size);
  const std::lock_guard lock(mutex_);
  std::erase_if(views_, [](const auto& known) { return known.expired(); });
  views_.push_back(view);
  return view;
}

DeviceStorage::~DeviceStorage() {
  for (const auto& known : views_) {
    const auto view = known.lock();
    if (view != nullptr && early_admission("gdr_free_callback") == cuda::success) view->take_back();
  }
  memory_.give_back(offset_, size_);
}

HostStorage::HostStorage(std::uint64_t size)
    : size_(rounded_up(size, host_page_size())), bytes_(static_cast<std::byte*>(map(size_, PROT_READ | PROT_WRITE))) {}

HostStorage::~HostStorage() {
  ::munmap(bytes_, size_);
}

}  // namespace sluice::softgpu
