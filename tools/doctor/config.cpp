// SPDX-License-Identifier: Apache-2.0
// Section config: what the file says, by the library's own reader, and whether this machine can do what it wants.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "config/load.h"
#include "config/profile.h"
#include "doctor/sections.h"
#include "topology/addresses.h"

namespace sluice::doctor {
namespace {

constexpr const char* default_file = "/etc/cufile.json";
constexpr std::size_t most_notes = 12;  // of a kind; the rest is for gdscheck

using Variables = std::map<std::string, std::string>;

Variables variables_of(const Probes& probes) {
  Variables variables;
  for (const std::string& line : probes.all("env")) {
    const std::size_t end = std::min(line.find('='), line.size());
    variables[line.substr(0, end)] = line.substr(std::min(end + 1, line.size()));
  }
  return variables;
}

std::string path_by(const Variables& variables) {
  const auto named = variables.find("CUFILE_ENV_PATH_JSON");
  return named == variables.end() || named->second.empty() ? default_file : named->second;
}

struct Read {
  config::Config config;
  std::string file;  // by which name
  bool there = false;
  std::string unusable;                    // why nothing of the file counts; "" where something does
  std::vector<config::Note> of_file;       // what there is to say of its keys
  std::vector<config::Note> of_variables;  // and of variables
};

void read_file(const Tree& tree, Read& read) {
  const auto found = config::read_configuration_file(tree.root().at(read.file));
  read.there = !std::holds_alternative<config::NoFile>(found);
  if (const auto* const unusable = std::get_if<config::UnusableFile>(&found)) {
    read.unusable = read.file + ": " + unusable->why;
  } else if (const auto* const file = std::get_if<config::FileText>(&found)) {
    config::apply_text(read.file, file->text, read.config);
    read.of_file = std::exchange(read.config.notes, {});
    const auto parsed = config::parse_json(file->text);
    const auto* const json = std::get_if<config::Json>(&parsed);
    const bool is_object = json != nullptr && json->kind == config::Json::Kind::object;
    if (!is_object) read.unusable = read.of_file.empty() ? read.file : read.of_file.front().text;
  }
}

Read read_configuration(const Tree& tree, const Probes& probes) {
  const Variables variables = variables_of(probes);
  Read read;
  read.file = path_by(variables);
  read_file(tree, read);
  const auto variable = [&variables](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
  config::apply_environment(variable, read.config);
  read.of_variables = std::exchange(read.config.notes, {});
  return read;
}

void judge_notes(const Read& read, Report& report) {
  for (const config::Note& note : read.of_variables)
    report.add(finding_at("config.bad_variable"), {{"note", note.text}});
  if (!read.unusable.empty()) {
    report.add(finding_at("config.unusable"), {{"note", read.unusable}});
    return;
  }
  std::size_t told = 0;
  for (const config::Note& note : read.of_file) {
    if (note.level == config::LogLevel::info || ++told > most_notes) continue;
    const bool error = note.level == config::LogLevel::error;
    report.add(error ? finding_at("config.bad_value") : finding_at("config.unknown_key"), {{"note", note.text}});
  }
}

void judge_effects(const config::Config& read, const std::string& file, Report& report) {
  std::vector<std::string> idle;
  std::size_t own = 0;
  for (std::size_t i = 0; i < config::key_count; ++i) {
    if (read.setting(i).origin != config::Origin::file || !read.binds(i)) continue;
    ++own;
    report.fact(Section::config, fmt::format("{} = {} (line {})", config::keys[i].name,
                                             config::to_json(read.setting(i).value), read.setting(i).line));
    if (config::keys[i].effect == config::Effect::accepted) idle.emplace_back(config::keys[i].name);
  }
  report.add(finding_at("config.file"), {{"file", file}, {"count", std::to_string(own)}});
  if (idle.empty()) return;
  report.add(finding_at("config.no_effect"),
             {{"file", file}, {"count", std::to_string(idle.size())}, {"keys", joined(idle, ", ")}});
}

// Addresses of this machine's own interfaces: /proc/net/fib_trie has each on a line of its own above "/32 host LOCAL".
bool is_own_address(const Machine& machine, const std::string& address) {
  const std::vector<std::string> lines = split(machine.tree.text("/proc/net/fib_trie"), '\n');
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const std::vector<std::string> last = words(lines[i - 1]);
    if (contains(lines[i], "/32 host LOCAL") && !last.empty() && last.back() == address) return true;
  }
  return lines.empty();  // nothing is claimed where the table cannot be read
}

void judge_addresses(const Machine& machine, const config::Config& read, Report& report) {
  for (const topology::AddressList& list : topology::all_address_lists(read)) {
    for (const topology::Adapter& adapter : topology::adapters_of(machine.bus, list.addresses)) {
      const std::string key = list.key + (list.mount.empty() ? "" : " of " + list.mount);
      if (!is_own_address(machine, adapter.address)) {
        report.add(finding_at("rdma.foreign_address"), {{"key", key}, {"address", adapter.address}});
      } else if (!adapter.objection.empty() && !machine.bus.told.addresses.empty()) {
        report.add(finding_at("rdma.address_unusable"),
                   {{"key", key}, {"address", adapter.address}, {"why", adapter.objection}});
      }
    }
  }
}

// What the library would do for want of a direct path: with NVIDIA's meaning of the key, nothing.
bool refuses_host_memory(const config::Config& read) {
  return !read.flag(config::key_at("properties.allow_compat_mode")) &&
         !read.flag(config::key_at("properties.force_compat_mode")) && !read.plain;
}

void judge_wishes(const Machine& machine, const config::Config& read, Report& report) {
  const bool ready = report.is_able(Ability::p2pdma);
  if (!ready && !report.is_able(Ability::nvidia_fs) && refuses_host_memory(read)) {
    report.add(finding_at("config.compat_off"));
  }
  // Without a GPU nothing is asked of the direct path.
  if (machine.gpus.empty()) return;
  if (!ready && read.flag(config::key_at("properties.use_pci_p2pdma"))) report.add(finding_at("config.p2pdma_in_vain"));
  if (ready && read.flag(config::key_at("properties.force_compat_mode"))) report.add(finding_at("config.forced"));
}

// Why no file can be made in this folder; "" where one can.
std::string why_no_file_in(const std::string& folder) {
  struct stat status {};
  if (stat(folder.c_str(), &status) != 0) return folder + ": " + std::generic_category().message(errno);
  if (!S_ISDIR(status.st_mode)) return folder + ": it is no folder";
  if (access(folder.c_str(), W_OK | X_OK) == 0) return {};
  return folder + ": " + std::generic_category().message(errno);
}

// Why the file that the log is to go to cannot be written, as observe/log.cpp would find it; "" where it can, or none
// is wanted.
std::string why_no_log(const config::Config& read) {
  if (!read.log_file_given) return read.log_dir.empty() ? "" : why_no_file_in(read.log_dir);
  const std::string& named = read.log_file;
  if (named.empty()) return {};
  struct stat status {};
  if (lstat(named.c_str(), &status) != 0) {
    const int error = errno;
    const std::string folder = std::filesystem::path(named).parent_path().string();
    std::string why = why_no_file_in(folder.empty() ? "." : folder);
    if (!why.empty() || error == ENOENT) return why;
    return named + ": " + std::generic_category().message(error);
  }
  if (S_ISLNK(status.st_mode)) return named + ": it is a symbolic link; name the file itself";
  if (S_ISDIR(status.st_mode)) return named + ": it is a folder";
  if (!S_ISREG(status.st_mode)) return named + ": it is no regular file";
  return access(named.c_str(), W_OK) == 0 ? "" : named + ": " + std::generic_category().message(errno);
}

}  // namespace

std::string log_refusal(const Machine& machine) {
  if (!machine.tree.is_the_machine()) return machine.probes.get("log_refused");
  return why_no_log(read_configuration(machine.tree, machine.probes).config);
}

std::string profile_refusal(const Machine& machine) {
  if (!machine.tree.is_the_machine()) return machine.probes.get("profile_refused");
  config::Config read = read_configuration(machine.tree, machine.probes).config;
  config::apply_profile({}, read);
  return read.measured.why_not.empty() ? "" : read.measured.file + ": " + read.measured.why_not;
}

std::string trace_word(const Machine& machine) {
  if (!machine.tree.is_the_machine()) return machine.probes.get("trace_word");
  return config::printable(config::trace_to_nowhere(read_configuration(machine.tree, machine.probes).config));
}

config::Config configuration_of(const Tree& tree) {
  return read_configuration(tree, probes_of(tree)).config;
}

bool configures(const Machine& machine, const std::string& key, const std::string& value) {
  const std::optional<std::size_t> index = config::find_key(key);
  return index &&
         config::to_json(read_configuration(machine.tree, machine.probes).config.setting(*index).value) == value;
}

void judge_config(const Machine& machine, Report& report) {
  const Read read = read_configuration(machine.tree, machine.probes);
  judge_notes(read, report);
  if (!read.there) {
    report.fact(Section::config, "no configuration file: the defaults hold");
    if (read.file != default_file) report.add(finding_at("config.missing"), {{"file", read.file}});
  } else if (read.unusable.empty()) {
    judge_effects(read.config, read.file, report);
  }
  if (const std::string why = log_refusal(machine); !why.empty())
    report.add(finding_at("config.no_log"), {{"why", why}});
  if (const std::string why = profile_refusal(machine); !why.empty())
    report.add(finding_at("config.no_profile"), {{"why", why}});
  if (const std::string word = trace_word(machine); !word.empty())
    report.add(finding_at("config.trace_to_nowhere"), {{"word", word}});
  judge_addresses(machine, read.config, report);
  judge_wishes(machine, read.config, report);
}

}  // namespace sluice::doctor
