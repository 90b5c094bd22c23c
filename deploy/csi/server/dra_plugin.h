// SPDX-License-Identifier: Apache-2.0
// A plugin of dynamic resource allocation: the node's drives go to the API server as a ResourceSlice, and claims that
// the scheduler has met are prepared for their pods.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/cdi.h"
#include "core/claim_folders.h"
#include "core/dra.h"

namespace sluice::csi {

struct DraOptions {
  std::string socket;            // to serve at
  std::string kubelet_endpoint;  // the same as kubelet sees it
  std::string registration;      // kubelet's plugins_registry
  std::string kube;              // the API server; "" for the cluster's own
  std::string account;           // the folder with the service account's token
  std::string cgroups;           // "" where bandwidths are not enforced
  DraNames names;
  CdiOptions cdi;
  CdiOptions claims;  // of the devices that claims have for themselves
  std::function<std::vector<DraDrive>()> drives;
  std::unique_ptr<ClaimFolders> folders;
};

// Serves until it is destroyed. Sleeps unless it is asked or woken.
class DraPlugin {
 public:
  explicit DraPlugin(DraOptions options);
  ~DraPlugin();
  DraPlugin(const DraPlugin&) = delete;
  DraPlugin& operator=(const DraPlugin&) = delete;

  // Brings the slice to the server if that has not succeeded yet, or drives have changed. Returns at once.
  void wake();

 private:
  class Worker;
  std::unique_ptr<Worker> worker_;
};

}  // namespace sluice::csi
