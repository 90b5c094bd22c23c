// SPDX-License-Identifier: Apache-2.0
// The node's calls, without gRPC. What is true is asked of the kernel each time: which mounts there are, and of what.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "core/controller_service.h"
#include "core/locks.h"
#include "core/trial.h"
#include "core/volumes.h"

namespace sluice::csi {

struct PublishCall {
  PublishRequest request;
  Map volume_context;
};

struct StatsAnswer {
  Usage usage;
  Condition condition;
};

class NodeService {
 public:
  NodeService(const ServiceOptions& options, Volumes& volumes, OperationLocks& locks, Trials& trials)
      : options_(options), volumes_(volumes), locks_(locks), trials_(trials) {}

  void stage(const StageRequest& request);
  void unstage(const std::string& id, const std::string& path);
  void publish(const PublishCall& call);
  void unpublish(const std::string& id, const std::string& target);
  StatsAnswer stats(const std::string& id, const std::string& path);
  std::int64_t expand(const std::string& id, const std::string& path, const Range& range);
  // Keeps the pods that have this volume to what its record says by now.
  void keep_to_bandwidth(const std::string& id);

 private:
  Backend& backend_of(const StageRequest& request);
  void try_direct_path(Backend& backend, const StageRequest& request, const ClassParameters& parsed,
                       const std::vector<std::string>& notes);
  void publish_kit(const PublishRequest& request);
  // Of all volumes that this pod has on a drive the sum; no limit where one of them has none.
  void limit_bandwidth(const std::string& pod, const std::string& id);
  bool shows_kit(const facts::Mount& mount) const;

  const ServiceOptions& options_;
  Volumes& volumes_;
  OperationLocks& locks_;
  Trials& trials_;
  std::mutex told_mutex_;
  std::map<std::string, std::string> told_;  // by pod: why its bandwidth is not enforced, as it was logged last
};

// An absolute path of at most 4096 bytes without "..".
void want_path(const std::string& path, const char* field);

}  // namespace sluice::csi
