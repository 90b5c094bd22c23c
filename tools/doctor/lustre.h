// SPDX-License-Identifier: Apache-2.0
// How Lustre spreads a file over its servers: the extended attribute "lustre.lov", and what is to be said of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/report.h"

namespace sluice::doctor {

struct Machine;

// One piece of the file, from `begin` up to `end`, dealt out in stripes. A plain layout is one such piece.
struct LustreComponent {
  std::uint64_t begin = 0;
  std::uint64_t end = UINT64_MAX;
  bool on_metadata_server = false;
  std::uint32_t stripe_size = 0;
  std::uint32_t stripes = 0;           // 0: as the file system has it; of a folder, every_target for all
  std::vector<std::uint32_t> targets;  // the OSTs; empty where none is chosen yet
  std::string pool;
};
inline constexpr std::uint32_t every_target = 0xffff;

struct LustreLayout {
  std::vector<LustreComponent> components;
  unsigned mirrors = 1;
};

// Nothing where the bytes are no layout that is known, or end too early.
std::optional<LustreLayout> parse_lustre_layout(std::string_view attribute);

// The attribute of a file or folder of the running machine, as a line for the probes; "" where it has none.
std::string lustre_line(const std::string& path);

// The parameters of the client, below /sys/fs/lustre and /proc/fs/lustre, and the layouts of files that were named.
void judge_lustre(const Machine& machine, Report& report);
// The layout of a file or folder of the running machine; nothing where it is on no Lustre.
void judge_named_file(const std::string& path, Report& report);

}  // namespace sluice::doctor
