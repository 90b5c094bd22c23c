// SPDX-License-Identifier: Apache-2.0
// What a StorageClass, a VolumeAttributesClass and a volume's attributes say, checked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/types.h"

namespace sluice::csi {

// Which of the two drivers this process is: growth, attaching and topology are read once a name.
enum class Driver : std::uint8_t { local, fabrics };

enum class BackendKind : std::uint8_t { directory, partition, nvme_of };
enum class DirectPath : std::uint8_t { off, prefer, require };
enum class GpuAffinity : std::uint8_t { any, numa, root };

// "csi.sluice.dev" and "nvmf.csi.sluice.dev", for the domain that is set.
struct Names {
  std::string domain = "sluice.dev";
  std::string local() const { return "csi." + domain; }
  std::string fabrics() const { return "nvmf.csi." + domain; }
  std::string of(Driver driver) const { return driver == Driver::local ? local() : fabrics(); }
  std::string topology_key() const { return "topology." + local() + "/node"; }
};

struct FabricsParameters {
  std::string nqn;
  std::string uuid;                    // of the namespace
  std::vector<std::string> addresses;  // "192.168.1.4:4420"
  std::string transport = "tcp";
  std::optional<int> ctrl_loss_tmo;  // seconds; -1 is for ever
  std::optional<int> fast_io_fail_tmo;
  std::string iopolicy;  // "" leaves the kernel's
};

struct ClassParameters {
  BackendKind backend = BackendKind::directory;
  std::string fs_type;  // "" is the backend's usual one
  std::vector<std::string> mkfs_options;
  DirectPath direct_path = DirectPath::prefer;
  GpuAffinity gpu_affinity = GpuAffinity::any;
  FabricsParameters fabrics;
};

// Refused as INVALID_ARGUMENT: unknown keys (the answer lists those that there are), unknown values, and a type that is
// the other driver's (the answer names it).
ClassParameters parse_parameters(const Map& parameters, Driver driver, const Names& names);

struct MutableParameters {
  std::optional<std::int64_t> bandwidth;  // bytes a second
  std::optional<int> ctrl_loss_tmo;
  std::optional<int> fast_io_fail_tmo;
};
// The word for a bandwidth that is lifted: a class cannot take a parameter away, because what it lacks stays as it was.
constexpr const char* no_limit = "max";
// Bytes a second of what was checked already; nothing for no limit.
std::optional<std::int64_t> parse_bandwidth(const Map& parameters);
MutableParameters parse_mutable(const Map& parameters, Driver driver);

// "csi.sluice.dev" takes what one node can do; drives over fabrics can be read by many.
void check_capability(const Capability& capability, const ClassParameters& parameters);

const char* name_of(BackendKind kind);
const char* name_of(DirectPath wish);

}  // namespace sluice::csi
