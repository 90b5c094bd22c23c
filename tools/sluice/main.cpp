// SPDX-License-Identifier: Apache-2.0
// The `sluice` command: reads the command line, calls the subcommand, says in one sentence what went wrong.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "common/notes.h"
#include "common/text.h"
#include "gds_stats/show.h"
#include "gdscp/copy.h"
#include "report/command.h"
#include "sluice.h"
#include "sluice/commands.h"
#include "sluice/watching.h"
#include "trace/command.h"

namespace sluice::tools {
namespace {

constexpr int status_usage = 2;

constexpr const char* about =
    "Sluice: an open GPUDirect Storage. Runs cuFile programs on its own libcufile.so.0, on any machine,\n"
    "and says which way the bytes went and why.";

constexpr const char* examples =
    "Examples:\n"
    "  sluice demo                              see it work: a file into GPU memory, verified\n"
    "  sluice run -- python3 train.py           run an unmodified program on this library\n"
    "  sluice run --explain -- ./reader /data   the same, with one line a file: its path and the reason\n"
    "  sluice doctor                            what is wrong with this machine, why, and what mends it\n"
    "  sluice topology --svg > machine.svg      drives, network cards and GPUs, and what joins them, as a picture\n"
    "  sluice explain /data/big.bin             which way this file's bytes go, and why\n"
    "  sluice stats -- ./reader /data           run it, and count what went which way\n"
    "  sluice stats 1234                        what the process 1234 does through cuFile\n"
    "  sluice top                               all such processes, live; `sluice exporter` is for Prometheus\n"
    "  sluice cp /data/big.bin /scratch/        copy a file through GPU memory\n"
    "\n"
    "`sluice SUBCOMMAND --help` teaches one subcommand.";

constexpr const char* run_about = "Run any program on Sluice's libcufile.so.0";
constexpr const char* run_lesson =
    "Whichever libcufile the program was linked with, it gets this one: it comes first in LD_PRELOAD (what stands "
    "there\n"
    "already is kept). CUFILE_ENV_PATH_JSON names a configuration when neither it nor /etc/cufile.json gives one. No\n"
    "file is written. Exit status and signals pass through unchanged. At the end one line on stderr says which\n"
    "libcufile the program and its children really mapped, and what went through it.\n"
    "\n"
    "Examples:\n"
    "  sluice run -- python3 train.py\n"
    "  sluice run --explain -- ./reader /data/big.bin    one line a file on stderr: path and reason\n"
    "  sluice run --soft-gpu -- ./reader /data/big.bin   without a GPU: programs of the CUDA driver API\n"
    "  SLUICE_MODE=plain sluice run -- ./reader FILE     the simplest way, to tell a bug from a feature\n"
    "\n"
    "--soft-gpu is for CI: a stand-in for the CUDA driver, for programs of the driver API. It moves data and runs\n"
    "Sluice's own kernels; programs of the CUDA runtime (libcudart: PyTorch, most of what nvcc compiles) and programs\n"
    "with kernels of their own need a real GPU. Its size, speed and failures can be chosen "
    "(docs/reference/softgpu.md):\n"
    "  SLUICE_SOFTGPU_FAIL=cuMemAlloc:3:2 sluice run --soft-gpu -- ./test    the third allocation fails\n"
    "  SLUICE_SOFTGPU_DEVICES=2 sluice run --soft-gpu -- ./test              two devices\n"
    "\n"
    "Exit status: the program's own; 125 when sluice itself fails, 126 when the program cannot be executed or\n"
    "preloading cannot work for it (static, setuid), 127 when there is no such program.";

constexpr const char* explain_about = "Tell which way a file's bytes go, and why";
constexpr const char* explain_lesson =
    "The way of a transfer between a file and memory, the reason, and what would change it. Nothing is moved; the "
    "file\n"
    "is opened as a careful program does it, with O_DIRECT where that works.\n"
    "\n"
    "Examples:\n"
    "  sluice explain /data/big.bin\n"
    "  sluice explain /data/big.bin --gpu 1 --size 16M --offset 4K\n"
    "  sluice explain /data/big.bin --write\n"
    "  sluice explain --all /data /scratch/a.bin   every reason, for all files of a folder and one more\n"
    "  sluice explain /data/big.bin --as-if-gpu    as on a machine with a GPU; where there is none, that is the "
    "default\n"
    "  sluice explain /data/big.bin --json | jq -r '.path, .reason, .remedy'";

constexpr const char* doctor_about = "Tell what is wrong with this machine, why, and what mends it";
constexpr const char* doctor_lesson =
    "Looks at the GPU and its driver, nvidia-fs, P2PDMA, file systems and drives, NVMe over fabrics, RDMA, virtual\n"
    "machines, containers, io_uring, cufile.json and the PCI tree. One line a finding: sign, cause, remedy; the worst\n"
    "comes first. Nothing is changed. A file or folder is tried: 1 MiB into GPU memory, every byte compared.\n"
    "\n"
    "Sections: gpu nvidia-fs p2pdma storage fabrics rdma vm container uring config topology. Named, they also show "
    "what\n"
    "is there.\n"
    "\n"
    "Examples:\n"
    "  sluice doctor\n"
    "  sluice doctor p2pdma /data               the direct path, with a trial in this folder\n"
    "  sluice doctor --json | jq -r '.findings[] | select(.harm == \"broken\") | .remedy'\n"
    "  sluice doctor --expect gpu,p2pdma        a readiness probe\n"
    "  sluice doctor --fix-script > fix.sh      the commands of the remedies, to be read first\n"
    "  sluice doctor --record machine.tar       what was looked at, for somebody else\n"
    "  sluice doctor --root machine.tar         the verdict on that\n"
    "\n"
    "Exit status: 0 fine, 1 degraded, 2 broken, 3 no GPU; with --expect 0 when all of it is there, else 2 or 3.\n"
    "The findings are listed in docs/reference/doctor.md.";

constexpr const char* topology_about = "Show how drives, network cards and GPUs hang together";
constexpr const char* topology_lesson =
    "The PCI tree by NUMA node with its switches and links, NVLinks between GPUs, and how near each device is to each "
    "GPU:\n"
    "below one switch, at one host bridge, on one NUMA node, or on another. Links that run at less than both ends can "
    "do\n"
    "are told. Where a hypervisor hides the tree, nearness is not guessed. --routes tells for each device and GPU "
    "which "
    "way\n"
    "dynamic routing takes (rdma_dynamic_routing in cufile.json), and why not an earlier one of its order.\n"
    "\n"
    "Examples:\n"
    "  sluice topology\n"
    "  sluice topology --svg > machine.svg\n"
    "  sluice topology --routes\n"
    "  sluice topology --file /lustre/a/big.bin   between this file and each GPU\n"
    "  sluice topology --json | jq -r '.pairs[] | [.names[], .distance] | @tsv'\n"
    "  sluice doctor --record machine.tar; sluice topology --root machine.tar   of a machine that was recorded";

constexpr const char* version_about = "Show the versions, the library file and the CUDA driver in use";
constexpr const char* version_lesson =
    "Examples:\n"
    "  sluice version\n"
    "  sluice version --json | jq -r .library\n"
    "  SLUICE_SOFTGPU=1 sluice version      the soft GPU, even where there is a real one";

constexpr const char* demo_about = "Read a file into GPU memory, verify it, and tell how it went";
constexpr const char* demo_lesson =
    "Writes a file, reads it into GPU memory through the cuFile API, compares every byte, and shows the device, the\n"
    "file system, the path, the reason and the throughput. The file is removed. Where no GPU works, the soft GPU\n"
    "stands in, and the text says so.\n"
    "\n"
    "Examples:\n"
    "  sluice demo\n"
    "  sluice demo --dir /dev/shm --size 1G\n"
    "  SLUICE_SOFTGPU=1 sluice demo         on the soft GPU, even where there is a real one";

constexpr const char* stats_about = "Count reads and writes of a program, or of a process that runs already";
constexpr const char* stats_lesson =
    "Of a program that it starts: the counters that always run in the library, by path and reason, from the program "
    "and\n"
    "its children, when they have ended. They go to stderr. Exit status: as of `sluice run`.\n"
    "\n"
    "Of a process that runs already, by its number: its statistics, on stdout. It has to run on this library with "
    "statistics\n"
    "of level 1 or more (SLUICE_STATS=3 in its environment, \"profile\": {\"cufile_stats\": 3} in its cufile.json, or\n"
    "cuFileSetStatsLevel(3)), and takes no part in being looked at. Whoever asks has to be its user or root. Exit "
    "status: 0;\n"
    "1 when there is nothing to see.\n"
    "\n"
    "Examples:\n"
    "  sluice stats -- ./reader /data/big.bin\n"
    "  sluice stats --json -- ./reader /data/big.bin 2> counters.json   the program's own stdout stays its own\n"
    "  SLUICE_STATS=3 sluice run -- python3 train.py &\n"
    "  sluice stats $(pgrep -f train.py)                 totals, sizes, GPUs\n"
    "  sluice stats $(pgrep -f train.py) --interval 1    rates, a line a second, until it ends\n"
    "  sluice stats 1234 --json | jq .metrics.sluice_transfers_total\n"
    "  sluice stats --prometheus                         all processes, in Prometheus's text format\n"
    "  sluice stats --names                              what is counted, by name";

constexpr const char* trace_about = "Record what transfers are at, for a picture of time";
constexpr const char* trace_lesson =
    "Writes a file that https://ui.perfetto.dev opens: a row a thread, each transfer with its phases (the way that "
    "was\n"
    "chosen, reads of the file, launches, copies, first and last byte), and which workers helped. A program that is\n"
    "started is recorded from its first transfer on, and what was recorded is there also when it crashes. A process\n"
    "that runs already is recorded from now on; that needs root, or its user where debuggers may attach\n"
    "(kernel.yama.ptrace_scope 0), or SLUICE_TRACE=on in its environment. An event costs 50 to 100 ns.\n"
    "\n"
    "Examples:\n"
    "  sluice trace -- ./reader /data/big.bin            into sluice.pftrace\n"
    "  sluice trace -o run.json -- python3 train.py      for chrome://tracing and for jq\n"
    "  sluice trace 1234 --seconds 10                    ten seconds of a process\n"
    "  SLUICE_TRACE=on ./server &                        records always, each thread its last 16384 events\n"
    "  sluice trace $! --seconds 0                       what is there of it now: where does it hang?\n\n"
    "Exit status: of a program its own; else 0, or 1 when there is nothing to see. docs/guide/tracing.md tells more.";

struct Words {
  std::span<char*> own;      // what the parser sees
  std::span<char*> command;  // of `run`: the program and its arguments, untouched
};

bool is_number(std::string_view word) {
  return !word.empty() && word.find_first_not_of("0123456789.") == word.npos;
}

// Options of `trace` whose value is the next word.
bool takes_word(std::string_view word) {
  return word == "-o" || word == "--output" || word == "--format";
}

// `run` and `stats` stop reading at "--" or at the first word that is no option: the rest belongs to the program.
// Numbers are a process's, or an option's, and belong to `stats`.
Words split(std::span<char*> words) {
  if (words.size() < 2) return {words, {}};
  if (std::strcmp(words[1], "report") == 0) {  // its own words are files
    std::size_t own = 0;
    while (own < words.size() && std::strcmp(words[own], "--") != 0) ++own;
    return {words.first(own), words.subspan(std::min(own + 1, words.size()))};
  }
  const bool traces = std::strcmp(words[1], "trace") == 0;
  const bool stats = std::strcmp(words[1], "stats") == 0 || traces;
  if (!stats && std::strcmp(words[1], "run") != 0) return {words, {}};
  for (std::size_t i = 2; i < words.size(); ++i) {
    if (std::strcmp(words[i], "--") == 0) return {words.first(i), words.subspan(i + 1)};
    if (traces && takes_word(words[i])) {
      ++i;
      continue;
    }
    if (words[i][0] != '-' && !(stats && is_number(words[i]))) return {words.first(i), words.subspan(i)};
  }
  return {words, {}};
}

// Reports on stderr for people and, where JSON was asked for, on stdout for programs.
int report(const ToolError& error, Output output) {
  fmt::print(stderr, "sluice: {}\n", error.what());
  if (!error.remedy().empty()) fmt::print(stderr, "        {}\n", error.remedy());
  if (output == Output::json) {
    nlohmann::ordered_json json;
    json["error"] = error.what();
    json["remedy"] = error.remedy();
    fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  }
  return error.status();
}

void declare_copy(CLI::App* app, CopyOptions& copy) {
  app->footer(copy_lesson);
  app->add_option("SOURCE", copy.source, "A regular file")->required();
  app->add_option("DESTINATION", copy.destination, "A file, or a folder that it goes into")->required();
  app->add_option("-d,--gpu", copy.gpu, "Whose memory; counted from 0")->default_val(0)->check(CLI::NonNegativeNumber);
  app->add_option("-i,--size", copy.piece, "Bytes of each transfer, with K, M or G")->default_val("16M");
  app->add_option("-w,--threads", copy.threads, "Threads")->default_val(4);
  app->add_flag("--verify", copy.verify, "Read both afterwards, without cuFile, and compare");
  app->add_flag("--json", copy.json, "For programs");
  app->add_flag("-q,--quiet", copy.quiet, "No line at the end");
}

void declare_doctor(CLI::App* app, DoctorOptions& doctor) {
  app->footer(doctor_lesson);
  app->add_option("WORD", doctor.words, "Sections, and files or folders to try");
  app->add_option("--expect", doctor.expected, "What has to be there: gpu, p2pdma, nvidia-fs, rdma, uring")
      ->type_name("WORD,...");
  app->add_option("--root", doctor.root, "Judge this recorded tree (a folder or a tar file) in place of this machine");
  app->add_option("--record", doctor.record, "Write what is looked at into this tar file, secrets left out");
  app->add_option("--gpu", doctor.gpu, "Whose memory a trial uses, counted from 0")->default_val(0);
  app->add_flag("--fix-script", doctor.script, "The commands of the remedies as a shell script; nothing is run");
  app->add_flag("--findings", doctor.table, "All findings that there are, as JSON");
}

void declare_topology(CLI::App* app, TopologyOptions& topology) {
  app->footer(topology_lesson);
  app->add_option("--root", topology.root, "Show this recorded tree (a folder or a tar file) in place of this machine");
  app->add_flag("--svg", topology.picture, "A picture, on stdout");
  app->add_option("--file", topology.file,
                  "The way between this file and each GPU: which list of addresses, which card");
  app->add_flag("--routes", topology.routes, "And the way of dynamic routing for each device and GPU");
}

void declare_stats(CLI::App* app, RunOptions& run, ShowOptions& show) {
  app->footer(stats_lesson);
  app->add_option("PID", show.pid, "A process that runs already")->type_name("");
  app->add_option("CMD", run.command, "After two dashes: the program and its arguments");
  app->add_flag("--soft-gpu", run.soft_gpu, "Preload the soft GPU as libcuda.so.1, too (SLUICE_SOFTGPU=1)");
  app->add_option("-l,--level", show.level, "Of a process: 1: totals and ways; 2: and sizes; 3: and GPUs");
  app->add_option("--interval", show.interval, "Of a process: rates, a line every so many seconds, until it ends");
  app->add_option("--count", show.count, "At most so many of these lines");
}

void declare_trace(CLI::App* app, RunOptions& run, TraceOptions& trace) {
  app->footer(trace_lesson);
  app->add_option("PID", trace.process, "A process that runs already")->type_name("");
  app->add_option("CMD", run.command, "After two dashes: the program and its arguments");
  app->add_option("-o,--output", trace.output, "The file to write; sluice.pftrace if not given")->type_name("FILE");
  app->add_option("--format", trace.format,
                  "perfetto, or chrome: JSON, which is meant too by a FILE that ends in .json")
      ->check(CLI::IsMember({"perfetto", "chrome"}));
  app->add_option("--seconds", trace.seconds, "Of a process: how long; 0: what it has recorded already")
      ->check(CLI::NonNegativeNumber);
  app->add_option("--events", trace.most_events, "Keep at most so many events");
  app->add_flag("--soft-gpu", run.soft_gpu, "Preload the soft GPU as libcuda.so.1, too (SLUICE_SOFTGPU=1)");
}

// `trace` and `stats` name a process, or a program to run, and not both.
bool names_process(const CLI::App& app, const ShowOptions& show, const Words& words) {
  const bool process = app.count("PID") > 0;
  if (!process && app.count("--level") + app.count("--interval") + app.count("--count") > 0) {
    throw ToolError("--level, --interval and --count are for a process that runs already.",
                    "Write its number: sluice stats PID --interval 1.", status_usage);
  }
  if (process && !words.command.empty()) {
    throw ToolError(fmt::format("There are a process, {}, and a program, {}.", show.pid, printable(words.command[0])),
                    "Write a process: sluice stats PID, or a program: sluice stats -- CMD ARG...", status_usage);
  }
  return process;
}

// How many letters have to be changed, put in or taken out.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t i = 0; i < row.size(); ++i) row[i] = i;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t corner = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, corner + (a[i - 1] == b[j - 1] ? 0 : 1)});
      corner = above;
    }
  }
  return row.back();
}

