// SPDX-License-Identifier: Apache-2.0
#include "report/command.h"

#include <fmt/format.h>

#include <cstdio>

#include "common/error.h"
#include "common/output_file.h"
#include "common/text.h"
#include "common/whole_number.h"
#include "common/written.h"
#include "report/machine_page.h"
#include "report/results.h"
#include "report/run_page.h"
#include "sluice/statuses.h"
#include "trace/command.h"

namespace sluice::tools {
namespace {

constexpr const char* report_lesson =
    "Writes one file of HTML that needs nothing else: no network, no script; it prints, and follows the reader's light "
    "or\n"
    "dark. Of a run: how much, how fast, which way and why, where the time of its slow moments went, and its slowest\n"
    "transfer in time. Of results of `gdsio --json`, `cufile_bench --json` or bench/compare.py: speeds, and how the "
    "later\n"
    "files compare with the first, with bounds. Of a machine: what the doctor finds, and what `sluice profile` "
    "measured.\n"
    "\n"
    "Examples:\n"
    "  sluice report -- ./reader /data/big.bin                 into sluice-report.html\n"
    "  sluice report -o page.html before.json after.json       two files of results\n"
    "  sluice report --machine --profile profile.json          this machine\n"
    "\n"
    "Exit status: of a program its own, but 125 where that is 0 and the page could not be written; else 0, or 1 when "
    "it\n"
    "could not be done.";

constexpr const char* profile_lesson =
    "Measures the link to each device; in each folder reads and writes of 16 MiB, with O_DIRECT and through the page "
    "cache,\n"
    "by each way that sluice.disk_reads and sluice.copy know; and, as root, the drives below the folders by "
    "themselves, "
    "which\n"
    "are read only. It writes a file of its own in each folder, of --size, and removes it. All together takes five "
    "minutes\n"
    "at most. With `sluice.profile` in cufile.json (or SLUICE_PROFILE) naming the file, the library takes what was "
    "quickest\n"
    "in all folders for what is not configured. Nothing is measured unless it is asked for.\n"
    "\n"
    "Examples:\n"
    "  sluice profile -o profile.json /data /scratch\n"
    "  sluice profile --all --limit 60\n"
    "  sluice profile --seconds 0.2 --size 64M /dev/shm\n"
    "  SLUICE_PROFILE=$PWD/profile.json sluice run -- python3 train.py";

constexpr const char* what_it_is = "The report";

void write_page(const std::string& name, OutputFile& output, const std::string& html) {
  output.write(html);
  tell("sluice: {} ({}): open it with a browser\n", printable(name), format_bytes(html.size()));
}

class WritesReport final : public RecordedRun {
 public:
  explicit WritesReport(const ReportOptions& options)
      : options_(options), output_(options.output, what_it_is, status_own_failure) {}
  void ended(const Recording& recording) override {
    std::string command;
    for (const std::string& word : options_.run.command) command += (command.empty() ? "" : " ") + printable(word);
    write_page(options_.output, output_, run_page(recording, command));
  }

 private:
  const ReportOptions& options_;
  OutputFile output_;
};

int report_command(ReportOptions& options) {
  const int asked = (options.run.command.empty() ? 0 : 1) + (options.files.empty() ? 0 : 1) + (options.machine ? 1 : 0);
  if (asked != 1) {
    throw ToolError(asked == 0 ? "There is nothing to report." : "A report is of one thing.",
                    "Write a program: sluice report -- CMD ARG...; or files of results; or --machine.", 2);
  }
  if (options.machine) {
    OutputFile output(options.output, what_it_is);
    nlohmann::ordered_json profile;
    if (!options.profile.empty()) profile = read_profile(options.profile);
    write_page(options.output, output, machine_page(profile));
    return 0;
  }
  if (!options.files.empty()) {
    OutputFile output(options.output, what_it_is);
    std::vector<Results> all;
    for (const std::string& file : options.files) all.push_back(read_results(file));
    write_page(options.output, output, results_page(all));
    return 0;
  }
  options.run.quiet = true;
  WritesReport listener(options);
  return run_recorded(options.run, options.most_events, listener);
}

}  // namespace

void declare_reporting(CLI::App& app, ReportOptions& options, bool& json) {
  CLI::App* report = app.add_subcommand("report", "Write a page about a run, results of measurements, or this machine")
                         ->footer(report_lesson);
  report
      ->add_option("FILE", options.files,
                   "Results; the first is what others are compared with. Or, after two dashes, a program")
      ->type_name("");
  report->add_option("-o,--output", options.output, "The page to write; sluice-report.html if not given")
      ->type_name("FILE");
  report->add_flag("--machine", options.machine, "Of this machine");
  report->add_option("--profile", options.profile, "What `sluice profile` has measured of it")->type_name("FILE");
  report->add_option("--events", options.most_events, "Of a run: keep at most so many events")->check(count_number);
  report->add_flag("--soft-gpu", options.run.soft_gpu, "Preload the soft GPU as libcuda.so.1, too (SLUICE_SOFTGPU=1)");

  CLI::App* profile = app.add_subcommand("profile", "Measure this machine's link and folders")->footer(profile_lesson);
  profile->add_option("DIR", options.measured.folders, "Folders to measure in")->type_name("");
  profile->add_flag("--all", options.measured.all,
                    "And in the root of each mounted file system with storage that you may write to");
  profile->add_option("-o,--output", options.measured.output, "Keep it in this file")->type_name("FILE");
  profile->add_option("--gpu", options.measured.gpu, "Whose memory; counted from 0. The links of all are measured")
      ->default_val(0);
  profile->add_option("--seconds", options.measured.seconds, "Of each measurement; eight a folder, two a link or drive")
      ->default_val(1)
      ->check(CLI::Range(0.01, 60.0));
  profile
      ->add_option("--limit", options.measured.limit,
                   "Seconds after which nothing more is begun, and what was begun is cut; what was left out is told")
      ->default_val(300)
      ->check(CLI::Range(0.1, 3600.0));
  profile->add_option("--size", options.measured.size, "Of the files, with K, M, G or T; 1M at least")
      ->default_val("256M");
  profile->add_flag("--json", json, "For programs");
}

int run_reporting(const CLI::App& app, ReportOptions& options, const std::vector<std::string>& command, bool json) {
  if (app.got_subcommand("report")) {
    options.run.command = command;
    return report_command(options);
  }
  if (app.got_subcommand("profile")) {
    options.measured.json = json;
    return profile_command(options.measured);
  }
  return -1;
}

}  // namespace sluice::tools
