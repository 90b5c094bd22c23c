// SPDX-License-Identifier: Apache-2.0
// Volumes that are namespaces of NVMe subsystems. The volume's attributes name subsystem, addresses and namespace; the
// node connects when it stages, and lets go after the last volume of the subsystem.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "core/backend.h"
#include "core/block_volume.h"
#include "core/fabrics.h"

namespace sluice::csi {

struct FabricsOptions {
  std::string state;  // the folder for records of what is staged
  Names names;
  std::string devices = "/dev";
  facts::Root root;
  StepHook at_step;
};

class FabricsBackend : public Backend {
 public:
  FabricsBackend(FabricsOptions options, std::unique_ptr<NvmePort> port);

  BackendKind kind() const override { return BackendKind::nvme_of; }
  std::string drive(const std::string& id) const override;
  std::optional<Record> find(const std::string& id) override { return records_.read(id); }
  std::vector<Record> records() override { return records_.all(); }
  std::int64_t available() override { return 0; }
  std::int64_t largest() override { return 0; }
  std::int64_t smallest() const override { return 0; }
  // Targets make namespaces, and not this driver: these are refused.
  Record create(const VolumeRequest& request) override;
  void remove(const std::string& id) override;
  Record snapshot(const std::string& name, const std::string& volume) override;
  void remove_snapshot(const std::string& id) override;

  Record grow(const std::string& id, std::int64_t bytes, const std::string& path) override;
  Record modify(const std::string& id, const Map& parameters) override;
  void keep_notes(const std::string& id, const std::string& direct_path,
                  const std::vector<std::string>& notes) override;
  std::vector<std::string> stage(const StageRequest& request) override;
  void unstage(const std::string& id, const std::string& path) override;
  bool is_staged(const std::string& id, const std::string& path) override;
  void publish(const PublishRequest& request) override;
  std::vector<facts::Mount> places(const std::string& id, const std::vector<facts::Mount>& mounts) override;
  Usage usage(const std::string& id, const std::string& path) override;
  Condition condition(const Record& record, const std::vector<facts::Mount>& mounts) override;
  std::string trial_file(const std::string& id) override;

 private:
  void reached(const char* step) const;
  ClassParameters class_of(const Record& record) const;
  Record need(const std::string& id) const;
  std::optional<BlockDevice> device_of(const Record& record) const;
  BlockDevice need_device(const Record& record) const;
  bool is_used(const Record& released) const;
  void release(const Record& record);
  void mount_staged(const StageRequest& request, const Record& record, const BlockDevice& device,
                    const MountPlan& plan);

  FabricsOptions options_;
  std::unique_ptr<NvmePort> port_;
  Fabrics fabrics_;
  RecordFolder records_;
  std::mutex mutex_;  // over connecting and letting go: who lets go must see who has just connected
};

}  // namespace sluice::csi
