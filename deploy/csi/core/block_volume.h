// SPDX-License-Identifier: Apache-2.0
// What volumes with a device of their own have in common: a file system made once, mounts that are compared with what
// was asked, raw devices, growth, health.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/backend.h"
#include "core/mount_options.h"

namespace sluice::csi {

struct BlockDevice {
  std::string path;  // "/dev/nvme3n1"
  std::string name;  // "nvme3n1"
  dev_t number = 0;
};

// The device behind a path; nothing when there is none.
std::optional<BlockDevice> block_device_at(const std::string& path);

// What lies on a device, as `blkid -p` tells it: "" for nothing at all. Two answers at once are refused: it is not
// known what would be destroyed.
std::string content_of(const BlockDevice& device);

// Makes a file system where there is nothing; takes the one that is there if it is the wanted one; else refuses.
void want_file_system(const BlockDevice& device, const std::string& fs_type,
                      const std::vector<std::string>& mkfs_options);

// Mounts it and compares the options with those that are in effect.
void mount_volume(const BlockDevice& device, const std::string& path, const std::string& fs_type,
                  const MountPlan& plan);

void grow_file_system(const facts::Mount& mount);

std::int64_t bytes_of(const BlockDevice& device);

// A mount namespace elsewhere can keep a file system alive after the last unmount here: true while it does.
bool is_held(const BlockDevice& device);

// Mounts of the file system on this device, and raw targets, which look like devtmpfs.
std::vector<facts::Mount> places_of(const BlockDevice& device, const std::vector<facts::Mount>& mounts);

Usage usage_of(const BlockDevice& device, const std::string& path);

}  // namespace sluice::csi
