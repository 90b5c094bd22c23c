// SPDX-License-Identifier: Apache-2.0
// gdscheck: is the platform fit, what is configured, can this file be registered.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <initializer_list>
#include <string>
#include <vector>

#include "common/driver.h"
#include "common/error.h"
#include "common/error_json.h"
#include "common/notes.h"
#include "common/text.h"
#include "common/written.h"
#include "gdscheck/latency.h"
#include "gdscheck/sections.h"
#include "sluice.h"

namespace sluice::tools {
namespace {

constexpr int status_usage = 2;

constexpr const char* about = "gdscheck: the platform and the configuration as this libcufile.so.0 sees them";
constexpr const char* examples =
    "Examples:\n"
    "  gdscheck -p                 platform and configuration; what is wrong with the configuration\n"
    "  gdscheck -p -v              and every key: value, origin, effect\n"
    "  gdscheck -p --json          the same for programs\n"
    "  gdscheck -f /data/big.bin   can cuFile use this file, and which way its bytes go\n"
    "  gdscheck -t                 how near each drive and card is to each GPU\n"
    "  gdscheck -e sysfs -o tree.json   the PCI tree\n"
    "  gdscheck -e latency -i -o lat.json   RDMA reads of GPU memory, timed by ib_read_lat\n"
    "  CUFILE_ENV_PATH_JSON=my.json gdscheck -p   what the library makes of this file\n"
    "\n"
    "Without a GPU the platform is not fit, and the status is 1; with --soft the soft GPU is good enough. What is "
    "wrong\n"
    "with a machine, and what mends it, tells `sluice doctor`.\n"
    "\n"
    "Exit status: 0; 1 when the platform or the file is not fit; 2 when the command line is not understood.";

struct Options {
  bool platform = false;
  bool version = false;
  bool details = false;
  bool pairs = false;
  bool soft = false;
  bool json = false;
  std::string file;
  std::string method;
  std::string output = "cufile_topology.json";
  LatencyOptions latency;
};

// Why the platform is not fit, as the end of "Platform verification ..."; "" when it is.
std::string judge_platform(bool soft_is_enough) {
  if (cuFileDriverOpen().err != CU_FILE_SUCCESS) return "error:\n " + printable(sluice_last_error());
  return soft_is_enough && choose_driver().kind == DriverKind::soft ? "" : verification();
}

int report_platform(const Options& options) {
  const std::string failure = judge_platform(options.soft);
  if (options.json) {
    print_json(failure);
    return failure.empty() ? 0 : 1;
  }
  print_versions();
  print_environment();
  print_driver();
  print_cufile_configuration();
  print_unusable_addresses();
  print_whole_configuration(options.version ? Keys::all : Keys::none);
  print_gpus();
  print_platform(failure);
  return failure.empty() ? 0 : 1;
}

// Those of `words` that are given: "-d, -o".
std::string given(const CLI::App& app, std::initializer_list<const char*> words) {
  std::string listed;
  for (const char* word : words) {
    if (app.count(word) != 0) listed += (listed.empty() ? "" : ", ") + std::string(word);
  }
  return listed;
}

// Words that change nothing end nothing, but are told: a line each.
std::vector<std::string> notes_on(const CLI::App& app, const Options& options) {
  std::vector<std::string> notes;
  if (options.method != "latency") {
    const bool exports = !options.method.empty();
    const std::string idle =
        exports ? given(app, {"-d", "-l", "-i", "--card"}) : given(app, {"-o", "-d", "-l", "-i", "--card"});
    if (!idle.empty()) notes.push_back(fmt::format("left out: {} (of {})", idle, exports ? "-e latency" : "-e"));
  }
  if (!options.json) return notes;
  if (!options.platform) {
    notes.emplace_back("left out: --json (of -p; nothing else has JSON)");
  } else if (const std::string text = given(app, {"-V", "-t", "-e", "-f"}); !text.empty()) {
    notes.push_back(fmt::format("--json is of -p alone: text of {} follows it", text));
  }
  return notes;
}

bool asks_for_anything(const Options& options) {
  return options.platform || options.version || options.details || options.pairs || !options.method.empty() ||
         !options.file.empty();
}

void tell_notes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) tools::tell("gdscheck: note: {}\n", note);
}

