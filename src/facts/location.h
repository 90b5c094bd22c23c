// SPDX-License-Identifier: Apache-2.0
// Where files live: what is true of all files of one mount that show the same device number. A remount changes none of
// it; what it does change (options) is nowhere kept, and the mount point, which can be moved, is for people.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "facts/descriptor.h"
#include "facts/file.h"
#include "facts/file_system.h"
#include "facts/mount.h"
#include "facts/root.h"

namespace sluice::facts {

struct Location {
  FileSystemType type;
  std::string mount_point;
  BlockFacts block;
  bool listed = false;  // mountinfo had the mount
};

// By reading procfs and sysfs. `magic` counts only where there is no mount.
Location place_of(const Descriptor& descriptor, const std::optional<Mount>& mount, std::uint64_t magic,
                  const Root& root);

// Places that were asked for once, and are known since. Any thread; nothing is asked of the system under the lock.
//
// A mount is known by the number that the kernel gives to no other one, ever (Linux 6.8), together with the device
// number that the file shows. So whatever is mounted later, at the same path or with the same device number, is another
// place. Older kernels give the numbers of mounts and devices anew. There a place is known by both, and by the type and
// the identity that statfs tells of the file system, for a second at most; and only where a block device lies below,
// since statfs may wait for a server elsewhere.
class Locations {
 public:
  using Clock = std::int64_t (*)() noexcept;  // milliseconds

  Locations() noexcept;
  explicit Locations(Clock clock) noexcept : clock_(clock) {}
  Locations(const Locations&) = delete;
  Locations& operator=(const Locations&) = delete;

  // The place of the file; null where it is not known, or may have changed: arrays and mappings get other disks while
  // they are in use, network drives other paths.
  std::shared_ptr<const Location> find(const Descriptor& descriptor) const;
  // Not kept: a place whose mount is not listed, or of which sysfs has told a part only (no descriptor was left to read
  // it by).
  void keep(const Descriptor& descriptor, std::shared_ptr<const Location> place);

  // No child inherits the lock held.
  void before_fork() { mutex_.lock(); }
  void after_fork() { mutex_.unlock(); }

 private:
  struct Key {
    std::uint64_t mount = 0;
    dev_t device = 0;
    bool returns = false;  // the numbers may come to mean something else
    std::uint64_t type = 0;
    std::uint64_t identity = 0;
    bool operator==(const Key&) const = default;
  };
  struct Known {
    Key key;
    std::shared_ptr<const Location> place;
    std::int64_t until = 0;  // by the clock
  };
  static std::optional<Key> key_of(const Descriptor& descriptor) noexcept;

  const Clock clock_;
  mutable std::mutex mutex_;
  std::vector<Known> known_;
  std::size_t oldest_ = 0;  // the next to be replaced, once there are many
};

}  // namespace sluice::facts
