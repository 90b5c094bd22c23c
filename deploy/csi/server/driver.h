// SPDX-License-Identifier: Apache-2.0
// What one process of the driver has: its settings, its backends, and whether the node can be used yet.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/claim_folders.h"
#include "core/controller_service.h"
#include "core/dra.h"
#include "core/locks.h"
#include "core/node_service.h"
#include "core/quota.h"
#include "core/trial.h"
#include "core/volumes.h"

namespace sluice::csi {

enum class Mode : std::uint8_t { node, controller };

struct Settings {
  Mode mode = Mode::node;
  ServiceOptions service;
  std::string endpoint;  // a path
  std::chrono::seconds lock_wait{10};
  std::vector<std::string> pools;   // "PATH", or "PATH=DEVICE"
  std::vector<std::string> drives;  // of backend partition
  QuotaWish quota = QuotaWish::require;
  std::string state = "/var/lib/sluice-csi";  // records of partitions, and of drives over fabrics
  std::string sluice = "sluice";
  std::string device_plugins;  // kubelet's folder; "" for no device plugin
  std::string cdi = "/var/run/cdi";
  std::string metrics;          // the address to answer Prometheus at; "" for none
  bool events = false;          // written as objects of the claims
  bool follow_classes = false;  // of volumes: a node brings changed ones to them, a controller agrees to changes
  bool dra = false;             // the plugin for dynamic resource allocation
  std::string kube;             // the API server; "" for the cluster's own
  std::string account = "/var/run/secrets/kubernetes.io/serviceaccount";
  std::string registration;      // kubelet's plugins_registry; "" to be registered by another program
  std::string kubelet_endpoint;  // the socket's path as kubelet sees it; "" when it is the same
};

class DriverState {
 public:
  explicit DriverState(Settings settings);

  // "" when every backend is there; else what is missing. Asking tries again.
  std::string why_not_ready();

  // What is done at each of kubelet's probes, besides. Set before calls are served.
  void at_probe(std::function<void()> action) { at_probe_ = std::move(action); }
  // The drives below the backends, as the scheduler sees them.
  std::vector<DraDrive> drives();
  // Room on them for claims, mounted in this folder.
  std::unique_ptr<ClaimFolders> claim_folders(const std::string& folder);
  // What is done when kubelet has published a volume, or asks for its usage. Set before calls are served.
  void at_sight(std::function<void(const std::string& id, const std::string& target)> action) {
    settings_.service.seen = std::move(action);
  }

  const Settings& settings() const { return settings_; }
  const Volumes& volumes() const { return volumes_; }
  ControllerService& controller() { return controller_; }
  NodeService& node() { return node_; }

 private:
  // Those of `names` that cannot be used yet stay in it; the answer says why.
  template <typename Open>
  static std::string open_all(std::vector<std::string>& names, Open open);

  Settings settings_;
  Volumes volumes_;
  OperationLocks locks_;
  Trials trials_;
  ControllerService controller_;
  NodeService node_;
  std::mutex mutex_;
  std::vector<std::string> missing_pools_;  // that could not be opened
  std::vector<std::string> missing_drives_;
  std::string last_told_;
  std::function<void()> at_probe_;
};

}  // namespace sluice::csi
