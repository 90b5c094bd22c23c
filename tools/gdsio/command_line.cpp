// SPDX-License-Identifier: Apache-2.0
// Every flag takes its value as text, so that each sentence about a wrong one is ours.
#include "gdsio/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "common/text.h"
#include "common/written.h"

namespace sluice::tools {
namespace {

constexpr int status_not_understood = 2;
constexpr const char* where_help_is = "Use: gdsio -f FILE -d 0 -w 4 -s 1G -i 1M -x 0 -I 0; gdsio --help tells more.";

// As written; "" where a flag is not given.
struct Words {
  std::vector<std::string> files;
  std::vector<std::string> folders;
  std::vector<std::string> gpus;
  std::vector<std::string> nodes;
  std::vector<std::string> threads;
  std::string size, offset, sizes, memory, transfer, operation, seconds, batch, seed, alignment, mix, open, peer;
  std::string configuration;
};

// The value of the job with that index: its own, or the only one, which is for all.
const std::string* of_job(const std::vector<std::string>& values, std::size_t job, std::size_t jobs, const char* flag) {
  if (values.empty()) return nullptr;
  if (values.size() == 1) return values.data();
  if (values.size() == jobs) return &values[job];
  throw ToolError(fmt::format("{} is given {} times for {} files or folders.", flag, values.size(), jobs),
                  "Give it once for all, or once for each -f or -D.", status_not_understood);
}

std::vector<JobSettings> jobs_of(const Words& words) {
  if (!words.files.empty() && !words.folders.empty()) {
    throw ToolError("-f and -D exclude each other.", "Use: gdsio -f FILE ..., or: gdsio -D FOLDER ...",
                    status_not_understood);
  }
  const bool in_folders = words.files.empty();
  const std::vector<std::string>& targets = in_folders ? words.folders : words.files;
  std::vector<JobSettings> jobs(std::max<std::size_t>(targets.size(), 1));
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    jobs[i].name = fmt::format("job{}", i);
    if (!targets.empty()) (in_folders ? jobs[i].folder : jobs[i].file) = targets[i];
    if (const auto* gpu = of_job(words.gpus, i, jobs.size(), "-d")) {
      jobs[i].gpu = static_cast<int>(number_of("-d", *gpu, gpu_numbers));
    }
    if (const auto* node = of_job(words.nodes, i, jobs.size(), "-n")) {
      jobs[i].node = static_cast<int>(number_of("-n", *node, node_numbers));
    }
    if (const auto* threads = of_job(words.threads, i, jobs.size(), "-w")) {
      jobs[i].threads = static_cast<unsigned>(number_of("-w", *threads, thread_counts));
    }
  }
  return jobs;
}

void refuse_remote(const std::string& peer) {
  if (peer.empty()) return;
  throw ToolError(fmt::format("-P {}: there is no RDMA between machines in this version.", printable(peer)),
                  "Leave -P out to measure files of this machine.", status_not_understood);
}

void take(const Words& words, Settings& settings) {
  refuse_remote(words.peer);
  settings.jobs = jobs_of(words);
  if (!words.size.empty()) settings.size = size_option("-s", words.size);
  if (!words.offset.empty()) settings.offset = size_option("-o", words.offset);
  if (!words.sizes.empty()) settings.sizes = sizes_of("-i", words.sizes);
  if (!words.memory.empty()) settings.memory = memory_of("-m", words.memory);
  if (!words.transfer.empty()) settings.transfer = transfer_of("-x", words.transfer);
  if (!words.operation.empty()) settings.operation = operation_of("-I", words.operation);
  if (!words.seconds.empty()) settings.seconds = seconds_of("-T", words.seconds);
  if (!words.batch.empty()) settings.batch = static_cast<unsigned>(number_of("-B", words.batch, batch_sizes));
  if (!words.seed.empty()) settings.seed = number_of("-k", words.seed, seeds);
  if (!words.alignment.empty()) settings.alignment = size_option("-a", words.alignment);
  if (!words.mix.empty()) settings.same_percent = static_cast<unsigned>(number_of("-M", words.mix, percents));
  settings.mixed = !words.mix.empty();
  if (!words.open.empty()) settings.buffered = number_of("-O", words.open, open_kinds) == 1;
}

// In one sentence of ours what the parser has to say.
[[noreturn]] void complain(const CLI::ParseError& error) {
  std::string sentence = error.what();
  if (const std::size_t end = sentence.find('\n'); end != std::string::npos) sentence.resize(end);
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    sentence = "It is not known what to do with" + sentence.substr(std::min(sentence.find(':') + 1, sentence.size()));
  }
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    sentence = sentence.substr(0, sentence.find(':')) + " wants a value";
  }
  throw ToolError(printable(sentence) + ".", where_help_is, status_not_understood);
}

