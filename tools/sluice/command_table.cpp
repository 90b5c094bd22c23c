// SPDX-License-Identifier: Apache-2.0
#include "sluice/command_table.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "common/error.h"
#include "common/notes.h"
#include "common/text.h"
#include "common/whole_number.h"
#include "sluice/lessons.h"
#include "sluice/statuses.h"

namespace sluice::tools {
namespace {

// `trace` and `stats` name a process, or a program to run, and not both.
bool names_process(const CLI::App& app, const ShowOptions& show, const Words& words) {
  const bool process = app.count("PID") > 0;
  if (!process && app.count("--level") + app.count("--interval") + app.count("--count") > 0) {
    throw ToolError("--level, --interval and --count are for a process that runs already.",
                    "Write its number: sluice stats PID --interval 1.", status_usage);
  }
  if (process && app.count("--output") > 0) {
    throw ToolError("--output is for a program that is started; what is told of a process goes to stdout.",
                    fmt::format("sluice stats {} > FILE", show.pid), status_usage);
  }
  if (process && !words.command.empty()) {
    throw ToolError(fmt::format("There are a process, {}, and a program, {}.", show.pid, printable(words.command[0])),
                    "Write a process: sluice stats PID, or a program: sluice stats -- CMD ARG...", status_usage);
  }
  return process;
}

}  // namespace

// In the order in which --help lists them.
CommandTable::CommandTable(CLI::App& app)
    : app_(app),
      run_app_(app.add_subcommand("run", run_about)),
      explain_app_(app.add_subcommand("explain", explain_about)),
      doctor_app_(app.add_subcommand("doctor", doctor_about)),
      topology_app_(app.add_subcommand("topology", topology_about)),
      version_app_(app.add_subcommand("version", version_about)),
      demo_app_(app.add_subcommand("demo", demo_about)),
      stats_app_(app.add_subcommand("stats", stats_about)) {
  declare_run();
  declare_explain();
  declare_doctor();
  declare_topology();
  version_app_->footer(version_lesson)->add_flag("--json", json_, "For programs");
  declare_demo();
  declare_stats();
  declare_watching(app, *stats_app_, watching_, json_);
  declare_reporting(app, reporting_, json_);
  trace_app_ = app.add_subcommand("trace", trace_about);
  declare_trace();
  copy_app_ = app.add_subcommand("cp", "Copy a file through GPU memory, as gdscp does");
  declare_copy_options(*copy_app_, copy_);
}

void CommandTable::declare_run() {
  run_app_->footer(run_lesson);
  // Declared for --help alone: split() has taken these words away.
  run_app_->add_option("CMD", run_.command, "After two dashes: the program and its arguments");
  run_app_->add_flag("--explain", run_.explain,
                     "One line a file on stderr: its path and the reason (SLUICE_EXPLAIN=1)");
  run_app_->add_flag("--soft-gpu", run_.soft_gpu, "Preload the soft GPU as libcuda.so.1, too (SLUICE_SOFTGPU=1)");
  run_app_->add_flag("--quiet", run_.quiet, "No line about the mapped library at the end");
}

void CommandTable::declare_explain() {
  explain_app_->footer(explain_lesson);
  explain_app_->add_option("FILE", explain_.files, "Regular files, block devices, or folders for the files in them")
      ->required();
  explain_app_->add_option("--gpu", explain_.gpu, "The device whose memory takes part, counted from 0")->default_val(0);
  explain_app_->add_option("--size", explain_.size, "Bytes of the transfer, with K, M, G or T")->default_val("1M");
  explain_app_->add_option("--offset", explain_.offset, "Where in the file it begins")->default_val("0");
  explain_app_->add_flag("--write", explains_write_, "A write; without it a read");
  explain_app_->add_flag("--host", explains_host_, "Host memory instead of a device's");
  explain_app_->add_flag("--as-if-gpu", explains_supposed_, "As on a machine with a GPU: so it is where there is none");
  explain_app_->add_flag("--all", explain_.all, "Every reason, in the order in which their remedies uncover them");
  explain_app_->add_flag("--json", json_, "For programs: path, reason, remedy, sentence, detail, ...");
}

void CommandTable::declare_doctor() {
  doctor_app_->footer(doctor_lesson);
  doctor_app_->add_option("WORD", doctor_.words, "Sections, and files or folders to try");
  doctor_app_->add_option("--expect", doctor_.expected, "What has to be there: gpu, p2pdma, nvidia-fs, rdma, uring")
      ->type_name("WORD,...");
  doctor_app_->add_option("--root", doctor_.root,
                          "Judge this recorded tree (a folder or a tar file) in place of this machine");
  doctor_app_->add_option("--record", doctor_.record, "Write what is looked at into this tar file, secrets left out");
  doctor_app_->add_option("--gpu", doctor_.gpu, "Whose memory a trial uses, counted from 0")->default_val(0);
  doctor_app_->add_flag("--fix-script", doctor_.script,
                        "The commands of the remedies as a shell script; nothing is run");
  doctor_app_->add_flag("--findings", doctor_.table, "All findings that there are, as JSON");
  doctor_app_->add_flag("--json", json_, "For programs (docs/reference/doctor.schema.json)");
}

void CommandTable::declare_topology() {
  topology_app_->footer(topology_lesson);
  topology_app_->add_option("--root", topology_.root,
                            "Show this recorded tree (a folder or a tar file) in place of this machine");
  topology_app_->add_flag("--svg", topology_.picture, "A picture, on stdout");
  topology_app_->add_option("--file", topology_.file,
                            "The way between this file and each GPU: which list of addresses, which card");
  topology_app_->add_flag("--routes", topology_.routes, "And the way of dynamic routing for each device and GPU");
  topology_app_->add_flag("--json", json_, "For programs: the tree, distances and routes");
}

void CommandTable::declare_demo() {
  demo_app_->footer(demo_lesson);
  demo_app_->add_option("--dir", demo_.directory,
                        "Where to put the file: the current folder, $TMPDIR or /tmp if not given");
  demo_app_->add_option("--size", demo_.size, "Bytes to read, with K, M, G or T")->default_val("128M");
  demo_app_->add_option("--gpu", demo_.gpu, "The device, counted from 0")->default_val(0);
  demo_app_->add_flag("--json", json_, "For programs");
}

void CommandTable::declare_stats() {
  stats_app_->footer(stats_lesson);
  stats_app_->add_option("PID", show_.pid, "A process that runs already")->type_name("");
  stats_app_->add_option("CMD", run_.command, "After two dashes: the program and its arguments");
  stats_app_->add_flag("--soft-gpu", run_.soft_gpu, "Preload the soft GPU as libcuda.so.1, too (SLUICE_SOFTGPU=1)");
  stats_app_->add_option("-l,--level", show_.level, "Of a process: 1: totals and ways; 2: and sizes; 3: and GPUs");
  stats_app_->add_option("--interval", show_.interval,
                         "Of a process: rates, a line every so many seconds, until it ends");
  stats_app_->add_option("--count", show_.count, "At most so many of these lines")->check(count_number);
  stats_app_->add_option("-o,--output", run_.output, "Of a program: the counters into this file, not to stderr")
      ->type_name("FILE");
  stats_app_->add_flag("--json", json_, "For programs: one object, or with --interval one a line");
}

void CommandTable::declare_trace() {
  trace_app_->footer(trace_lesson);
  trace_app_->add_option("PID", trace_.process, "A process that runs already")->type_name("");
  trace_app_->add_option("CMD", run_.command, "After two dashes: the program and its arguments");
  trace_app_->add_option("-o,--output", trace_.output, "The file to write; sluice.pftrace if not given")
      ->type_name("FILE");
  trace_app_
      ->add_option("--format", trace_.format,
                   "perfetto, or chrome: JSON, which is meant too by a FILE that ends in .json")
      ->check(CLI::IsMember({"perfetto", "chrome"}));
  trace_app_->add_option("--seconds", trace_.seconds, "Of a process: how long; 0: what it has recorded already");
  trace_app_->add_option("--events", trace_.most_events, "Keep at most so many events")->check(count_number);
  trace_app_->add_flag("--soft-gpu", run_.soft_gpu, "Preload the soft GPU as libcuda.so.1, too (SLUICE_SOFTGPU=1)");
  trace_app_->add_flag("--json", json_, "For programs: the line on stderr as an object");
}

int CommandTable::call(const Words& words) {
  if (run_watching(app_, *stats_app_, watching_, output(), words.command)) return 0;
  if (*stats_app_ && names_process(*stats_app_, show_, words)) {
    if (json_) show_.format = ShowFormat::json;
    show_statistics(show_);
    return 0;
  }
  const std::vector<std::string> command(words.command.begin(), words.command.end());
  if (const int status = run_reporting(app_, reporting_, command, json_); status >= 0) return status;
  if (*trace_app_) return call_trace(words);
  if (*run_app_ || *stats_app_) return call_runner(words);
  if (*explain_app_ || *demo_app_ || *copy_app_) tell_unknown_keys("sluice");
  if (*explain_app_) return call_explain();
  if (*doctor_app_) {
    doctor_.output = output();
    doctor_.expects = doctor_app_->count("--expect") != 0;
    return doctor_command(doctor_);
  }
  if (*topology_app_) {
    topology_.output = output();
    return topology_command(topology_);
  }
  if (*version_app_) return version_command(output());
  if (*copy_app_) {
    copy_file(copy_, "sluice");
    return 0;
  }
  if (*demo_app_) {
    demo_.output = output();
    return demo_command(demo_);
  }
  return -1;
}

int CommandTable::call_trace(const Words& words) {
  if (trace_app_->count("PID") == 0 && words.command.empty()) {
    throw ToolError("There is nothing to trace.",
                    "Write a program after two dashes: sluice trace -- CMD ARG...; or a process: sluice trace PID.",
                    status_usage);
  }
  trace_.json = json_;
  run_.quiet = true;
  run_.command.assign(words.command.begin(), words.command.end());
  trace_.run = run_;
  return trace_command(trace_);
}

int CommandTable::call_runner(const Words& words) {
  if (words.command.empty()) {
    throw ToolError("There is no program to run.",
                    *run_app_
                        ? "Write it after two dashes: sluice run -- CMD ARG..."
                        : "Write it after two dashes: sluice stats -- CMD ARG...; or a process: sluice stats PID.",
                    status_usage);
  }
  if (*stats_app_) run_.ending = json_ ? Ending::json_counters : Ending::counters;
  run_.command.assign(words.command.begin(), words.command.end());
  return run_command(run_);
}

int CommandTable::call_explain() {
  explain_.transfer = explains_write_ ? Transfer::write : Transfer::read;
  explain_.memory = explains_host_ ? Memory::host : explains_supposed_ ? Memory::supposed : Memory::device;
  explain_.names_gpu = explain_app_->count("--gpu") > 0;
  explain_.output = output();
  return explain_command(explain_);
}

}  // namespace sluice::tools
