// SPDX-License-Identifier: Apache-2.0
// Mount options as a StorageClass gives them: which are the mount's, which the file system's, and which are left out.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::csi {

// A volume with a file system of its own takes both kinds of options; one that is a directory shares its file system.
enum class FileSystemOf : std::uint8_t { volume, pool };

struct MountPlan {
  unsigned long flags = 0;         // for mount(2): MS_NOATIME ...
  std::string data;                // the file system's own options, "logbsize=256k,allocsize=1m"
  std::vector<std::string> notes;  // what was left out, and why: an event each
};

// Unknown options are refused as INVALID_ARGUMENT: the kernel's own answer tells no more than "wrong option", and its
// log is not at hand. nodev and nosuid are always set.
MountPlan plan_mount(std::string_view fs_type, const std::vector<std::string>& options, FileSystemOf whose);

// Which of the planned options of the file system a mount does not show: a second mount of a device silently keeps the
// first one's.
std::vector<std::string> not_in_effect(const MountPlan& plan, std::string_view shown_options);

}  // namespace sluice::csi
