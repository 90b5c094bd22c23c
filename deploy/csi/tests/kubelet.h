// SPDX-License-Identifier: Apache-2.0
// A stand-in for kubelet, over the driver's real sockets: it finds plugins in plugins_registry as kubelet does, and
// brings volumes to pods in kubelet's order, under kubelet's paths, with kubelet's retries. What a kubelet remembers is
// gone when it starts anew; what lies in its folders is not.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/unique_fd.h"
#include "tests/driver.h"

namespace sluice::csi {

struct PodVolume {
  std::string pod;   // its uid
  std::string name;  // of the PersistentVolume
  std::string id;    // of the volume; of an inline one kubelet makes it up
  Map context;       // the volume's attributes
  bool inlined = false;
  bool read_only = false;
};

class Kubelet {
 public:
  // `root` is the folder that /var/lib/kubelet is elsewhere. `version` is the only one of CSI that it knows.
  explicit Kubelet(std::string root, std::string version = "1.0.0");
  ~Kubelet();
  Kubelet(const Kubelet&) = delete;
  Kubelet& operator=(const Kubelet&) = delete;

  std::string registry() const { return root_ + "/plugins_registry"; }
  std::string staging(const std::string& driver, const PodVolume& volume) const;
  std::string target(const PodVolume& volume) const;

  // Until the driver is registered (for the `count`th time), or is no more; false after a minute.
  bool await_registered(const std::string& driver, int count = 1);
  bool await_gone(const std::string& driver);
  bool await_refused(const std::string& driver);
  std::string node_of(const std::string& driver);

  // Brings a volume to a pod, and takes it away; errors are tried again as kubelet does, until `attempts` are used up.
  bool mount(const std::string& driver, const PodVolume& volume, int attempts = 200);
  bool unmount(const std::string& driver, const PodVolume& volume, bool last, int attempts = 200);
  std::string last_error();

  // "NodeStageVolume pvc-1 0": every call that was made, in order, with its code.
  std::vector<std::string> calls();

 private:
  struct Plugin {
    std::string socket;
    std::string endpoint;
    std::string node;
    int registered = 0;
    bool there = false;
    bool refused = false;
  };

  void watch();
  void look();
  void meet(const std::string& socket);
  void lose(const std::string& socket);
  void note(const std::string& call, const std::string& volume, int code);
  std::string endpoint_of(const std::string& driver);
  template <typename Done>
  bool await(Done done);
  template <typename Call>
  bool until_ok(const std::string& driver, const char* call, const PodVolume& volume, int& attempts, Call once);

  std::string root_;
  std::string version_;
  base::UniqueFd stop_;
  base::UniqueFd folder_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Plugin> plugins_;       // by the driver's name
  std::map<std::string, std::string> sockets_;  // met ones: the driver's name
  std::vector<std::string> calls_;
  std::string last_error_;
  std::thread thread_;
};

}  // namespace sluice::csi
