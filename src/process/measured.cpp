// SPDX-License-Identifier: Apache-2.0
#include "process/measured.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "io/disk_queue.h"

namespace sluice::process {

namespace {

// As a profile names them.
std::vector<std::string> drives_of(const facts::FileFacts& file) {
  if (!file.block.members.empty() || file.block.name.empty()) return file.block.members;
  return {file.block.name};
}

bool is_still(const config::MeasuredMount& mount, const facts::FileFacts& file) {
  std::vector<std::string> drives = drives_of(file);
  std::sort(drives.begin(), drives.end());
  return mount.file_system == file.file_system_name && mount.drives == drives;
}

const config::MeasuredMount* find(const config::Measured& measured, const std::string& mount) noexcept {
  const auto found = std::find_if(measured.mounts.begin(), measured.mounts.end(),
                                  [&](const config::MeasuredMount& each) { return each.mount == mount; });
  return found == measured.mounts.end() ? nullptr : &*found;
}

}  // namespace

const config::MeasuredMount* measured_for(const config::Measured& measured, const facts::FileFacts& file) noexcept {
  const config::MeasuredMount* const mount = find(measured, file.mount_point);
  return mount != nullptr && is_still(*mount, file) ? mount : nullptr;
}

paths::Options options_as_measured(const paths::Options& options, const config::MeasuredMount& mount) {
  paths::Options there = options;
  if (!mount.copy.empty()) there.copy_mode = paths::copy_mode_named(mount.copy);
  if (there.copy_mode != paths::CopyMode::usual) there.coherent = gpu::Coherent::never;
  if (!mount.disk_reads.empty()) there.disk_way = io::disk_way_named(mount.disk_reads);
  return there;
}

std::string words_of_profile(const config::Measured& measured, const facts::FileFacts& file) {
  if (!measured.why_not.empty()) {
    return fmt::format("the profile {} is left alone: {}",
                       measured.date.empty() ? measured.file : "of " + measured.date, measured.why_not);
  }
  const config::MeasuredMount* const mount = find(measured, file.mount_point);
  if (mount == nullptr) return "";
  if (!is_still(*mount, file)) {
    return fmt::format("the profile of {} is left alone here: {} was {} on {} then", measured.date, mount->mount,
                       mount->file_system,
                       mount->drives.empty() ? "no drive" : fmt::format("{}", fmt::join(mount->drives, "+")));
  }
  std::vector<std::string> chosen;
  if (!mount->copy.empty()) chosen.push_back("sluice.copy is " + mount->copy);
  if (!mount->disk_reads.empty()) chosen.push_back("sluice.disk_reads is " + mount->disk_reads);
  return fmt::format("by the profile of {}: {}", measured.date, fmt::join(chosen, ", "));
}

}  // namespace sluice::process
