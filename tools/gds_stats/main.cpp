// SPDX-License-Identifier: Apache-2.0
// gds_stats: what a running process does through cuFile.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "common/error.h"
#include "common/error_json.h"
#include "common/whole_number.h"
#include "common/written.h"
#include "gds_stats/module_report.h"
#include "gds_stats/show.h"

namespace sluice::tools {
namespace {

constexpr int usage_status = 2;

int complain(const ToolError& error, bool json) {
  std::fflush(stdout);
  // Scripts know how this line begins.
  tell("{}{}\n           {}\n",
       error.status() == usage_status ? "gds_stats: " : "error opening gds stats: ", error.what(), error.remedy());
  if (json) print_error_json(error.what(), error.remedy());
  return error.status();
}

int run_gds_stats(int argc, char** argv) {
  ShowOptions options;
  bool json = false;
  bool module = false;
  std::string root;
  CLI::App app("gds_stats: show the statistics of a running process", "gds_stats");
  app.footer(show_lesson);
  app.set_version_flag("--version", "gds_stats (Sluice " SLUICE_VERSION ")");
  auto* const asks_for_module = app.add_flag("--nvidia-fs", module, "What nvidia-fs.ko has counted, of all processes");
  app.add_option("--root", root,
                 "With --nvidia-fs: a machine that `sluice doctor --record` has recorded, unpacked here")
      ->needs(asks_for_module);
  auto* const process = app.add_option("-p,--pid", options.pid, "The process")->excludes(asks_for_module);
  app.add_option("-l,--level", options.level, "1: totals; 2: and sizes; 3: and GPUs");
  app.add_option("--interval", options.interval, "Rates, a line every so many seconds, until the process ends");
  app.add_option("--count", options.count, "At most so many of these lines")->check(count_number);
  app.add_flag("--json", json, "For programs; with --interval one object a line");
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {
    return app.exit(asked);
  } catch (const CLI::ParseError& error) {
    tell("gds_stats: {}.\n           Use: gds_stats -p PID -l LEVEL; gds_stats --help tells more.\n", error.what());
    return usage_status;
  }
  if (!module && process->count() == 0) {
    tell("gds_stats: --pid is required, or --nvidia-fs.\n           Use: gds_stats -p PID -l LEVEL.\n");
    return usage_status;
  }
  options.format = json ? ShowFormat::json : ShowFormat::known_lines;
  try {
    if (module) {
      show_module(root, json ? ModuleFormat::json : ModuleFormat::text);
    } else {
      show_statistics(options);
    }
    return 0;
  } catch (const ToolError& error) {
    return complain(error, json);
  }
}

}  // namespace
}  // namespace sluice::tools

int main(int argc, char** argv) {
  using namespace sluice::tools;
  hold_standard_descriptors();
  try {
    return finish("gds_stats", run_gds_stats(argc, argv));
  } catch (const std::exception& error) {
    if (std::ferror(stdout) != 0) return finish("gds_stats", 1);
    tell("gds_stats: {}\n", error.what());
    return 1;
  }
}
