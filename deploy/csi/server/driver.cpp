// SPDX-License-Identifier: Apache-2.0
#include "server/driver.h"

#include "core/affinity.h"
#include "core/block_volume.h"
#include "core/directory_backend.h"
#include "core/fabrics_backend.h"
#include "core/log.h"
#include "core/partition_backend.h"
#include "core/refusal.h"

namespace sluice::csi {
namespace {

// A pool that names its drive is formatted if it is blank, and mounted if it is not; the mount outlives this process.
std::string brought_up(const std::string& pool, QuotaWish quota) {
  const std::size_t equal = pool.find('=');
  std::string path = pool.substr(0, equal);
  if (equal == std::string::npos || mount_at(all_mounts(), path)) return path;
  const std::string drive = pool.substr(equal + 1);
  const std::optional<BlockDevice> device = block_device_at(drive);
  if (!device)
    refuse(Code::failed_precondition, drive + " is no block device. Name the drive in the pool as it is in /dev.");
  want_file_system(*device, "xfs", {});
  MountPlan plan;
  if (quota == QuotaWish::require) plan.data = "prjquota";
  mount_volume(*device, path, "xfs", plan);
  log_line("info", drive + " is mounted at " + path + ".");
  return path;
}

}  // namespace

DriverState::DriverState(Settings settings)
    : settings_(std::move(settings)),
      trials_({settings_.sluice, {}}),
      controller_(settings_.service, volumes_, locks_),
      node_(settings_.service, volumes_, locks_, trials_),
      missing_pools_(settings_.pools),
      missing_drives_(settings_.drives) {
  settings_.service.affinity = [](const std::string& drive) { return affinity_of(drive, {}); };
  settings_.service.changes_are_followed = settings_.follow_classes && settings_.mode == Mode::controller;
  settings_.service.changed = [this](const std::string& id) { node_.keep_to_bandwidth(id); };
  if (settings_.service.driver != Driver::fabrics || settings_.mode != Mode::node) return;
  volumes_.add(std::make_unique<FabricsBackend>(
      FabricsOptions{settings_.state, settings_.service.names, "/dev", {}, {}}, std::make_unique<KernelNvmePort>()));
}

template <typename Open>
std::string DriverState::open_all(std::vector<std::string>& names, Open open) {
  std::string why;
  std::vector<std::string> still;
  for (const std::string& name : names) {
    try {
      open(name);
      log_line("info", name + " is in use.");
    } catch (const std::exception& error) {
      still.push_back(name);
      why += (why.empty() ? "" : " ") + std::string(error.what());
    }
  }
  names = std::move(still);
  return why;
}

std::vector<DraDrive> DriverState::drives() {
  std::vector<DraDrive> all;
  for (Backend* const backend : volumes_.backends()) {
    const std::string name = backend->drive({});
    if (name.empty()) continue;
    all.push_back(dra_drive(name, {}));
    // A pool has a file for trials; of a drive that is cut into partitions it is not known what to read.
    if (backend->kind() == BackendKind::directory)
      all.back().verified = trials_.of(name, backend->trial_file({})).direct == Direct::verified;
  }
  return all;
}

std::unique_ptr<ClaimFolders> DriverState::claim_folders(const std::string& folder) {
  return std::make_unique<ClaimFolders>(volumes_, locks_, settings_.service.names, folder);
}

std::string DriverState::why_not_ready() {
  if (at_probe_) at_probe_();
  const std::lock_guard lock(mutex_);
  std::string why = open_all(missing_pools_, [&](const std::string& pool) {
    volumes_.add(
        std::make_unique<DirectoryBackend>(DirectoryOptions{brought_up(pool, settings_.quota), settings_.quota, {}}));
  });
  const std::string drives = open_all(missing_drives_, [&](const std::string& drive) {
    PartitionOptions options;
    options.drive = drive;
    options.state = settings_.state;
    options.names = settings_.service.names;
    volumes_.add(std::make_unique<PartitionBackend>(std::move(options)));
  });
  if (!drives.empty()) why += (why.empty() ? "" : " ") + drives;
  if (!why.empty() && why != last_told_) log_line("error", "This node cannot be used: " + why);
  last_told_ = why;
  return why;
}

}  // namespace sluice::csi
