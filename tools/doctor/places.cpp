// SPDX-License-Identifier: Apache-2.0
#include "doctor/places.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <fstream>
#include <optional>
#include <set>

#include "base/failure.h"
#include "base/machine_number.h"
#include "facts/file.h"
#include "facts/file_system.h"
#include "facts/mount.h"
#include "facts/root.h"

namespace sluice::doctor {
namespace {

bool has_room(const std::string& folder, std::uint64_t room) {
  struct statvfs about {};
  return statvfs(folder.c_str(), &about) == 0 && std::uint64_t{about.f_bavail} * about.f_frsize >= room;
}

bool keeps_what_is_written(const facts::Mount& mount) {
  const facts::FileSystemType type = facts::file_system_named(mount.type);
  return type.substance == facts::Substance::storage && type.file_system != facts::FileSystem::memory &&
         type.file_system != facts::FileSystem::stacked;
}

}  // namespace

Place place_of(int fd) {
  try {
    const facts::FileFacts file = facts::of_file(fd, facts::Root());
    Place place{file.mount_point, file.file_system_name, file.block.members};
    if (place.drives.empty() && !file.block.name.empty()) place.drives = {file.block.name};
    return place;
  } catch (const base::Failure&) {
    return {};
  }
}

std::vector<std::string> folders_with_storage(std::uint64_t room) {
  std::vector<std::string> folders;
  std::set<dev_t> seen;  // bind mounts show a file system again
  std::ifstream table("/proc/self/mountinfo");
  for (std::string line; std::getline(table, line);) {
    const std::optional<facts::Mount> mount = facts::parse_mount(line);
    if (!mount || !keeps_what_is_written(*mount) || seen.contains(mount->device)) continue;
    // A mount of one file is no folder.
    if (access((mount->point + "/.").c_str(), W_OK | X_OK) != 0 || !has_room(mount->point, room)) continue;
    seen.insert(mount->device);
    folders.push_back(mount->point);
  }
  return folders;
}

std::string machine_number() {
  return base::machine_number();
}

}  // namespace sluice::doctor
