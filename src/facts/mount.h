// SPDX-License-Identifier: Apache-2.0
// The mount a file lives on, as /proc/self/mountinfo tells it. Parsing only: the text comes from the caller.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sluice::facts {

struct Mount {
  std::uint64_t id = 0;
  dev_t device = 0;     // of the file system's super block; btrfs and overlayfs show other numbers as st_dev
  std::string root;     // the part of the file system that is visible here: "/", "/@home", a bind mount's source
  std::string point;    // where, seen from the process's root
  std::string options;  // of the mount, then those of the super block that the mount does not already decide
  std::string type;     // "ext4", "fuse.sshfs"
  std::string source;   // "/dev/nvme0n1p2", "server:/export", "tmpfs"
};

// Blanks, line ends and backslashes are written as three octal digits: "\040". Anything else stays as it is.
std::string unescaped(std::string_view field);

// One line of mountinfo; nothing when it is not one.
std::optional<Mount> parse_mount(std::string_view line);

// The mount with this id. Where the id is not known or not listed (another mount namespace, a detached mount): the
// last one with this device, because later lines lie over earlier ones.
std::optional<Mount> find_mount(std::string_view mountinfo, std::optional<std::uint64_t> id, dev_t device);

// The line "mnt_id: N" of /proc/self/fdinfo/FD.
std::optional<std::uint64_t> mount_id_in_fdinfo(std::string_view fdinfo);

}  // namespace sluice::facts
