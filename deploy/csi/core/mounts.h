// SPDX-License-Identifier: Apache-2.0
// What is mounted, as the kernel tells it, and the few ways in which the driver changes that.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "facts/mount.h"

namespace sluice::csi {

// Every mount of this process's namespace, in the kernel's order.
std::vector<facts::Mount> all_mounts();
std::vector<facts::Mount> parse_mounts(std::string_view mountinfo);

// The topmost mount at exactly this path.
std::optional<facts::Mount> mount_at(const std::vector<facts::Mount>& mounts, const std::string& path);

// The mount that a path lies on.
std::optional<facts::Mount> mount_of(const std::vector<facts::Mount>& mounts, const std::string& path);

// Where a path lies inside its file system: "/volumes/x" for a file system mounted one folder higher.
std::string path_in_file_system(const facts::Mount& mount, const std::string& path);

// The mounts that show this folder of this file system.
std::vector<facts::Mount> mounts_showing(const std::vector<facts::Mount>& mounts, dev_t device,
                                         const std::string& root);

void mount_device(const std::string& device, const std::string& path, const std::string& fs_type, unsigned long flags,
                  const std::string& data);
// Appears at once with its options: there is no moment, and no crash, between a mount that can be written and one that
// cannot.
void bind_mount(const std::string& source, const std::string& path, unsigned long flags);
// Everything that is mounted at this path; nothing is fine. EBUSY is refused.
void unmount_all(const std::string& path);

bool is_read_only(const facts::Mount& mount);

void make_folder(const std::string& path, mode_t mode);
void make_file(const std::string& path, mode_t mode);
// An empty folder, or a file: what kubelet wants gone after unpublishing.
void remove_target(const std::string& path);

}  // namespace sluice::csi
