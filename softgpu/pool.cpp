// SPDX-License-Identifier: Apache-2.0
// Keeping and reusing memory.
#include "pool.h"

#include <algorithm>
#include <utility>

#include "refusal.h"

namespace sluice::softgpu {

namespace {

// Real pools hand out memory in multiples of this.
constexpr std::uint64_t granule = 512;

constexpr std::uint64_t rounded(std::uint64_t size) {
  return (size + granule - 1) & ~(granule - 1);
}

}  // namespace

void MemoryPool::let(int device, int access) {
  const std::lock_guard lock(mutex_);
  access_[device] = access;
}

int MemoryPool::access_of(int device) const {
  const std::lock_guard lock(mutex_);
  if (device == device_) return cuda::access_read_write;
  const auto found = access_.find(device);
  return found != access_.end() ? found->second : cuda::access_none;
}

void MemoryPool::count_use(std::uint64_t bytes) {
  used_ += bytes;
  used_high_ = std::max(used_high_, used_);
}

std::shared_ptr<DeviceStorage> MemoryPool::take(std::uint64_t size, std::uint64_t stream) {
  const std::lock_guard lock(mutex_);
  const auto fits = [&](const Freed& freed) {
    const std::uint64_t there = freed.storage->size();
    return (freed.stream == 0 || freed.stream == stream) && there >= rounded(size) && there / 2 <= rounded(size);
  };
  const auto found = std::find_if(freed_.begin(), freed_.end(), fits);
  if (found != freed_.end()) {
    auto storage = std::move(found->storage);
    freed_.erase(found);
    count_use(storage->size());
    return storage;
  }
  require(limit_ == 0 || reserved_ + rounded(size) <= limit_, cuda::error_out_of_memory);
  std::shared_ptr<DeviceStorage> storage;
  try {
    storage = std::make_shared<DeviceStorage>(memory_, rounded(size));
  } catch (const Refusal&) {
    // What the pool only keeps is given up before it says that there is no memory.
    std::erase_if(freed_, [this](const Freed& freed) {
      if (freed.stream == 0) reserved_ -= freed.storage->size();
      return freed.stream == 0;
    });
    storage = std::make_shared<DeviceStorage>(memory_, rounded(size));
  }
  reserved_ += storage->size();
  reserved_high_ = std::max(reserved_high_, reserved_);
  count_use(storage->size());
  return storage;
}

std::uint64_t MemoryPool::free_later(std::shared_ptr<DeviceStorage> storage, std::uint64_t stream) {
  const std::lock_guard lock(mutex_);
  used_ -= storage->size();
  freed_.push_back({std::move(storage), stream, next_ticket_});
  return next_ticket_++;
}

void MemoryPool::free_reached(std::uint64_t ticket) {
  const std::lock_guard lock(mutex_);
  const auto found =
      std::find_if(freed_.begin(), freed_.end(), [ticket](const Freed& freed) { return freed.ticket == ticket; });
  if (found == freed_.end()) return;
  auto kept = std::move(found->storage);
  freed_.erase(found);
  keep_or_release(std::move(kept));
}

void MemoryPool::free_now(std::shared_ptr<DeviceStorage> storage) {
  const std::lock_guard lock(mutex_);
  used_ -= storage->size();
  keep_or_release(std::move(storage));
}

void MemoryPool::keep_or_release(std::shared_ptr<DeviceStorage> storage) {
  if (reserved_ <= release_threshold_) {
    freed_.push_back({std::move(storage), 0, 0});
  } else {
    reserved_ -= storage->size();
  }
}

void MemoryPool::trim_to(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  std::erase_if(freed_, [&](const Freed& freed) {
    if (freed.stream != 0 || reserved_ <= bytes) return false;
    reserved_ -= freed.storage->size();
    return true;
  });
}

std::uint64_t MemoryPool::attribute(int number) const {
  const std::lock_guard lock(mutex_);
  switch (number) {
    case cuda::pool_reuse_follow_event_dependencies:
    case cuda::pool_reuse_allow_opportunistic:
    case cuda::pool_reuse_allow_internal_dependencies:
      return reuse_[static_cast<std::size_t>(number)];
    case cuda::pool_release_threshold:
      return release_threshold_;
    case cuda::pool_reserved_current:
      return reserved_;
    case cuda::pool_reserved_high:
      return reserved_high_;
    case cuda::pool_used_current:
      return used_;
    case cuda::pool_used_high:
      return used_high_;
    default:
      throw Refusal(cuda::error_invalid_value);
  }
}

void MemoryPool::set_attribute(int number, std::uint64_t value) {
  const std::lock_guard lock(mutex_);
  switch (number) {
    case cuda::pool_reuse_follow_event_dependencies:
    case cuda::pool_reuse_allow_opportunistic:
    case cuda::pool_reuse_allow_internal_dependencies:
      reuse_[static_cast<std::size_t>(number)] = value != 0 ? 1 : 0;
      return;
    case cuda::pool_release_threshold:
      release_threshold_ = value;
      return;
    case cuda::pool_reserved_high:
      require(value == 0);  // a high-water mark can only be begun anew
      reserved_high_ = reserved_;
      return;
    case cuda::pool_used_high:
      require(value == 0);
      used_high_ = used_;
      return;
    default:
      throw Refusal(cuda::error_invalid_value);
  }
}

}  // namespace sluice::softgpu
