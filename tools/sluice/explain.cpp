// SPDX-License-Identifier: Apache-2.0
// `sluice explain`: which way the bytes of files go, and why, without moving any.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "common/driver.h"
#include "common/error.h"
#include "common/registered_file.h"
#include "common/text.h"
#include "common/written.h"
#include "sluice.h"
#include "sluice/commands.h"

namespace sluice::tools {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::size_t most_files_of_a_folder = 1000;

// The memory that the explanation is about.
enum class About : std::uint8_t { host, device, supposed };

struct Answer {
  std::string file;
  std::string device;  // for people
  bool direct = false;
  std::uint64_t size = 0;
  std::uint64_t offset = 0;
  About about = About::device;
  std::vector<FileReason> reasons;  // the first is the one that holds
  std::string routing;              // policy, stage, and why no earlier policy applies
  std::string error;                // why there is no answer, where there is none
  std::string remedy;
};

// The user's own word for the soft GPU; not what this program said to itself when it started anew (common/driver.cpp).
bool soft_gpu_was_asked_for() {
  const char* const asked = std::getenv("SLUICE_SOFTGPU");
  return asked != nullptr && std::strcmp(asked, "1") == 0 && std::getenv("SLUICE_SOFTGPU_BECAUSE") == nullptr;
}

About memory_meant(const ExplainOptions& options) {
  if (options.memory == Memory::host) return About::host;
  if (options.memory == Memory::supposed) return About::supposed;
  const bool real = choose_driver().kind == DriverKind::real;
  return real || soft_gpu_was_asked_for() || options.names_gpu ? About::device : About::supposed;
}

// What the explanation tells of dynamic routing is told by itself; "" where that is off.
std::string routing_in(std::string& facts) {
  constexpr std::string_view mark = "; dynamic routing: ";
  const std::size_t at = facts.find(mark);
  if (at == std::string::npos) return "";
  std::string routing = facts.substr(at + mark.size());
  facts.resize(at);
  return routing;
}

Answer ask(const ExplainOptions& options, const std::string& path) {
  Answer answer;
  answer.file = path;
  answer.size = size_option("--size", options.size);
  answer.offset = size_option("--offset", options.offset);
  answer.about = memory_meant(options);
  const bool write = options.transfer == Transfer::write;
  const RegisteredFile file(path, write ? Access::read_write : Access::read_only);
  if (answer.about == About::device) want_device(options.gpu);
  alignas(4096) static std::array<char, 4096> some_host_memory;
  answer.reasons = file.reasons(answer.about == About::host ? some_host_memory.data() : nullptr,
                                answer.about == About::supposed ? SLUICE_GPU_SUPPOSED : options.gpu,
                                write ? CUFILE_WRITE : CUFILE_READ, answer.size, static_cast<off_t>(answer.offset));
  for (FileReason& each : answer.reasons) answer.routing = routing_in(each.facts);
  answer.direct = file.direct();
  switch (answer.about) {
    case About::host:
      answer.device = "host memory";
      break;
    case About::device:
      answer.device = fmt::format("GPU {}: {}", options.gpu, describe_device(options.gpu));
      break;
    case About::supposed:
      answer.device = "a GPU that is supposed";
      break;
  }
  return answer;
}

// One file of several that cannot be explained hides no other.
Answer try_to_ask(const ExplainOptions& options, const std::string& path) {
  try {
    return ask(options, path);
  } catch (const ToolError& error) {
    Answer answer;
    answer.file = path;
    answer.error = error.what();
    answer.remedy = error.remedy();
    return answer;
  }
}

// What a profile has chosen, where no file, variable or call has: key and value, as cufile.json spells them.
std::vector<std::pair<std::string, std::string>> measured_settings() {
  std::vector<std::pair<std::string, std::string>> found;
  const auto look = [](const sluice_setting_t* shown, void* context) {
    if (shown->origin != SLUICE_ORIGIN_MEASURED) return;
    static_cast<std::vector<std::pair<std::string, std::string>>*>(context)->emplace_back(shown->key, shown->value);
  };
  sluice_configuration(look, &found);
  return found;
}

// As of one file alone: for people, beside an object for programs. Not every cause names the file.
void tell_error(const Answer& answer) {
  std::fflush(stdout);
  const std::string file = printable(answer.file);
  const std::string cause = printable(answer.error);
  tell("sluice: {}{}\n        {}\n", cause.starts_with(file) ? "" : file + ": ", cause, answer.remedy);
}

void print_text(const ExplainOptions& options, const Driver& driver, const Answer& answer) {
  const FileReason& first = answer.reasons.front();
  fmt::print("{}: {} of {} at {}\n", printable(answer.file), options.transfer == Transfer::write ? "a write" : "a read",
             format_bytes(answer.size), answer.offset);
  fmt::print("  path    {}\n", first.words.path_name);
  const std::size_t shown = options.all ? answer.reasons.size() : 1;
  for (std::size_t i = 0; i < shown; ++i) {
    fmt::print("  reason  {}: {}\n", answer.reasons[i].words.reason_name, answer.reasons[i].words.sentence);
    fmt::print("  remedy  {}\n", answer.reasons[i].words.remedy);
  }
  if (shown < answer.reasons.size()) {
    const std::size_t more = answer.reasons.size() - shown;
    fmt::print("  more    {} reason{} behind it: --all\n", more, more == 1 ? "" : "s");
  }
  fmt::print("  facts   {}\n", printable(first.facts));
  if (!answer.routing.empty()) fmt::print("  routing {}\n", printable(answer.routing));
  for (const auto& [key, value] : measured_settings()) {
    fmt::print("  profile {} is {}, as measured (sluice.profile)\n", key, value);
  }
  fmt::print("  memory  {}\n", answer.device);
  if (answer.about == About::supposed && driver.kind != DriverKind::real) {
    fmt::print("          (no GPU is here: {}; for the soft GPU: --gpu 0)\n", driver.why_not_real);
  } else if (answer.about == About::device && driver.kind == DriverKind::soft) {
    fmt::print("          (the soft GPU stands in: {})\n", driver.why_not_real);
  }
}

Json as_json(const ExplainOptions& options, const Driver& driver, const Answer& answer) {
  if (!answer.error.empty()) return {{"file", answer.file}, {"error", answer.error}, {"remedy", answer.remedy}};
  constexpr std::array<const char*, 3> memories = {"host", "device", "supposed"};
  const FileReason& first = answer.reasons.front();
  Json json;
  json["file"] = answer.file;
  json["path"] = first.words.path_name;
  json["reason"] = first.words.reason_name;
  json["sentence"] = first.words.sentence;
  json["remedy"] = first.words.remedy;
  json["reasons"] = Json::array();
  for (const FileReason& each : answer.reasons) {
    json["reasons"].push_back(
        {{"reason", each.words.reason_name}, {"sentence", each.words.sentence}, {"remedy", each.words.remedy}});
  }
  json["detail"] = first.facts;
  if (!answer.routing.empty()) json["routing"] = answer.routing;
  json["operation"] = options.transfer == Transfer::write ? "write" : "read";
  json["size"] = answer.size;
  json["offset"] = answer.offset;
  json["direct"] = answer.direct;
  json["memory"] = memories[static_cast<std::size_t>(answer.about)];
  json["gpu"] = answer.about == About::device ? Json(options.gpu) : Json();
  json["device"] = answer.device;
  json["driver"] = driver_kind_name(driver.kind);
  json["measured"] = Json::object();
  for (const auto& [key, value] : measured_settings()) json["measured"][key] = Json::parse(value, nullptr, false);
  return json;
}

// The files that are meant: of a folder those that lie in it.
std::vector<std::string> files_of(const std::string& word) {
  std::error_code error;
  if (!fs::is_directory(word, error)) return {word};
  std::vector<std::string> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(word, error)) {
    std::error_code gone;
    if (!entry.is_regular_file(gone)) continue;
    if (files.size() == most_files_of_a_folder) {
      tell("sluice: {} has more than {} files: that many are explained.\n", printable(word), most_files_of_a_folder);
      break;
    }
    files.push_back(entry.path().string());
  }
  if (error) {
    throw ToolError(fmt::format("{} cannot be read: {}.", printable(word), error.message()),
                    "Name a file of it, or become a user that may list it.");
  }
  if (files.empty()) {
    throw ToolError(fmt::format("{} is a directory without files.", printable(word)),
                    "Name a file, or a folder with files in it.");
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

int explain_command(const ExplainOptions& options) {
  const Driver& driver = choose_driver();
  std::vector<Answer> answers;
  std::error_code ignored;
  const bool one = options.files.size() == 1 && !fs::is_directory(options.files.front(), ignored);
  for (const std::string& word : options.files) {
    for (const std::string& file : files_of(word)) {
      answers.push_back(one ? ask(options, file) : try_to_ask(options, file));
    }
  }
  const bool all_well =
      std::all_of(answers.begin(), answers.end(), [](const Answer& each) { return each.error.empty(); });
  const int status = all_well ? 0 : 1;
  if (options.output == Output::text) {
    for (const Answer& answer : answers) {
      if (answer.error.empty()) {
        print_text(options, driver, answer);
      } else {
        tell_error(answer);
      }
    }
    return status;
  }
  for (const Answer& answer : answers) {
    if (!answer.error.empty()) tell_error(answer);
  }
  Json json = one ? as_json(options, driver, answers.front()) : Json::array();
  for (std::size_t i = 0; !one && i < answers.size(); ++i) json.push_back(as_json(options, driver, answers[i]));
  // Paths are bytes: what is no UTF-8 is replaced, not refused.
  fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
  return status;
}

}  // namespace sluice::tools
