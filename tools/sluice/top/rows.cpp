// SPDX-License-Identifier: Apache-2.0
#include "sluice/top/rows.h"

#include <algorithm>

#include "gds_stats/latency.h"
#include "gds_stats/link.h"
#include "gds_stats/metrics.h"

namespace sluice::tools {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t longest_history = 60;

std::uint64_t bytes_of(const sluice_stats_way& way) {
  return plus(way.read_bytes, way.written_bytes);
}

// The way with the most bytes of those that `counts` lets through; false where there is none.
template <typename Counts>
bool find_way(const Sample& sample, const Counts& counts, sluice_path_t& path, sluice_reason_t& reason) {
  std::uint64_t most = 0;
  for (int i = 0; i < SLUICE_PATH_COUNT; ++i) {
    for (int j = 0; j < SLUICE_REASON_COUNT; ++j) {
      const std::uint64_t bytes = bytes_of(way_of(sample, i, j));
      if (bytes <= most || !counts(static_cast<sluice_path_t>(i))) continue;
      most = bytes;
      path = static_cast<sluice_path_t>(i);
      reason = static_cast<sluice_reason_t>(j);
    }
  }
  return most > 0;
}

void add_ways(const Sample& more, const Sample& all, TopRow& row) {
  const auto any = [](sluice_path_t) { return true; };
  const auto detour = [](sluice_path_t path) { return path != SLUICE_PATH_P2PDMA && path != SLUICE_PATH_NVFS; };
  row.has_way = find_way(more, any, row.path, row.reason) || find_way(all, any, row.path, row.reason);
  sluice_path_t path = SLUICE_PATH_POSIX;
  row.has_detour = find_way(more, detour, path, row.detour) || find_way(all, detour, path, row.detour);
}

void add_latencies_of(const Sample& more, TopRow& row) {
  std::vector<std::uint64_t> counts;
  for (std::size_t direction = 0; direction < 2; ++direction) {
    for (std::size_t path = 0; path < SLUICE_PATH_COUNT; ++path) {
      for (std::size_t size_class = 0; size_class < SLUICE_STATS_CLASS_COUNT; ++size_class) {
        add_counts(latencies_of(more, direction, path, size_class), counts);
      }
    }
  }
  row.p50 = quantile(counts, 0.5);
  row.p99 = quantile(counts, 0.99);
}

void add_gpus(const Sample& more, double seconds, TopRow& row) {
  for (std::size_t i = 0; i < SLUICE_STATS_DEVICE_COUNT; ++i) {
    const auto& directions = more.sum.devices[i].directions;
    const std::uint64_t bytes = std::max(directions[0].bytes, directions[1].bytes);
    if (bytes == 0 && more.registered_bytes[i] == 0) continue;
    GpuShare share{i, gpu_name(more.uuids[i]), static_cast<double>(bytes) / seconds, 0};
    const std::uint64_t link = link_bytes_per_second(more.pci[i]);
    if (link != 0) share.share = share.bytes / static_cast<double>(link);
    row.gpus.push_back(std::move(share));
  }
  std::ranges::stable_sort(row.gpus, std::ranges::greater{}, &GpuShare::bytes);
}

}  // namespace

std::vector<TopRow> TopRows::look() {
  follower_.look();
  const Clock::time_point now = Clock::now();
  seconds_ = std::max(1e-3, std::chrono::duration<double>(now - then_).count());
  const bool first = then_ == Clock::time_point{};
  then_ = now;
  std::map<Key, Before> looked;
  std::vector<TopRow> rows;
  for (const auto& process : follower_.processes()) {
    const Key key{process->pid(), process->started()};
    const auto known = before_.find(key);
    Before next{process->total(), known == before_.end() ? std::deque<double>() : std::move(known->second.history)};
    // What it has done before it was first seen was not done since.
    const Sample more = since(process->total(), known == before_.end() ? process->total() : known->second.sample, 0);
    TopRow row;
    row.pid = process->pid();
    row.started = process->started();
    row.program = process->program();
    row.ended = process->has_ended();
    row.level = process->total().level;
    row.read_bytes = static_cast<double>(whole_direction(more.sum, 0).bytes) / seconds_;
    row.write_bytes = static_cast<double>(whole_direction(more.sum, 1).bytes) / seconds_;
    row.errors = plus(whole_direction(process->total().sum, 0).operations.err,
                      whole_direction(process->total().sum, 1).operations.err);
    row.under_way = more.under_way[0] + more.under_way[1];
    add_ways(more, process->total(), row);
    add_latencies_of(more, row);
    add_gpus(more, seconds_, row);
    if (!first) next.history.push_back(row.read_bytes + row.write_bytes);
    if (next.history.size() > longest_history) next.history.pop_front();
    row.history.assign(next.history.begin(), next.history.end());
    rows.push_back(std::move(row));
    looked.emplace(key, std::move(next));
  }
  before_ = std::move(looked);
  std::ranges::stable_sort(rows, [](const TopRow& a, const TopRow& b) {
    if (a.ended != b.ended) return b.ended;
    const double busy_a = a.read_bytes + a.write_bytes;
    const double busy_b = b.read_bytes + b.write_bytes;
    return busy_a != busy_b ? busy_a > busy_b : a.pid < b.pid;
  });
  return rows;
}

nlohmann::ordered_json top_json(const std::vector<TopRow>& rows, double seconds) {
  nlohmann::ordered_json json;
  json["seconds"] = seconds;
  nlohmann::ordered_json& processes = json["processes"] = nlohmann::ordered_json::array();
  for (const TopRow& row : rows) {
    nlohmann::ordered_json one;
    one["pid"] = row.pid;
    one["program"] = row.program;
    one["ended"] = row.ended;
    one["level"] = row.level;
    one["read_bytes_per_second"] = row.read_bytes;
    one["written_bytes_per_second"] = row.write_bytes;
    one["p50_seconds"] = row.p50 > 0 ? nlohmann::ordered_json(row.p50 / 1e9) : nlohmann::ordered_json();
    one["p99_seconds"] = row.p99 > 0 ? nlohmann::ordered_json(row.p99 / 1e9) : nlohmann::ordered_json();
    one["under_way"] = row.under_way;
    one["errors"] = row.errors;
    one["path"] = row.has_way ? nlohmann::ordered_json(sluice_path_name(row.path)) : nlohmann::ordered_json();
    one["reason"] = row.has_way ? nlohmann::ordered_json(sluice_reason_name(row.reason)) : nlohmann::ordered_json();
    nlohmann::ordered_json& gpus = one["gpus"] = nlohmann::ordered_json::array();
    for (const GpuShare& gpu : row.gpus) {
      gpus.push_back({{"gpu", gpu.gpu},
                      {"UUID", gpu.name},
                      {"bytes_per_second", gpu.bytes},
                      {"link_share", gpu.share > 0 ? nlohmann::ordered_json(gpu.share) : nlohmann::ordered_json()}});
    }
    processes.push_back(std::move(one));
  }
  return json;
}

}  // namespace sluice::tools