// A configuration file says all of the run by itself. Files beside it are refused; what else stands there is left out,
// and told.
void tell_left_out(const CLI::App& app, const Words& words) {
  if (!words.files.empty() || !words.folders.empty()) {
    throw ToolError("A configuration file and -f or -D exclude each other.",
                    "Use: gdsio FILE.gdsio, and write into the file what the run does; its keys stand in "
                    "docs/reference/tools.md.",
                    status_not_understood);
  }
  constexpr std::array<std::string_view, 6> of_telling = {"CONFIGURATION", "-J",     "--json",
                                                          "--path",        "--cold", "--latency"};
  std::string left_out;
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->get_name();
    if (option->count() == 0 || std::find(of_telling.begin(), of_telling.end(), name) != of_telling.end()) continue;
    left_out += " " + name;
  }
  if (left_out.empty()) return;
  tell("gdsio: note: left out, since {} says what the run does:{}\n", printable(words.configuration), left_out);
}

}  // namespace

std::optional<Settings> read_command_line(std::span<char*> arguments) {
  Settings settings;
  Words words;
  CLI::App app("", "gdsio");
  app.set_help_flag("");
  bool help = false;
  bool version = false;
  const auto text = [&app](const char* flag, std::string& into) {
    app.add_option(flag, into)->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  };
  const auto list = [&app](const char* flag, std::vector<std::string>& into) {
    app.add_option(flag, into)->allow_extra_args(false);
  };
  const auto flag = [&app](const char* name, bool& into) {
    app.add_flag(name, into)->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  };
  list("-f", words.files);
  list("-D", words.folders);
  list("-d", words.gpus);
  list("-n", words.nodes);
  list("-w", words.threads);
  text("-s", words.size);
  text("-o", words.offset);
  text("-i", words.sizes);
  text("-m", words.memory);
  text("-x", words.transfer);
  text("-I", words.operation);
  text("-T", words.seconds);
  text("-B", words.batch);
  text("-k", words.seed);
  text("-a", words.alignment);
  text("-M", words.mix);
  text("-O", words.open);
  text("-P", words.peer);
  text("CONFIGURATION", words.configuration);
  flag("-p", settings.reach_others);
  bool skip_register = false;
  flag("-b", skip_register);
  flag("-V", settings.verify);
  flag("-U", settings.unaligned);
  flag("-R", settings.random_fill);
  flag("-F", settings.refill);
  flag("-J", settings.a_line_a_job);
  flag("--json", settings.json);
  flag("--path", settings.path);
  flag("--cold", settings.cold);
  flag("--latency", settings.latency);
  flag("-h,--help", help);
  flag("--version", version);
  try {
    app.parse(static_cast<int>(arguments.size()), arguments.data());
  } catch (const CLI::ParseError& error) {
    complain(error);
  }
  if (help || version) {
    fmt::print("{}", help ? gdsio_help() : "gdsio version :1.12 (Sluice " SLUICE_VERSION ")\n");
    return std::nullopt;
  }
  settings.registers = !skip_register;
  if (!words.configuration.empty()) {
    const Settings tells = settings;  // how results are told may stand beside the file; the rest stands in it
    tell_left_out(app, words);
    settings = read_configuration(words.configuration);
    settings.json = tells.json;
    settings.path = tells.path;
    settings.cold = tells.cold;
    settings.latency = tells.latency;
    settings.a_line_a_job |= tells.a_line_a_job;
  } else {
    take(words, settings);
  }
  check_settings(settings);
  return settings;
}

}  // namespace sluice::tools
