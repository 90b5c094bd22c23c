// SPDX-License-Identifier: Apache-2.0
// Brings a changed VolumeAttributesClass to the volumes of this node. external-resizer asks one controller, which has
// no volume; once it agrees, the class stands in the PersistentVolume, and there each node reads it.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "core/types.h"
#include "core/work_queue.h"

namespace sluice::csi {

struct FollowerOptions {
  std::string kube;     // the API server; "" for the cluster's own
  std::string account;  // the folder with the service account's token
  std::string driver;   // its name
  // Changes a volume of this node; what it throws is logged, and tried again the next time.
  std::function<void(const std::string& id, const Map& parameters)> change;
};

// Calls do not wait for it. It asks only when it is told to look, which is when kubelet asks about a volume itself.
class ClassFollower {
 public:
  explicit ClassFollower(FollowerOptions options);

  // `target`: the path in a pod's folder, which names the PersistentVolume.
  void look(const std::string& id, const std::string& target);

 private:
  struct Volume {
    std::string id;
    std::string persistent;
  };
  void follow(const Volume& volume);

  FollowerOptions options_;
  std::mutex mutex_;
  std::set<std::string> waiting_;             // ids
  std::map<std::string, std::string> class_;  // by id: what was followed last
  std::map<std::string, std::string> told_;   // by id: why it could not be followed, as it was logged last
  WorkQueue<Volume> queue_;                   // last: its thread uses the others
};

}  // namespace sluice::csi
