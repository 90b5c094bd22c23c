// SPDX-License-Identifier: Apache-2.0
// The controller's calls, without gRPC: what is asked is checked, and given to a backend.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/locks.h"
#include "core/parameters.h"
#include "core/trial.h"
#include "core/volumes.h"

namespace sluice::csi {

struct CreateVolumeCall {
  std::string name;
  Range range;
  std::vector<Capability> capabilities;
  Map parameters;
  Map mutable_parameters;
  Content source;
  // Each is a set of segments; "" of none.
  std::vector<Map> requisite;
};

struct VolumeAnswer {
  Record record;
  Map context;
  Map topology;  // empty for volumes that any node reaches
};

struct CapacityAnswer {
  std::int64_t available = 0;
  std::int64_t largest = 0;
  std::int64_t smallest = 0;
};

struct VolumeList {
  struct Entry {
    VolumeAnswer volume;
    Condition condition;
  };
  std::vector<Entry> entries;
  std::string next;
};

struct SnapshotList {
  std::vector<Record> entries;
  std::string next;
};

struct ServiceOptions {
  Driver driver = Driver::local;
  Names names;
  std::string node;      // its name
  std::string kit;       // the folder that inline volumes show; "" for none
  std::string cgroups;   // the host's /sys/fs/cgroup; "" where bandwidths are not enforced
  std::string features;  // node-feature-discovery's features.d; "" for no label
  // Of a backend's drive; how far from a GPU it is decides which of several is taken.
  std::function<GpuAffinity(const std::string& drive)> affinity;
  // A controller has no volumes: what is to change is checked there, and each node follows the volume's class.
  bool changes_are_followed = false;
  // A volume of this node was changed.
  std::function<void(const std::string& id)> changed;
  // kubelet has published a volume, or asks for its usage.
  std::function<void(const std::string& id, const std::string& target)> seen;
};

class ControllerService {
 public:
  ControllerService(const ServiceOptions& options, Volumes& volumes, OperationLocks& locks)
      : options_(options), volumes_(volumes), locks_(locks) {}

  VolumeAnswer create_volume(const CreateVolumeCall& call);
  void delete_volume(const std::string& id);
  // "" when all capabilities can be had, else why not.
  std::string validate(const std::string& id, const std::vector<Capability>& capabilities, const Map& parameters);
  VolumeList list_volumes(int most, const std::string& token);
  VolumeList::Entry get_volume(const std::string& id);
  CapacityAnswer capacity(const std::vector<Capability>& capabilities, const Map& parameters, const Map& topology);
  Record create_snapshot(const std::string& name, const std::string& volume, const Map& parameters);
  void delete_snapshot(const std::string& id);
  SnapshotList list_snapshots(int most, const std::string& token, const std::string& volume,
                              const std::string& snapshot);
  Record get_snapshot(const std::string& id);
  void modify_volume(const std::string& id, const Map& parameters);

 private:
  VolumeAnswer answer(const Record& record) const;
  Backend& choose(const CreateVolumeCall& call, const ClassParameters& parsed, std::int64_t bytes) const;
  bool is_here(const Map& segments) const;
  bool suits(const Backend& backend, const ClassParameters& parsed) const;

  const ServiceOptions& options_;
  Volumes& volumes_;
  OperationLocks& locks_;
};

// Names and ids: not empty, at most 128 bytes.
void want_text(const std::string& text, const char* field);
void want_capabilities(const std::vector<Capability>& capabilities, const ClassParameters& parsed);

}  // namespace sluice::csi
