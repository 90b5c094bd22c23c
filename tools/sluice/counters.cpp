// SPDX-License-Identifier: Apache-2.0
#include "sluice/counters.h"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "common/text.h"
#include "gds_stats/report.h"
#include "sluice.h"

namespace sluice::tools {
namespace {

// Of what is written in words: what this tool has no word for is left out.
Sample sample_of(const Testimony& testimony) {
  Sample sample;
  for (int path = 0; path < SLUICE_PATH_COUNT; ++path) {
    for (int reason = 0; reason < SLUICE_REASON_COUNT; ++reason) {
      const auto found =
          testimony.traffic().find(fmt::format("{} ({})", sluice_path_name(static_cast<sluice_path_t>(path)),
                                               sluice_reason_name(static_cast<sluice_reason_t>(reason))));
      if (found == testimony.traffic().end()) continue;
      const Traffic& sum = found->second;
      way_in(sample, path, reason) = {sum.reads, sum.read_bytes, sum.writes, sum.written_bytes, 0};
    }
  }
  return sample;
}

void print_table(const RunOptions& options, const Testimony& testimony) {
  fmt::print(stderr, "sluice: {}{}\n", printable(options.command.front()),
             testimony.complete() ? "" : " (a process ended before it could tell all: these are at least)");
  fmt::print(stderr, "{:<44} {:>10} {:>12} {:>10} {:>12}\n", "path (reason)", "reads", "bytes", "writes", "bytes");
  for (const auto& [way, sum] : testimony.traffic()) {
    fmt::print(stderr, "{:<44} {:>10} {:>12} {:>10} {:>12}\n", printable(way), sum.reads, format_bytes(sum.read_bytes),
               sum.writes, format_bytes(sum.written_bytes));
  }
  if (testimony.traffic().empty()) fmt::print(stderr, "no I/O through cuFile\n");
}

}  // namespace

void print_counters(const RunOptions& options, const Testimony& testimony) {
  if (options.ending == Ending::counters) return print_table(options, testimony);
  nlohmann::ordered_json json;
  json["program"] = options.command.front();
  json["complete"] = testimony.complete();
  const nlohmann::ordered_json all = metrics_json(sample_of(testimony), 1);
  json["metrics"] = nlohmann::ordered_json::object();
  for (const char* name : {"sluice_transfers_total", "sluice_transferred_bytes_total"}) {
    json["metrics"][name] = all.contains(name) ? all[name] : nlohmann::ordered_json::array();
  }
  fmt::print(stderr, "{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace sluice::tools
