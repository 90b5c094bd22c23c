// SPDX-License-Identifier: Apache-2.0
#include "core/parameters.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <charconv>
#include <sstream>
#include <string_view>
#include <utility>

#include "core/bytes.h"
#include "core/refusal.h"

namespace sluice::csi {
namespace {

constexpr std::array local_keys = {"type",        "backend",    "csi.storage.k8s.io/fstype",
                                   "mkfsOptions", "directPath", "gpuAffinity"};
constexpr std::array fabrics_keys = {"type",          "csi.storage.k8s.io/fstype",
                                     "mkfsOptions",   "directPath",
                                     "gpuAffinity",   "nqn",
                                     "uuid",          "addresses",
                                     "transport",     "ctrlLossTmo",
                                     "fastIoFailTmo", "iopolicy"};
// The provisioner adds these; they say whose volume it is and change nothing.
constexpr std::array from_provisioner = {"csi.storage.k8s.io/pv/name", "csi.storage.k8s.io/pvc/name",
                                         "csi.storage.k8s.io/pvc/namespace",
                                         "storage.kubernetes.io/csiProvisionerIdentity"};

template <typename List>
bool holds(const List& list, const std::string& key) {
  for (const char* const each : list) {
    if (key == each) return true;
  }
  return false;
}

template <typename List>
void want_known(const Map& parameters, const List& known) {
  for (const auto& [key, value] : parameters) {
    if (holds(known, key) || holds(from_provisioner, key)) continue;
    refuse(Code::invalid_argument,
           fmt::format("\"{}\" is no parameter of this driver. There are: {}.", key, fmt::join(known, ", ")));
  }
}

std::string value_of(const Map& parameters, const char* key) {
  const auto found = parameters.find(key);
  return found == parameters.end() ? std::string() : found->second;
}

template <typename Value, std::size_t count>
Value one_of(const Map& parameters, const char* key, const std::array<std::pair<const char*, Value>, count>& choices,
             Value usual) {
  const std::string word = value_of(parameters, key);
  if (word.empty()) return usual;
  std::string known;
  for (const auto& [name, value] : choices) {
    if (word == name) return value;
    known += (known.empty() ? "" : ", ") + std::string(name);
  }
  refuse(Code::invalid_argument, fmt::format("{} is \"{}\". It can be: {}.", key, word, known));
}

std::vector<std::string> words_of(const std::string& text) {
  std::string spaced = text;
  for (char& letter : spaced) {
    if (letter == ',') letter = ' ';
  }
  std::istringstream stream(spaced);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

std::optional<int> seconds_of(const Map& parameters, const char* key) {
  const std::string word = value_of(parameters, key);
  if (word.empty()) return std::nullopt;
  int value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size() || value < -1) {
    refuse(Code::invalid_argument, fmt::format("{} is \"{}\". It is a number of seconds, or -1 for ever.", key, word));
  }
  return value;
}

void check_type(const Map& parameters, Driver driver, const Names& names) {
  const std::string type = value_of(parameters, "type");
  if (type.empty()) return;
  if (type != "nvme-local" && type != "nvme-of") {
    refuse(Code::invalid_argument, fmt::format("type is \"{}\". It can be: nvme-local, nvme-of.", type));
  }
  const Driver meant = type == "nvme-local" ? Driver::local : Driver::fabrics;
  if (meant != driver) {
    refuse(Code::invalid_argument,
           fmt::format("type {} belongs to the provisioner {}, and this is {}. Name that one in "
                       "the StorageClass.",
                       type, names.of(meant), names.of(driver)));
  }
}

BackendKind backend_of(const Map& parameters) {
  const std::string word = value_of(parameters, "backend");
  if (word == "lvm") {
    refuse(
        Code::invalid_argument,
        "backend is \"lvm\". Device-mapper targets refuse transfers into GPU memory, so that a logical volume has no "
        "direct path. Use backend directory or partition.");
  }
  static constexpr std::array<std::pair<const char*, BackendKind>, 2> kinds = {
      {{"directory", BackendKind::directory}, {"partition", BackendKind::partition}}};
  return one_of(parameters, "backend", kinds, BackendKind::directory);
}

FabricsParameters fabrics_of(const Map& parameters) {
  FabricsParameters fabrics;
  fabrics.nqn = value_of(parameters, "nqn");
  fabrics.uuid = value_of(parameters, "uuid");
  fabrics.addresses = words_of(value_of(parameters, "addresses"));
  static constexpr std::array<std::pair<const char*, const char*>, 2> transports = {{{"tcp", "tcp"}, {"rdma", "rdma"}}};
  fabrics.transport = one_of(parameters, "transport", transports, "tcp");
  fabrics.ctrl_loss_tmo = seconds_of(parameters, "ctrlLossTmo");
  fabrics.fast_io_fail_tmo = seconds_of(parameters, "fastIoFailTmo");
  static constexpr std::array<std::pair<const char*, const char*>, 3> policies = {
      {{"numa", "numa"}, {"round-robin", "round-robin"}, {"queue-depth", "queue-depth"}}};
  fabrics.iopolicy = one_of(parameters, "iopolicy", policies, "");
  if (fabrics.nqn.size() > 223 || fabrics.nqn.find_first_of(",\n") != std::string::npos) {
    refuse(Code::invalid_argument,
           "nqn has more than 223 bytes, a comma or a line end. Write it as the target tells it.");
  }
  return fabrics;
}

}  // namespace

ClassParameters parse_parameters(const Map& parameters, Driver driver, const Names& names) {
  check_type(parameters, driver, names);
  driver == Driver::local ? want_known(parameters, local_keys) : want_known(parameters, fabrics_keys);
  ClassParameters parsed;
  static constexpr std::array<std::pair<const char*, const char*>, 2> systems = {{{"xfs", "xfs"}, {"ext4", "ext4"}}};
  parsed.fs_type = one_of(parameters, "csi.storage.k8s.io/fstype", systems, "");
  parsed.mkfs_options = words_of(value_of(parameters, "mkfsOptions"));
  static constexpr std::array<std::pair<const char*, DirectPath>, 3> wishes = {
      {{"require", DirectPath::require}, {"prefer", DirectPath::prefer}, {"off", DirectPath::off}}};
  parsed.direct_path = one_of(parameters, "directPath", wishes, DirectPath::prefer);
  static constexpr std::array<std::pair<const char*, GpuAffinity>, 3> places = {
      {{"root", GpuAffinity::root}, {"numa", GpuAffinity::numa}, {"any", GpuAffinity::any}}};
  parsed.gpu_affinity = one_of(parameters, "gpuAffinity", places, GpuAffinity::any);
  if (driver == Driver::fabrics) {
    parsed.backend = BackendKind::nvme_of;
    parsed.fabrics = fabrics_of(parameters);
    return parsed;
  }
  parsed.backend = backend_of(parameters);
  if (parsed.backend != BackendKind::directory) return parsed;
  if (!parsed.mkfs_options.empty()) {
    refuse(
        Code::invalid_argument,
        "mkfsOptions are given with backend directory, whose file system is made once for the drive. Take them out, or "
        "use backend partition.");
  }
  if (parsed.fs_type == "ext4") {
    refuse(
        Code::invalid_argument,
        "fstype is ext4 with backend directory, which lies on xfs: its quotas limit volumes and its shared blocks make "
        "snapshots. Use xfs, or backend partition.");
  }
  return parsed;
}

std::optional<std::int64_t> parse_bandwidth(const Map& parameters) {
  return parse_quantity(value_of(parameters, "bandwidth"));
}

MutableParameters parse_mutable(const Map& parameters, Driver driver) {
  constexpr std::array local = {"bandwidth"};
  constexpr std::array fabrics = {"bandwidth", "ctrlLossTmo", "fastIoFailTmo"};
  driver == Driver::local ? want_known(parameters, local) : want_known(parameters, fabrics);
  MutableParameters parsed;
  const std::string bandwidth = value_of(parameters, "bandwidth");
  if (!bandwidth.empty() && bandwidth != no_limit) {
    parsed.bandwidth = parse_bandwidth(parameters);
    if (!parsed.bandwidth || *parsed.bandwidth == 0) {
      refuse(Code::invalid_argument,
             fmt::format("bandwidth is \"{}\". It is bytes a second, such as 5G or 500Mi, or max for no limit.",
                         bandwidth));
    }
  }
  parsed.ctrl_loss_tmo = seconds_of(parameters, "ctrlLossTmo");
  parsed.fast_io_fail_tmo = seconds_of(parameters, "fastIoFailTmo");
  return parsed;
}

void check_capability(const Capability& capability, const ClassParameters& parameters) {
  if (capability.type == AccessType::none) {
    refuse(Code::invalid_argument, "The capability is neither mount nor block. Set one of them.");
  }
  switch (capability.mode) {
    case AccessMode::unknown:
      refuse(Code::invalid_argument, "The capability has no access mode. Set one.");
    case AccessMode::multi_node_multi_writer:
    case AccessMode::multi_node_single_writer:
    case AccessMode::multi_node_reader_only:
      refuse(Code::invalid_argument,
             "The access mode wants several nodes, and such a volume is used by one at a time. Use ReadWriteOnce or "
             "ReadWriteOncePod.");
    default:
      break;
  }
  if (capability.type == AccessType::block && parameters.backend == BackendKind::directory) {
    refuse(
        Code::invalid_argument,
        "A raw device is asked of backend directory, which has none. Use backend partition, or volumeMode Filesystem.");
  }
  const std::string& system = capability.fs_type;
  if (capability.type != AccessType::mount || system.empty()) return;
  if (system != "xfs" && system != "ext4") {
    refuse(Code::invalid_argument, fmt::format("The file system is \"{}\". It can be: xfs, ext4.", system));
  }
  if (system == "ext4" && parameters.backend == BackendKind::directory) {
    refuse(Code::invalid_argument, "The file system is ext4 with backend directory, which lies on xfs. Use xfs.");
  }
}

const char* name_of(BackendKind kind) {
  switch (kind) {
    case BackendKind::directory:
      return "directory";
    case BackendKind::partition:
      return "partition";
    case BackendKind::nvme_of:
      break;
  }
  return "nvme-of";
}

const char* name_of(DirectPath wish) {
  switch (wish) {
    case DirectPath::off:
      return "off";
    case DirectPath::prefer:
      return "prefer";
    case DirectPath::require:
      break;
  }
  return "require";
}

}  // namespace sluice::csi
