// SPDX-License-Identifier: Apache-2.0
#include "core/backend.h"

#include <fmt/format.h>
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
  // Major 0 is for file systems without a drive.
  if (major(mount.device) == 0) return false;
  return !facts::exists(fmt::format("/sys/dev/block/{}:{}", major(mount.device), minor(mount.device)));
}

}  // namespace sluice::csi
