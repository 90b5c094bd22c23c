// SPDX-License-Identifier: Apache-2.0
// Volumes with a device each, a partition or a namespace: file systems of their own, or raw.
#pragma once

#include <string>
#include <vector>

#include "core/block_volume.h"
#include "core/recorded_backend.h"

namespace sluice::csi {

class DeviceBackend : public RecordedBackend {
 public:
  bool is_staged(const std::string& id, const std::string& path) override;
  void publish(const PublishRequest& request) override;
  std::vector<facts::Mount> places(const std::string& id, const std::vector<facts::Mount>& mounts) override;
  Usage usage(const std::string& id, const std::string& path) override;
  std::string trial_file(const std::string& id) override;

 protected:
  using RecordedBackend::RecordedBackend;

  // The volume's device as it is called now; nothing while it is not there.
  virtual std::optional<BlockDevice> device_of(const Record& record) const = 0;
  BlockDevice need_device(const Record& record) const;

  static bool is_raw(const Record& record);
  static void set_raw(Record& record, bool raw);
  static std::string file_system_of(const StageRequest& request, const ClassParameters& parsed);
  // Refuses options before anything is made.
  static MountPlan plan_for(const StageRequest& request, const ClassParameters& parsed);
  // Nothing is left at the path but this device: a stale mount goes, another one is refused.
  void mount_staged(const StageRequest& request, const ClassParameters& parsed, const BlockDevice& device,
                    const MountPlan& plan);
  // Unmounts what is this volume's at the path. Refused while it is to be seen, or used, elsewhere.
  void unmount_staged(const Record& record, const std::string& path);
  Condition condition_of(const BlockDevice& device, const std::vector<facts::Mount>& mounts) const;
};

}  // namespace sluice::csi
