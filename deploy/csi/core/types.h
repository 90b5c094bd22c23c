// SPDX-License-Identifier: Apache-2.0
// What the services speak of, without gRPC: capabilities, sizes, contents, conditions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace sluice::csi {

using Map = std::map<std::string, std::string>;

// The numbers are the protocol's.
enum class AccessMode : std::uint8_t {
  unknown = 0,
  single_node_writer = 1,
  single_node_reader_only = 2,
  multi_node_reader_only = 3,
  multi_node_single_writer = 4,
  multi_node_multi_writer = 5,
  single_node_single_writer = 6,
  single_node_multi_writer = 7,
};

enum class AccessType : std::uint8_t { none, mount, block };

struct Capability {
  AccessType type = AccessType::none;
  std::string fs_type;
  std::vector<std::string> mount_flags;
  AccessMode mode = AccessMode::unknown;
};

// Bytes; 0 is "not said".
struct Range {
  std::int64_t required = 0;
  std::int64_t limit = 0;
};

enum class ContentKind : std::uint8_t { empty, snapshot, volume };

struct Content {
  ContentKind kind = ContentKind::empty;
  std::string id;
  bool operator==(const Content&) const = default;
};

struct Condition {
  bool abnormal = false;
  std::string message;
};

struct Usage {
  std::int64_t total = 0;
  std::int64_t used = 0;
  std::int64_t available = 0;
  std::int64_t total_inodes = 0;  // 0: not told, as for a raw device
  std::int64_t used_inodes = 0;
  std::int64_t free_inodes = 0;
};

}  // namespace sluice::csi
