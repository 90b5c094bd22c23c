// SPDX-License-Identifier: Apache-2.0
// A device plugin of kubelet: pods ask for sluice.dev/gds, and kubelet tells the runtime which CDI device that is. No
// device is shared out by it, so there are many equal ones.
#pragma once

#include <memory>
#include <string>

#include "core/cdi.h"

namespace sluice::csi {

struct DevicePluginOptions {
  std::string folder;  // kubelet's device-plugins; the same wherever kubelet's root is
  CdiOptions cdi;
};

// Serves until it is destroyed. When kubelet starts anew it empties its folder, and forgets its plugins: the folder is
// watched, and the plugin comes back by itself.
class DevicePlugin {
 public:
  explicit DevicePlugin(DevicePluginOptions options);
  ~DevicePlugin();
  DevicePlugin(const DevicePlugin&) = delete;
  DevicePlugin& operator=(const DevicePlugin&) = delete;

 private:
  class Worker;
  std::unique_ptr<Worker> worker_;
};

}  // namespace sluice::csi
