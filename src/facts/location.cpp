// SPDX-License-Identifier: Apache-2.0
// Places, and which of them are known already.
#include "facts/location.h"

#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <time.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "facts/block.h"

namespace sluice::facts {

namespace {

// More than these are in use at a time where every file has a mount of its own; those are asked again.
constexpr std::size_t most_slots = 64;
constexpr std::int64_t short_while = 1000;
constexpr std::int64_t forever = std::numeric_limits<std::int64_t>::max();

// Steps of some milliseconds will do, and no system call is made for them.
std::int64_t coarse_clock() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

FileSystemType type_of(const std::optional<Mount>& mount, std::uint64_t magic) {
  if (mount) return file_system_named(mount->type);
  if (magic != 0) return file_system_with_magic(magic);
  return {};
}

// The block device below a file of a mounted file system. btrfs and overlayfs give their files numbers of their own,
// which no block device has; the mount's number and its source still know.
BlockFacts block_below(const Descriptor& descriptor, const std::optional<Mount>& mount, const Root& root) {
  BlockFacts block = block_with_number(descriptor.device, root);
  if (block.name.empty() && mount) block = block_with_number(mount->device, root);
  if (block.name.empty() && mount) block = block_of_source(mount->source, root);
  return block;
}

// While it is in use: an array or mapping gets another disk, a drive another path.
bool may_change(const BlockFacts& block) {
  return !block.members.empty() || block.driver == "device-mapper" || block.driver == "md" ||
         (block.driver == "nvme" && block.transport != "pcie");
}

}  // namespace

Location place_of(const Descriptor& descriptor, const std::optional<Mount>& mount, std::uint64_t magic,
                  const Root& root) {
  Location place;
  place.type = type_of(mount, magic);
  place.listed = mount.has_value();
  if (place.type.substance == Substance::pseudo) return place;
  if (mount) place.mount_point = mount->point;
  place.block = block_below(descriptor, mount, root);
  return place;
}

Locations::Locations() noexcept : Locations(coarse_clock) {}

std::optional<Locations::Key> Locations::key_of(const Descriptor& descriptor) noexcept {
  Key key;
  key.device = descriptor.device;
  if (descriptor.unique_mount) {
    key.mount = *descriptor.unique_mount;
    return key;
  }
  struct statfs status {};
  if (!descriptor.mount_id || major(descriptor.device) == 0 || ::fstatfs(descriptor.fd, &status) != 0) {
    return std::nullopt;
  }
  key.mount = *descriptor.mount_id;
  key.returns = true;
  key.type = static_cast<std::uint32_t>(status.f_type);
  static_assert(sizeof status.f_fsid == sizeof key.identity);
  std::memcpy(&key.identity, &status.f_fsid, sizeof key.identity);
  return key;
}

std::shared_ptr<const Location> Locations::find(const Descriptor& descriptor) const {
  const std::optional<Key> key = key_of(descriptor);
  if (!key) return nullptr;
  const std::int64_t now = clock_();
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(known_.begin(), known_.end(), [&](const Known& one) { return one.key == *key; });
  return found != known_.end() && now < found->until ? found->place : nullptr;
}

void Locations::keep(const Descriptor& descriptor, std::shared_ptr<const Location> place) {
  const BlockFacts& block = place->block;
  const bool is_whole = place->listed && (block.name.empty() || block.logical_block != 0);
  const std::optional<Key> key = is_whole ? key_of(descriptor) : std::nullopt;
  if (!key) return;
  const std::int64_t until = key->returns || may_change(block) ? clock_() + short_while : forever;
  Known known{*key, std::move(place), until};
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(known_.begin(), known_.end(), [&](const Known& one) { return one.key == *key; });
  if (found != known_.end()) {
    std::swap(*found, known);
  } else if (known_.size() < most_slots) {
    known_.push_back(std::move(known));
  } else {
    std::swap(known_[oldest_], known);
    oldest_ = (oldest_ + 1) % most_slots;
  }
}

}  // namespace sluice::facts
