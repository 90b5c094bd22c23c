// SPDX-License-Identifier: Apache-2.0
#include "core/backend.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "facts/read.h"

namespace sluice::csi {

std::string digest_of(const std::string& name) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char letter : name) {
    hash ^= static_cast<unsigned char>(letter);
    hash *= 0x100000001b3;
  }
  return fmt::format("{:016x}", hash);
}

bool is_stale(const facts::Mount& mount) {
  const auto is_gone = [](dev_t drive) {
    return !facts::exists(fmt::format("/sys/dev/block/{}:{}", major(drive), minor(drive)));
  };
  // Major 0 is for file systems without a drive.
  if (major(mount.device) != 0) return is_gone(mount.device);
  // A raw device is a node of /dev. One that the kernel has removed may stand for a number that others have by now.
  if (mount.type != "devtmpfs" && mount.type != "tmpfs") return false;
  struct stat status {};
  if (stat(mount.point.c_str(), &status) != 0 || !S_ISBLK(status.st_mode)) return false;
  return mount.root.ends_with("//deleted") || is_gone(status.st_rdev);
}

Condition stale_condition(const facts::Mount& mount) {
  return {true, "the device below " + mount.point + " is gone; end the pod, so that it is staged again"};
}

}  // namespace sluice::csi
