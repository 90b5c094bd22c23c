// SPDX-License-Identifier: Apache-2.0
// A volume's bandwidth, by the limit that the kernel keeps for a pod's cgroup (version 2) and a drive: io.max.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace sluice::csi {

// The folder of a pod's cgroup, as kubelet names it with either of its cgroup drivers and in each class of service;
// nothing while there is none.
std::optional<std::string> cgroup_of(const std::string& root, const std::string& pod);

// The whole drive below a device, "259:0": limits are kept for these alone. Nothing for file systems without a drive.
std::optional<std::string> whole_drive_of(dev_t device);

// Bytes a second for each drive, in both directions; nothing lifts the limit.
using DriveLimits = std::map<std::string, std::optional<std::int64_t>>;

// "" when all is set; else what is missing, and the remedy.
std::string set_limits(const std::string& root, const std::string& pod, const DriveLimits& limits);

}  // namespace sluice::csi
