// SPDX-License-Identifier: Apache-2.0
// What nvidia-fs.ko counts: /proc/driver/nvidia-fs/stats, peer_distance and peer_affinity, read for what they say.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace sluice::doctor {

using NvfsCounts = std::vector<std::pair<std::string, std::uint64_t>>;  // "readMiB", 12; as the module names them

// A line of `stats`: "Reads", with what is counted of them.
struct NvfsRow {
  std::string name;
  NvfsCounts counts;
};

struct NvfsGpu {
  std::string address;
  std::string uuid;
  NvfsCounts counts;
};

// A GPU and a drive or card. The less the rank, the nearer.
struct NvfsPeer {
  std::string gpu;
  std::string peer;
  std::string kind;            // "nvme", "network"
  std::uint64_t rank = 0;      // distance << 16 | what is missing of the link's speed
  std::uint64_t distance = 0;  // bridges between the two, and one; from 128 on by the root
  std::uint64_t transfers = 0;
};

// Transfers of a GPU by the distance to their peers; the last number is of those by the root.
struct NvfsAffinity {
  std::string gpu;
  std::vector<std::uint64_t> by_distance;
};

struct NvfsReport {
  bool loaded = false;
  std::string version;             // "2.28.4"; "2.28" where only that is told
  bool counts_io = false;          // rw_stats_enabled: else reads and writes are counted as 0, while data flows
  bool counts_peers = false;       // peer_stats_enabled
  std::vector<std::string> hooks;  // drivers; empty as long as no node is open. wekafsio, which is always there, is not
  std::vector<NvfsRow> rows;
  std::vector<NvfsGpu> gpus;
  std::vector<NvfsPeer> peers;
  std::vector<NvfsAffinity> affinities;
};

// `root` as for examine(). Never fails: what cannot be read is not there.
NvfsReport nvfs_report_of(const std::string& root);

// For people.
std::string text_of(const NvfsReport& report);
// The traps of these numbers, a sentence each.
std::vector<std::string> remarks_on(const NvfsReport& report);

}  // namespace sluice::doctor