// A first word that is no subcommand is answered by the nearest one, where one is near.
void want_subcommand(const CLI::App& app, std::string_view word) {
  std::string nearest;
  std::size_t best = word.size() / 2 + 1;
  for (const CLI::App* const each : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (each->get_name() == word) return;
    const std::size_t away = distance(word, each->get_name());
    if (away < best) {
      best = away;
      nearest = each->get_name();
    }
  }
  throw ToolError(fmt::format("There is no subcommand {}.", printable(word)),
                  nearest.empty() ? "`sluice --help` lists them." : fmt::format("Did you mean: sluice {}?", nearest),
                  status_usage);
}

int run_main(std::span<char*> arguments) {
  const Words words = split(arguments);
  CLI::App app(about, "sluice");
  app.footer(examples);
  // One: what follows belongs to it, also where a section of `doctor` is called like a subcommand.
  app.require_subcommand(0, 1);
  app.set_version_flag("--version", std::string("sluice ") + sluice_version());

  bool json = false;
  RunOptions run;
  CLI::App* run_app = app.add_subcommand("run", run_about)->footer(run_lesson);
  // Declared for --help alone: split() has taken these words away.
  run_app->add_option("CMD", run.command, "After two dashes: the program and its arguments");
  run_app->add_flag("--explain", run.explain, "One line a file on stderr: its path and the reason (SLUICE_EXPLAIN=1)");
  run_app->add_flag("--soft-gpu", run.soft_gpu, "Preload the soft GPU as libcuda.so.1, too (SLUICE_SOFTGPU=1)");
  run_app->add_flag("--quiet", run.quiet, "No line about the mapped library at the end");

  ExplainOptions explain;
  bool write = false;
  bool host = false;
  CLI::App* explain_app = app.add_subcommand("explain", explain_about)->footer(explain_lesson);
  bool supposed = false;
  explain_app->add_option("FILE", explain.files, "Regular files, block devices, or folders for the files in them")
      ->required();
  explain_app->add_option("--gpu", explain.gpu, "The device whose memory takes part, counted from 0")->default_val(0);
  explain_app->add_option("--size", explain.size, "Bytes of the transfer, with K, M or G")->default_val("1M");
  explain_app->add_option("--offset", explain.offset, "Where in the file it begins")->default_val("0");
  explain_app->add_flag("--write", write, "A write; without it a read");
  explain_app->add_flag("--host", host, "Host memory instead of a device's");
  explain_app->add_flag("--as-if-gpu", supposed, "As on a machine with a GPU: so it is where there is none");
  explain_app->add_flag("--all", explain.all, "Every reason, in the order in which their remedies uncover them");
  explain_app->add_flag("--json", json, "For programs: path, reason, remedy, sentence, detail, ...");

  DoctorOptions doctor;
  CLI::App* doctor_app = app.add_subcommand("doctor", doctor_about);
  declare_doctor(doctor_app, doctor);
  doctor_app->add_flag("--json", json, "For programs (docs/reference/doctor.schema.json)");

  TopologyOptions topology;
  CLI::App* topology_app = app.add_subcommand("topology", topology_about);
  declare_topology(topology_app, topology);
  topology_app->add_flag("--json", json, "For programs: the tree, distances and routes");

  CLI::App* version_app = app.add_subcommand("version", version_about)->footer(version_lesson);
  version_app->add_flag("--json", json, "For programs");

  DemoOptions demo;
  CLI::App* demo_app = app.add_subcommand("demo", demo_about)->footer(demo_lesson);
  demo_app->add_option("--dir", demo.directory,
                       "Where to put the file: the current folder, $TMPDIR or /tmp if not given");
  demo_app->add_option("--size", demo.size, "Bytes to read, with K, M or G")->default_val("128M");
  demo_app->add_option("--gpu", demo.gpu, "The device, counted from 0")->default_val(0);
  demo_app->add_flag("--json", json, "For programs");

  ShowOptions show;
  CLI::App* stats_app = app.add_subcommand("stats", stats_about);
  declare_stats(stats_app, run, show);
  stats_app->add_flag("--json", json, "For programs: one object, or with --interval one a line");
  WatchingOptions watching;
  declare_watching(app, *stats_app, watching, json);

  ReportOptions reporting;
  declare_reporting(app, reporting, json);
  TraceOptions trace;
  CLI::App* trace_app = app.add_subcommand("trace", trace_about);
  declare_trace(trace_app, run, trace);
  trace_app->add_flag("--json", json, "For programs: the line on stderr as an object");

  CopyOptions copy;
  CLI::App* copy_app = app.add_subcommand("cp", "Copy a file through GPU memory, as gdscp does");
  declare_copy(copy_app, copy);

  try {
    if (arguments.size() > 1 && arguments[1][0] != '-') want_subcommand(app, arguments[1]);
  } catch (const ToolError& error) {
    return report(error, Output::text);
  }
  try {
    app.parse(static_cast<int>(words.own.size()), words.own.data());
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : status_usage;
  }
  const Output output = json ? Output::json : Output::text;
  try {
    if (run_watching(app, *stats_app, watching, output)) return 0;
    if (*stats_app && names_process(*stats_app, show, words)) {
      if (json) show.format = ShowFormat::json;
      show_statistics(show);
      return 0;
    }
    const std::vector<std::string> command(words.command.begin(), words.command.end());
    if (const int status = run_reporting(app, reporting, command, json); status >= 0) return status;
    if (*trace_app) {
      if (trace_app->count("PID") == 0 && words.command.empty()) {
        throw ToolError("There is nothing to trace.",
                        "Write a program after two dashes: sluice trace -- CMD ARG...; or a process: sluice trace PID.",
                        status_usage);
      }
      trace.json = json;
      run.quiet = true;
      run.command.assign(words.command.begin(), words.command.end());
      trace.run = run;
      return trace_command(trace);
    }
    if (*run_app || *stats_app) {
      if (words.command.empty()) {
        throw ToolError("There is no program to run.",
                        *run_app
                            ? "Write it after two dashes: sluice run -- CMD ARG..."
                            : "Write it after two dashes: sluice stats -- CMD ARG...; or a process: sluice stats PID.",
                        status_usage);
      }
      if (*stats_app) run.ending = json ? Ending::json_counters : Ending::counters;
      run.command.assign(words.command.begin(), words.command.end());
      return run_command(run);
    }
    if (*explain_app || *demo_app || *copy_app) tell_unknown_keys("sluice");
    if (*explain_app) {
      explain.transfer = write ? Transfer::write : Transfer::read;
      explain.memory = host ? Memory::host : supposed ? Memory::supposed : Memory::device;
      explain.names_gpu = explain_app->count("--gpu") > 0;
      explain.output = output;
      return explain_command(explain);
    }
    if (*doctor_app) {
      doctor.output = output;
      return doctor_command(doctor);
    }
    if (*topology_app) {
      topology.output = output;
      return topology_command(topology);
    }
    if (*version_app) return version_command(output);
    if (*copy_app) {
      copy_file(copy, "sluice");
      return 0;
    }
    if (*demo_app) {
      demo.output = output;
      return demo_command(demo);
    }
  } catch (const ToolError& error) {
    return report(error, output);
  }
  fmt::print("{}", app.help());
  return 0;
}

}  // namespace
}  // namespace sluice::tools

int main(int argc, char** argv) {
  try {
    return sluice::tools::run_main({argv, static_cast<std::size_t>(argc)});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "sluice: %s\n", error.what());
    return 1;
  }
}
