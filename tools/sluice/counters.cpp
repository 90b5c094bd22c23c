// SPDX-License-Identifier: Apache-2.0
#include "sluice/counters.h"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "common/text.h"

namespace sluice::tools {
namespace {

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
  json["ways"] = nlohmann::ordered_json::array();
  for (const auto& [way, sum] : testimony.traffic()) {
    json["ways"].push_back({{"way", way},
                            {"reads", sum.reads},
                            {"read_bytes", sum.read_bytes},
                            {"writes", sum.writes},
                            {"written_bytes", sum.written_bytes}});
  }
  fmt::print(stderr, "{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace sluice::tools
