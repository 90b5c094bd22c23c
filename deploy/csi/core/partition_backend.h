// SPDX-License-Identifier: Apache-2.0
// Volumes that are partitions of a drive: raw devices, file systems and mount options of their own. No snapshots. The
// drive's table holds what there is; the records beside it hold what the table has no room for.
#pragma once

#include <chrono>
#include <string>

#include "core/device_backend.h"
#include "core/partition_disk.h"

namespace sluice::csi {

struct PartitionOptions {
  std::string drive;  // "/dev/nvme1n1"
  std::string state;  // the folder for records, one below it a drive
  Names names;
  std::chrono::milliseconds wipe_limit{60000};  // of one call; kubelet's two minutes are not used up
  StepHook at_step;
};

class PartitionBackend : public DeviceBackend {
 public:
  // Refuses what cannot be used, with the reason.
  explicit PartitionBackend(PartitionOptions options);

  BackendKind kind() const override { return BackendKind::partition; }
  std::string drive(const std::string& /*id*/) const override { return disk_.device().name; }
  std::int64_t available() override;
  std::int64_t largest() override;
  std::int64_t smallest() const override;
  Record create(const VolumeRequest& request) override;
  // Writes zeroes over all of it first. A large drive without a command for that takes more than one call.
  void remove(const std::string& id) override;
  Record grow(const std::string& id, std::int64_t bytes, const std::string& path) override;
  // Partitions share no blocks: these are refused.
  Record snapshot(const std::string& name, const std::string& volume) override;
  void remove_snapshot(const std::string& id) override;
  std::vector<std::string> stage(const StageRequest& request) override;
  void unstage(const std::string& id, const std::string& path) override;
  Condition condition(const Record& record, const std::vector<facts::Mount>& mounts) override;

 protected:
  std::optional<BlockDevice> device_of(const Record& record) const override;

 private:
  void adopt();
  Record carve(Record record);
  void wipe(Record& record, const Extent& extent);
  std::optional<GptEntry> entry_of(const std::string& id) const;
  std::optional<Extent> extent_of(const std::string& id) const;

  PartitionOptions options_;
  mutable std::mutex table_;  // over disk_; taken after mutex_
  PartitionDisk disk_;
};

}  // namespace sluice::csi
