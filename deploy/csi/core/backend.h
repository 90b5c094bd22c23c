// SPDX-License-Identifier: Apache-2.0
// Where volumes come from. A backend makes, finds, changes and removes them, and brings them to a path of this node.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/mounts.h"
#include "core/parameters.h"
#include "core/record.h"
#include "core/types.h"

namespace sluice::csi {

struct VolumeRequest {
  std::string name;
  Range range;
  Content source;
  Map parameters;
  Map mutable_parameters;
  ClassParameters parsed;  // of `parameters`
};

struct StageRequest {
  std::string id;
  std::string path;
  Capability capability;
  Map volume_context;
  Map publish_context;
};

struct PublishRequest {
  std::string id;
  std::string staging;
  std::string target;
  Capability capability;
  bool read_only = false;
};

// A place in a call at which a crash must lose nothing: tests throw there.
using StepHook = std::function<void(const char*)>;

class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  virtual BackendKind kind() const = 0;
  // What stands for the drive below a volume, or below all of them when the id is empty: a name of /sys/class/block, or
  // of a namespace its uuid. Trials are remembered by it.
  virtual std::string drive(const std::string& id) const = 0;

  virtual std::optional<Record> find(const std::string& id) = 0;
  virtual std::vector<Record> records() = 0;  // volumes and snapshots

  virtual std::int64_t available() = 0;  // bytes that new volumes can have in sum
  virtual std::int64_t largest() = 0;    // that one can have
  virtual std::int64_t smallest() const = 0;
  virtual Record create(const VolumeRequest& request) = 0;
  virtual void remove(const std::string& id) = 0;
  virtual Record grow(const std::string& id, std::int64_t bytes, const std::string& path) = 0;
  virtual Record modify(const std::string& id, const Map& parameters) = 0;
  virtual Record snapshot(const std::string& name, const std::string& volume) = 0;
  virtual void remove_snapshot(const std::string& id) = 0;
  // Keeps what a stage has learnt.
  virtual void keep_notes(const std::string& id, const std::string& direct_path,
                          const std::vector<std::string>& notes) = 0;

  // The answer's notes are options that were left out.
  virtual std::vector<std::string> stage(const StageRequest& request) = 0;
  virtual void unstage(const std::string& id, const std::string& path) = 0;
  virtual bool is_staged(const std::string& id, const std::string& path) = 0;
  virtual void publish(const PublishRequest& request) = 0;
  // Of these mounts those that show this volume, the staging path among them.
  virtual std::vector<facts::Mount> places(const std::string& id, const std::vector<facts::Mount>& mounts) = 0;
  virtual Usage usage(const std::string& id, const std::string& path) = 0;
  virtual Condition condition(const Record& record, const std::vector<facts::Mount>& mounts) = 0;
  // What a trial of the direct path reads; nothing is written.
  virtual std::string trial_file(const std::string& id) = 0;
};

// 16 hexadecimal digits for a name. Where two names have the same, the record's name tells.
std::string digest_of(const std::string& name);

// A mount whose drive is gone: it is listed, and all that is left to do is to unmount it.
bool is_stale(const facts::Mount& mount);
Condition stale_condition(const facts::Mount& mount);

}  // namespace sluice::csi
