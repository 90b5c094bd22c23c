// SPDX-License-Identifier: Apache-2.0
#include "gds_stats/show.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "common/error.h"
#include "gds_stats/process.h"
#include "gds_stats/region.h"
#include "gds_stats/report.h"
#include "gds_stats/sample.h"

namespace sluice::tools {
namespace {

using Clock = std::chrono::steady_clock;
constexpr unsigned highest_level = 3;
constexpr unsigned long long lines_below_a_heading = 20;

void check(const ShowOptions& options) {
  if (options.pid < 1 || options.pid > std::numeric_limits<pid_t>::max()) {
    throw ToolError(fmt::format("{} is no number of a process.", options.pid), "`pgrep -a NAME` shows them.", 2);
  }
  if (options.level > highest_level) {
    throw ToolError(fmt::format("There is no level {}.", options.level), "Levels are 1, 2 and 3.", 2);
  }
  if (options.interval < 0 || options.interval > 86400) {
    throw ToolError("--interval wants seconds, at most a day.", "Write for example --interval 1.", 2);
  }
  if (options.count != 0 && options.interval == 0) {
    throw ToolError("--count counts intervals, and there are none.", "Add --interval 1.", 2);
  }
}

class Show {
 public:
  explicit Show(const ShowOptions& options)
      : options_(options), process_(static_cast<pid_t>(options.pid)), regions_(open_regions(process_)) {}

  void once() { print_whole(take_sample(regions_), process_.has_ended()); }

  void repeatedly() {
    Sample before = take_sample(regions_);
    Clock::time_point then = Clock::now();
    const std::chrono::duration<double> interval(options_.interval);
    for (unsigned long long line = 0; options_.count == 0 || line < options_.count; ++line) {
      // Rounded up: below a millisecond the wait would be none.
      const bool ended =
          process_.ends_within(std::chrono::ceil<std::chrono::milliseconds>(interval)) || !still_the_same();
      const Sample now = take_sample(regions_);
      const Clock::time_point moment = Clock::now();
      print_interval(now, since(now, before, std::chrono::duration<double>(moment - then).count()), line, ended);
      if (ended) return print_end(now);
      before = now;
      then = moment;
    }
  }

 private:
  unsigned level_for(const Sample& sample) const {
    if (options_.level != 0) return options_.level;
    return static_cast<unsigned>(std::max<std::uint64_t>(sample.level, 1));
  }

  // Another program in the same process has other statistics, or none.
  bool still_the_same() const {
    try {
      const ProcessMaps maps = process_.maps();
      return std::ranges::any_of(maps.shown, [this](const ShownMapping& mapping) {
        return std::ranges::any_of(regions_, [&](const auto& region) { return region->is(mapping); });
      });
    } catch (const ToolError&) {
      return false;
    }
  }

  nlohmann::ordered_json whole_json(const Sample& sample, bool ended) const {
    nlohmann::ordered_json json;
    json["pid"] = options_.pid;
    json["program"] = process_.program();
    json["ended"] = ended;
    json.update(json_of(sample, level_for(sample)));
    return json;
  }

  static void print_json(const nlohmann::ordered_json& json, int indent) {
    fmt::print("{}\n", json.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace));
    std::fflush(stdout);
  }

  void print_head(const Sample& sample) const {
    fmt::print("Process {} on Sluice {}{}: statistics of level {}, {} {:.1f} s\n\n", process_.name(), sample.library,
               sample.libraries > 1 ? fmt::format(" ({} copies of it)", sample.libraries) : "", sample.level,
               sample.running ? "running for" : "stopped after", sample.seconds);
  }

  void print_whole(const Sample& sample, bool ended) const {
    if (options_.format == ShowFormat::json) return print_json(whole_json(sample, ended), 2);
    if (options_.format == ShowFormat::known_lines) {
      fmt::print("{}", known_text_of(sample, level_for(sample)));
      return;
    }
    print_head(sample);
    fmt::print("{}", text_of(sample, level_for(sample)));
  }

  void print_interval(const Sample& now, const Sample& difference, unsigned long long line, bool ended) const {
    if (options_.format == ShowFormat::json) {
      nlohmann::ordered_json json = whole_json(now, ended);
      json["interval"]["seconds"] = difference.seconds;
      json["interval"]["metrics"] = metrics_json(difference, level_for(now));
      return print_json(json, -1);
    }
    const bool heading = line == 0 || (isatty(STDOUT_FILENO) == 1 && line % lines_below_a_heading == 0);
    fmt::print("{}{}", heading ? rates_heading() : "", rates_line(difference));
    std::fflush(stdout);
  }

  void print_end(const Sample& sample) const {
    if (options_.format == ShowFormat::json) return;
    fmt::print("\nIt has {}. In all:\n\n", process_.has_ended() ? "ended" : "executed another program");
    print_whole(sample, true);
  }

  ShowOptions options_;
  WatchedProcess process_;
  std::vector<std::unique_ptr<ShownRegion>> regions_;
};

}  // namespace

const char* const show_lesson =
    "Examples:\n"
    "  gds_stats -p 1234                       at the level that the process counts at\n"
    "  gds_stats -p 1234 -l 3                  totals, sizes, and what each GPU did\n"
    "  gds_stats -p 1234 --interval 1          rates, a line a second, until it ends\n"
    "  gds_stats -p 1234 --json | jq .metrics.sluice_transfers_total\n"
    "  gds_stats --nvidia-fs                   what nvidia-fs.ko has counted, of all processes\n"
    "\n"
    "The process has to run on Sluice's libcufile with statistics of level 1 or more: SLUICE_STATS=3 in its "
    "environment,\n"
    "\"profile\": {\"cufile_stats\": 3} in its cufile.json, or cuFileSetStatsLevel(3). It takes no part in being "
    "looked at.\n"
    "Only its user and root may ask.\n"
    "\n"
    "Exit status: 0; 1 when there is nothing to see; 2 when the command line is not understood.";

void show_statistics(const ShowOptions& options) {
  check(options);
  Show show(options);
  if (options.interval > 0) return show.repeatedly();
  show.once();
}

}  // namespace sluice::tools