int act(const Options& options, const std::vector<std::string>& notes) {
  // What is asked of CUDA in a child has to be asked before this process starts it.
  if (options.platform || options.details || options.pairs || options.method == "latency") platform();
  choose_driver();  // it may start this program anew
  tell_notes(notes);
  tell_unknown_keys("gdscheck");
  int status = 0;
  if (options.platform) {
    status = report_platform(options);
  } else if (options.version) {
    print_versions();
  }
  if (options.details) print_details();
  if (options.pairs) print_pairs();
  if (options.method == "latency") {
    export_latency(options.output, options.latency);
  } else if (!options.method.empty()) {
    export_topology(options.output);
  }
  if (!options.file.empty()) check_file(options.file);
  if (cuFileUseCount() > 0) cuFileDriverClose();
  return status;
}

int complain(const ToolError& error, bool json) {
  std::fflush(stdout);
  tools::tell("gdscheck: {}\n          {}\n", error.what(), error.remedy());
  if (json) print_error_json(error.what(), error.remedy());
  return error.status();
}

int run_main(int count, char** words) {
  CLI::App app(about, "gdscheck");
  app.footer(examples);
  app.set_version_flag("--version", fmt::format("gdscheck (Sluice {})", sluice_version()));
  Options options;
  app.add_flag("-p", options.platform, "Platform and configuration");
  app.add_flag("-v", options.version, "Versions; with -p every key of the configuration");
  app.add_flag("-V", options.details, "File systems and their devices");
  app.add_flag("-t", options.pairs, "How near drives and cards are to GPUs");
  app.add_option("-e", options.method, "Export the PCI tree (cufile and sysfs: the same), or measured latencies")
      ->check(CLI::IsMember({"cufile", "sysfs", "latency"}))
      ->option_text("HOW");
  app.add_option("-o", options.output, "The file that -e writes (cufile_topology.json)")->option_text("FILE");
  app.add_option("-d", options.latency.seconds, "Seconds that -e latency takes at most (30)")
      ->check(CLI::Range(1, 3600))
      ->option_text("SECONDS");
  app.add_option("-l", options.latency.detail, "What -e latency prints: 0 nothing, 1 a line a pair (the usual), 2 all")
      ->check(CLI::IsMember({0, 1, 2}))
      ->option_text("LEVEL");
  app.add_flag("-i", options.latency.go_on, "-e latency goes on where a pair cannot be measured");
  app.add_option("--card", options.latency.cards, "-e latency measures from this RDMA card only; may be repeated")
      ->allow_extra_args(false)
      ->option_text("NAME");
  app.add_flag("--soft", options.soft, "The soft GPU is good enough");
  app.add_flag("--json", options.json, "With -p, and -v: for programs; the rest is text");
  app.add_option("-f", options.file, "Register this file and tell which way its bytes go")->type_name("FILE");
  try {
    app.parse(count, words);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : status_usage;
  }
  if (count == 1) {
    fmt::print("{}", app.help());
    return status_usage;
  }
  options.latency.soft = options.soft;
  try {
    const std::vector<std::string> notes = notes_on(app, options);
    if (asks_for_anything(options)) return act(options, notes);
    tell_notes(notes);
    throw ToolError("Nothing is asked for.", "Add -p for the platform; gdscheck --help tells the rest.", status_usage);
  } catch (const ToolError& error) {
    return complain(error, options.json);
  }
}

}  // namespace
}  // namespace sluice::tools

int main(int count, char** words) {
  using namespace sluice::tools;
  hold_standard_descriptors();
  try {
    return finish("gdscheck", run_main(count, words));
  } catch (const std::exception& error) {
    if (std::ferror(stdout) != 0) return finish("gdscheck", 1);
    sluice::tools::tell("gdscheck: {}\n", error.what());
    return 1;
  }
}
