// SPDX-License-Identifier: Apache-2.0
#include "sluice/counters.h"

#include <fmt/format.h>

#include <iterator>
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

std::string table_of(const RunOptions& options, const Testimony& testimony, const std::string& absence) {
  const std::string program = printable(options.command.front());
  if (!absence.empty()) return fmt::format("sluice: {} mapped no libcufile of Sluice: {}\n", program, absence);
  if (testimony.traffic().empty()) {
    return fmt::format("sluice: {}: {}\n", program,
                       testimony.complete()
                           ? "no I/O through cuFile"
                           : "it ended before it could tell what it has done (while it runs: sluice top)");
  }
  std::string text =
      fmt::format("sluice: {}{}\n", program,
                  testimony.complete() ? "" : " (a process ended before it could tell all: these are at least)");
  const auto row = [&text](const auto&... cells) {
    fmt::format_to(std::back_inserter(text), "{:<44} {:>10} {:>12} {:>10} {:>12}\n", cells...);
  };
  row("path (reason)", "reads", "bytes", "writes", "bytes");
  for (const auto& [way, sum] : testimony.traffic()) {
    row(printable(way), sum.reads, format_bytes(sum.read_bytes), sum.writes, format_bytes(sum.written_bytes));
  }
  return text;
}

std::string json_of(const RunOptions& options, const Testimony& testimony, const std::string& absence) {
  nlohmann::ordered_json json;
  json["program"] = options.command.front();
  json["complete"] = testimony.complete();
  if (!absence.empty()) json["no_library"] = absence;
  const nlohmann::ordered_json all = metrics_json(sample_of(testimony), 1);
  json["metrics"] = nlohmann::ordered_json::object();
  for (const char* name : {"sluice_transfers_total", "sluice_transferred_bytes_total"}) {
    json["metrics"][name] = all.contains(name) ? all[name] : nlohmann::ordered_json::array();
  }
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string counters_text(const RunOptions& options, const Testimony& testimony, const std::string& absence) {
  return options.ending == Ending::counters ? table_of(options, testimony, absence)
                                            : json_of(options, testimony, absence);
}

}  // namespace sluice::tools
