// SPDX-License-Identifier: Apache-2.0
// Lines are taken by their shape, not by their number: versions of the module have more or fewer.
#include "doctor/nvfs_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "doctor/tree.h"
#include "facts/nvfs.h"
#include "facts/read.h"

namespace sluice::doctor {
namespace {

constexpr const char* folder = "/proc/driver/nvidia-fs/";

// "n=1 ok=1 Avg-Latency(usec)=20"
NvfsCounts counts_in(std::string_view text) {
  NvfsCounts counts;
  for (const std::string& word : words(text)) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos) continue;
    const std::optional<std::int64_t> value = to_number(word.substr(equals + 1));
    if (value && *value >= 0) counts.emplace_back(word.substr(0, equals), static_cast<std::uint64_t>(*value));
  }
  return counts;
}

// "2.28.4" of "NVFS Driver(version: 2.28.4)".
std::string version_in_line(std::string_view line) {
  const std::size_t colon = line.find(':');
  const std::size_t end = line.find(')', colon);
  return std::string(facts::trimmed(line.substr(colon + 1, end - colon - 1)));
}

// "GPU 0000:65:00.0 uuid:00-11 : Registered_MiB=1"
NvfsGpu gpu_in(const std::string& line) {
  constexpr std::string_view label = "uuid:";
  NvfsGpu gpu;
  for (const std::string& word : words(line)) {
    if (word.starts_with(label)) gpu.uuid = word.substr(label.size());
    if (gpu.address.empty() && word != "GPU") gpu.address = word;
  }
  gpu.counts = counts_in(line);
  return gpu;
}

void read_statistics(const std::string& text, NvfsReport& report) {
  for (const std::string& line : split(text, '\n')) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string name(facts::trimmed(std::string_view(line).substr(0, colon)));
    if (line.starts_with("NVFS Driver(")) {
      report.version = version_in_line(line);
    } else if (line.starts_with("IO stats")) {
      report.counts_io = contains(line, "IO stats: Enabled,");
      report.counts_peers = contains(line, "peer IO stats: Enabled");
    } else if (line.starts_with("GPU ")) {
      report.gpus.push_back(gpu_in(line));
    } else if (NvfsCounts counts = counts_in(std::string_view(line).substr(colon + 1)); !counts.empty()) {
      // Some rows have two lines.
      if (!report.rows.empty() && report.rows.back().name == name) {
        auto& known = report.rows.back().counts;
        known.insert(known.end(), counts.begin(), counts.end());
      } else {
        report.rows.push_back({name, std::move(counts)});
      }
    } else if (const auto value = to_number(facts::trimmed(std::string_view(line).substr(colon + 1)));
               value && *value >= 0) {
      report.rows.push_back({name, {{"n", static_cast<std::uint64_t>(*value)}}});
    }
  }
}

std::uint64_t hexadecimal(std::string_view text) {
  if (text.starts_with("0x")) text.remove_prefix(2);
  return static_cast<std::uint64_t>(std::max<std::int64_t>(to_number(text, 16).value_or(0), 0));
}

// gpu, peer, rank, distance, link, generation, NUMA node, transfers, class.
void read_distances(const std::string& text, NvfsReport& report) {
  constexpr std::size_t columns = 9;
  for (const std::string& line : split(text, '\n')) {
    const std::vector<std::string> row = words(line);
    if (row.size() < columns || !contains(row[0], ":")) continue;
    const std::int64_t transfers = std::max<std::int64_t>(to_number(row[7]).value_or(0), 0);
    report.peers.push_back(
        {row[0], row[1], row[8], hexadecimal(row[2]), hexadecimal(row[3]), static_cast<std::uint64_t>(transfers)});
  }
}

// "GPU :0000:34:00.0 :0 0 5"
void read_affinities(const std::string& text, NvfsReport& report) {
  constexpr std::string_view label = "GPU :";
  for (const std::string& line : split(text, '\n')) {
    if (!line.starts_with(label)) continue;
    const std::size_t behind = line.find(" :", label.size());
    if (behind == std::string::npos) continue;
    NvfsAffinity affinity{std::string(facts::trimmed(line.substr(label.size(), behind - label.size()))), {}};
    for (const std::string& number : words(std::string_view(line).substr(behind + 2))) {
      affinity.by_distance.push_back(
          static_cast<std::uint64_t>(std::max<std::int64_t>(to_number(number).value_or(0), 0)));
    }
    report.affinities.push_back(std::move(affinity));
  }
}

std::string counts_text(const NvfsCounts& counts) {
  std::string text;
  for (const auto& [name, value] : counts) text += fmt::format("  {}={}", name, value);
  return text;
}

}  // namespace

NvfsReport nvfs_report_of(const std::string& root) {
  const Tree tree{facts::Root(root)};
  const facts::NvfsFacts facts = facts::of_nvfs(tree.root());
  NvfsReport report;
  report.loaded = facts.loaded;
  report.version = facts.version;
  report.hooks = facts.hooked;
  read_statistics(tree.text(std::string(folder) + "stats"), report);
  read_distances(tree.text(std::string(folder) + "peer_distance"), report);
  read_affinities(tree.text(std::string(folder) + "peer_affinity"), report);
  return report;
}

std::vector<std::string> remarks_on(const NvfsReport& report) {
  if (!report.loaded) return {};
  std::vector<std::string> remarks;
  if (!report.counts_io) {
    remarks.emplace_back(
        "reads and writes are not counted (parameter rw_stats_enabled of nvidia_fs is 0): their zeros say nothing");
  }
  if (!report.counts_peers) {
    remarks.emplace_back("transfers by peer are not counted (parameter peer_stats_enabled of nvidia_fs is 0)");
  }
  if (report.hooks.empty()) {
    remarks.emplace_back(
        "no driver has taken hooks, or no process has a node of the module open just now; the line of wekafsio, which "
        "is "
        "always there, is left out");
  }
  return remarks;
}

std::string text_of(const NvfsReport& report) {
  if (!report.loaded) return "nvidia-fs.ko is not loaded\n";
  std::string text = fmt::format("nvidia-fs {}, hooks: {}\n", report.version.empty() ? "?" : report.version,
                                 report.hooks.empty() ? "none" : joined(report.hooks, ", "));
  for (const NvfsRow& row : report.rows) text += fmt::format("{:<30}{}\n", row.name, counts_text(row.counts));
  for (const NvfsGpu& gpu : report.gpus)
    text += fmt::format("GPU {} {}{}\n", gpu.address, gpu.uuid, counts_text(gpu.counts));
  for (const NvfsPeer& peer : report.peers) {
    text += fmt::format("GPU {} to {} {}: distance {}{}, {} transfers\n", peer.gpu, peer.kind, peer.peer, peer.distance,
                        peer.distance >= 128 ? " (by the root)" : "", peer.transfers);
  }
  for (const NvfsAffinity& affinity : report.affinities) {
    if (affinity.by_distance.empty()) continue;
    text += fmt::format("GPU {}: transfers by distance {}; by the root {}\n", affinity.gpu,
                        fmt::join(affinity.by_distance.begin(), affinity.by_distance.end() - 1, " "),
                        affinity.by_distance.back());
  }
  for (const std::string& remark : remarks_on(report)) text += "note: " + remark + "\n";
  return text;
}

}  // namespace sluice::doctor
