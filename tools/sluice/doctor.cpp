// SPDX-License-Identifier: Apache-2.0
// `sluice doctor`: what is wrong with this machine, or with a recorded one, why, and what mends it.
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "common/driver.h"
#include "common/error.h"
#include "common/output_file.h"
#include "common/text.h"
#include "doctor/doctor.h"
#include "doctor/lustre.h"
#include "doctor/record.h"
#include "sluice/commands.h"
#include "sluice/doctor.h"

namespace sluice::tools {
namespace {

constexpr int bad_command_line = 2;

doctor::Wishes wishes_of(const DoctorOptions& options, std::vector<std::string>& files) {
  doctor::Wishes wishes;
  for (const std::string& word : options.words) {
    if (const std::optional<doctor::Section> section = doctor::section_named(word)) {
      wishes.sections.push_back(*section);
    } else {
      files.push_back(word);
    }
  }
  // A comma at the end has an empty word behind it.
  for (std::size_t begin = 0; options.expects && begin <= options.expected.size();) {
    const std::size_t end = std::min(options.expected.find(',', begin), options.expected.size());
    const std::string word = options.expected.substr(begin, end - begin);
    begin = end + 1;
    if (word.empty()) {
      throw ToolError("--expect has an empty word.", "Write abilities with one comma between them: --expect gpu,uring.",
                      bad_command_line);
    }
    const std::optional<doctor::Ability> ability = doctor::ability_named(word);
    if (!ability) {
      throw ToolError(fmt::format("--expect does not know {}.", printable(word)),
                      "It knows gpu, p2pdma, nvidia-fs, rdma and uring.", bad_command_line);
    }
    wishes.abilities.push_back(*ability);
  }
  return wishes;
}

void want_there(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) == 0) return;
  throw ToolError(fmt::format("{} is neither a section nor a file that is there.", printable(path)),
                  "Sections: gpu, nvidia-fs, p2pdma, storage, fabrics, rdma, vm, container, uring, config, topology.",
                  bad_command_line);
}

// A number that no GPU here has is no fault of the machine.
void want_gpu(int gpu) {
  if (choose_driver().kind == DriverKind::none) return;
  try {
    want_device(gpu);
  } catch (const ToolError& error) {
    throw ToolError(error.what(), error.remedy(), bad_command_line);
  }
}

void tell_recorded(const DoctorOptions& options, const doctor::Recorded& recorded) {
  if (options.output == Output::json) {
    const nlohmann::ordered_json json = {{"file", options.record},
                                         {"entries", recorded.files},
                                         {"secrets_left_out", recorded.masked},
                                         {"names_replaced", recorded.replaced}};
    fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    return;
  }
  const auto counted = [](std::size_t count, const char* one, const char* many, const char* what) {
    return count == 0 ? "" : fmt::format(", {} {} {}", count, count == 1 ? one : many, what);
  };
  fmt::print("{}: {} entries{}{}. Read it before you send it: tar -xOf {} | less\n", printable(options.record),
             recorded.files, counted(recorded.masked, "secret", "secrets", "left out"),
             counted(recorded.replaced, "name or address", "names and addresses", "replaced"),
             printable(options.record));
}

void print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
}

int examine_and_tell(const DoctorOptions& options) {
  if (options.script && options.output == Output::json) {
    throw ToolError("--fix-script has no JSON.", "Leave it out: with --json each finding has its commands.",
                    bad_command_line);
  }
  std::vector<std::string> files;
  const doctor::Wishes wishes = wishes_of(options, files);
  std::unique_ptr<doctor::Unpacked> unpacked;
  const std::string root = recorded_tree(options.root, unpacked);
  if (!files.empty() && !root.empty()) {
    throw ToolError("A recorded tree has no files to try.", "Leave the file or --root out.", bad_command_line);
  }
  for (const std::string& file : files) want_there(file);
  if (root.empty()) doctor::try_first(wishes);
  if (!files.empty()) want_gpu(options.gpu);
  std::optional<OutputFile> output;
  if (!options.record.empty())
    output.emplace(options.record, "The recording", 1, "Choose another place: --record FILE.");
  std::string lines;
  std::vector<doctor::Trial> trials;
  for (const std::string& file : files) {
    trials.push_back(make_trial(file, options.gpu));
    lines += doctor::trial_lines(trials.back()) + doctor::lustre_line(file);
  }
  if (output) {
    const doctor::Recorded recorded = doctor::record(root, lines);
    output->write(recorded.tar);
    tell_recorded(options, recorded);
    return 0;
  }
  doctor::Report report = doctor::examine(root);
  for (const doctor::Trial& trial : trials) doctor::judge_trial(trial, report);
  for (const std::string& file : files) doctor::judge_named_file(file, report);
  if (options.script) {
    print(doctor::as_script(report, wishes));
  } else {
    print(options.output == Output::json ? doctor::as_json(report, wishes) : doctor::as_text(report, wishes));
  }
  return doctor::status_of(report, wishes);
}

}  // namespace

std::string recorded_tree(const std::string& given, std::unique_ptr<doctor::Unpacked>& unpacked) {
  if (given.empty()) return {};
  struct stat status {};
  if (stat(given.c_str(), &status) != 0) {
    throw ToolError(fmt::format("{} cannot be read: {}.", printable(given), system_words(errno)),
                    "Name a folder or a tar file that --record has written.", bad_command_line);
  }
  if (S_ISDIR(status.st_mode)) return given;
  unpacked = std::make_unique<doctor::Unpacked>(given);
  return unpacked->folder();
}

int doctor_command(const DoctorOptions& options) {
  if (options.table) {
    print(doctor::table_as_json());
    return 0;
  }
  try {
    return examine_and_tell(options);
  } catch (const std::runtime_error& error) {
    if (dynamic_cast<const ToolError*>(&error) != nullptr) throw;
    throw ToolError(std::string(error.what()) + ".", "Look at the path and the room on its disk.");
  }
}

}  // namespace sluice::tools
