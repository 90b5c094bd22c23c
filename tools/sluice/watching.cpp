// SPDX-License-Identifier: Apache-2.0
#include "sluice/watching.h"

#include <fmt/format.h>

#include <cstdio>

#include "common/error.h"
#include "common/output_file.h"
#include "common/text.h"
#include "common/whole_number.h"
#include "gds_stats/metrics.h"
#include "gds_stats/prometheus.h"
#include "sluice/statuses.h"

namespace sluice::tools {
namespace {

constexpr std::size_t most_looked_at = 256;

void print_prometheus(const std::string& file) {
  Follower follower(most_looked_at);
  const std::string text = prometheus_text(follower);
  if (file == "-") {
    fmt::print("{}", text);
  } else {
    // node_exporter's textfile collector never sees half of it.
    OutputFile(file, "What is counted", 1, "Name a file in a folder that you may write.").write(text);
  }
}

// What is not of all processes, or of all metrics, goes with neither of the two.
void want_alone(const CLI::App& stats, const char* option, std::span<char* const> command, Output output) {
  if (!command.empty()) {
    throw ToolError(fmt::format("{} takes no program, and {} looks like one.", option, printable(command.front())),
                    fmt::format("A file: sluice stats --prometheus={}. A program: sluice stats -- CMD ARG...",
                                printable(command.front())),
                    status_usage);
  }
  if (stats.count("PID") > 0) {
    throw ToolError(fmt::format("{} is of all processes, and not of one.", option),
                    "Write a process without it: sluice stats PID.", status_usage);
  }
  if (output == Output::json) {
    throw ToolError(fmt::format("{} has a form of its own, and --json is another.", option),
                    "Leave one of them out; for one process: sluice stats PID --json.", status_usage);
  }
}

}  // namespace

void declare_watching(CLI::App& app, CLI::App& stats, WatchingOptions& options, bool& json) {
  CLI::App* const top = app.add_subcommand("top", top_about)->footer(top_lesson);
  top->add_option("--interval", options.top.interval, "Seconds from look to look")->default_val(1.0);
  top->add_flag("--once", options.top.once, "One table of one interval");
  top->add_option("--count", options.top.count, "At most so many tables, and no live view")->check(count_number);
  top->add_flag("--json", json, "For programs: an object each interval");
  CLI::App* const exporter = app.add_subcommand("exporter", exporter_about)->footer(exporter_lesson);
  exporter->add_option("--listen", options.exporter.listen, "Address and port, in numbers")
      ->default_val(options.exporter.listen)
      ->type_name("ADDRESS:PORT");
  exporter->add_option("--processes", options.exporter.processes, "At most so many are told of")
      ->default_val(options.exporter.processes);
  stats
      .add_option("--prometheus", options.prometheus,
                  "All processes in Prometheus's text format; with =FILE into that file, as a whole")
      ->expected(0, 1)
      ->default_str("-")
      ->type_name("FILE");
  stats.add_flag("--names", options.names, "The names of all that is counted, as a table");
}

bool run_watching(const CLI::App& app, const CLI::App& stats, WatchingOptions& options, Output output,
                  std::span<char* const> command) {
  if (app.got_subcommand("top")) {
    options.top.output = output;
    top_command(options.top);
    return true;
  }
  if (app.got_subcommand("exporter")) {
    exporter_command(options.exporter);
    return true;
  }
  if (stats.count("--names") > 0) {
    want_alone(stats, "--names", command, output);
    fmt::print("| name | kind | labels | level | |\n|---|---|---|---|---|\n{}", metric_rows());
    return true;
  }
  if (stats.count("--prometheus") == 0) return false;
  want_alone(stats, "--prometheus", command, output);
  print_prometheus(options.prometheus);
  return true;
}

}  // namespace sluice::tools
