// SPDX-License-Identifier: Apache-2.0
// Volumes that are namespaces of NVMe subsystems. The volume's attributes name subsystem, addresses and namespace; the
// node connects when it stages, and lets go after the last volume of the subsystem.
#pragma once

#include <memory>
#include <string>

#include "core/device_backend.h"
#include "core/fabrics.h"

namespace sluice::csi {

struct FabricsOptions {
  std::string state;  // the folder for records of what is staged
  Names names;
  std::string devices = "/dev";
  facts::Root root;
  StepHook at_step;
};

class FabricsBackend : public DeviceBackend {
 public:
  FabricsBackend(FabricsOptions options, std::unique_ptr<NvmePort> port);

  BackendKind kind() const override { return BackendKind::nvme_of; }
  std::string drive(const std::string& id) const override;
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
  std::vector<std::string> stage(const StageRequest& request) override;
  void unstage(const std::string& id, const std::string& path) override;
  Condition condition(const Record& record, const std::vector<facts::Mount>& mounts) override;

 protected:
  std::optional<BlockDevice> device_of(const Record& record) const override;

 private:
  ClassParameters class_of(const Record& record) const;
  bool is_used(const Record& released) const;
  void release(const Record& record);

  FabricsOptions options_;
  std::unique_ptr<NvmePort> port_;
  Fabrics fabrics_;
  std::mutex connecting_;  // who lets go must see who has just connected
};

}  // namespace sluice::csi
