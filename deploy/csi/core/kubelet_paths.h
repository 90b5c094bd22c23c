// SPDX-License-Identifier: Apache-2.0
// What a target path tells, as kubelet makes them: ROOT/pods/POD/volumes/kubernetes.io~csi/NAME/mount for file systems,
// ROOT/plugins/kubernetes.io/csi/volumeDevices/publish/NAME/POD for raw devices. "" for other paths.
#pragma once

#include <string>

namespace sluice::csi {

// The pod's uid.
std::string pod_of(const std::string& target);
// The PersistentVolume's name.
std::string persistent_volume_of(const std::string& target);

}  // namespace sluice::csi
