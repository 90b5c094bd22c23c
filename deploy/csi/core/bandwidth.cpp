// SPDX-License-Identifier: Apache-2.0
#include "core/bandwidth.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "base/unique_fd.h"
#include "facts/read.h"

namespace sluice::csi {

std::optional<std::string> cgroup_of(const std::string& root, const std::string& pod) {
  std::string underscored = pod;
  std::replace(underscored.begin(), underscored.end(), '-', '_');
  for (const char* const service : {"", "burstable", "besteffort"}) {
    const std::string dash = *service == '\0' ? "" : std::string("-") + service;
    const std::string slash = *service == '\0' ? "" : std::string("/") + service;
    const std::string middle = *service == '\0' ? "" : fmt::format("/kubepods{}.slice", dash);
    for (const std::string& folder :
         {fmt::format("{}/kubepods.slice{}/kubepods{}-pod{}.slice", root, middle, dash, underscored),
          fmt::format("{}/kubepods{}/pod{}", root, slash, pod)}) {
      if (facts::exists(folder)) return folder;
    }
  }
  return std::nullopt;
}

std::optional<std::string> whole_drive_of(dev_t device) {
  if (major(device) == 0) return std::nullopt;
  std::error_code error;
  const std::filesystem::path folder =
      std::filesystem::canonical(fmt::format("/sys/dev/block/{}:{}", major(device), minor(device)), error);
  if (error) return std::nullopt;
  const bool part = facts::exists((folder / "partition").string());
  return facts::read_value(((part ? folder.parent_path() : folder) / "dev").string());
}

std::string set_limits(const std::string& root, const std::string& pod, const DriveLimits& limits) {
  const std::optional<std::string> folder = cgroup_of(root, pod);
  if (!folder) {
    return fmt::format("{} has no cgroup of pod {} yet; the limit is set when kubelet next asks for the volume's usage",
                       root, pod);
  }
  const std::string path = *folder + "/io.max";
  const base::UniqueFd file(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file)
    return path + " is missing: bandwidth wants cgroup version 2 with the controller io, and the host's /sys/fs/cgroup";
  for (const auto& [drive, bytes] : limits) {
    const std::string rate = bytes ? std::to_string(*bytes) : "max";
    const std::string line = fmt::format("{} rbps={} wbps={}\n", drive, rate, rate);
    if (write(file.get(), line.data(), line.size()) < 0)
      return fmt::format("{} refuses \"{}\": {}", path, line.substr(0, line.size() - 1),
                         std::generic_category().message(errno));
  }
  return {};
}

}  // namespace sluice::csi
