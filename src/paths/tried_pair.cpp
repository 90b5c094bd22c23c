// SPDX-License-Identifier: Apache-2.0
#include "paths/tried_pair.h"

namespace sluice::paths {

std::string storage_name(const facts::FileFacts& file) {
  if (file.kind == facts::FileKind::regular && !file.mount_point.empty()) return file.mount_point;
  return file.block.name.empty() ? "an unknown device" : file.block.name;
}

std::string storage_key(const facts::FileFacts& file) {
  if (file.kind == facts::FileKind::regular) return "file system " + std::to_string(file.device);
  if (!file.block.name.empty()) return "disk " + file.block.name;
  return "node " + std::to_string(file.device) + " " + std::to_string(file.inode);
}

}  // namespace sluice::paths
