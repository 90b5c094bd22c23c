// SPDX-License-Identifier: Apache-2.0
// Section config: what the file says, by the library's own reader, and whether this machine can do what it wants.
#include <fmt/format.h>

#include <algorithm>

#include "config/load.h"
#include "doctor/sections.h"
#include "topology/addresses.h"

namespace sluice::doctor {
namespace {

constexpr const char* default_file = "/etc/cufile.json";
constexpr std::size_t most_notes = 12;  // of a kind; the rest is for gdscheck

std::string variable(const Probes& probes, const std::string& name) {
  for (const std::string& line : probes.all("env")) {
    if (line.starts_with(name + "=")) return line.substr(name.size() + 1);
  }
  return {};
}

std::string path_by(const Probes& probes) {
  const std::string named = variable(probes, "CUFILE_ENV_PATH_JSON");
  return named.empty() ? default_file : named;
}

config::Config read_configuration(const Tree& tree, const Probes& probes) {
  config::Config read;
  const std::string path = path_by(probes);
  const std::string text = tree.text(path);
  if (!text.empty()) config::apply_text(path, text, read);
  for (std::size_t i = 0; i < config::key_count; ++i) {
    const config::Key& key = config::keys[i];
    const std::string word = key.environment.empty() ? "" : variable(probes, std::string(key.environment));
    if (word.empty()) continue;
    auto value = config::read_word(key, word);
    if (auto* const good = std::get_if<config::Value>(&value)) read.set(i, *good, config::Origin::environment);
  }
  return read;
}

void judge_notes(const config::Config& read, const std::string& file, const std::string& text, Report& report) {
  if (std::holds_alternative<config::JsonError>(config::parse_json(text))) {
    report.add(finding_at("config.unusable"), {{"note", read.notes.empty() ? file : read.notes.front().text}});
    return;
  }
  std::size_t told = 0;
  for (const config::Note& note : read.notes) {
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

bool is_on(const config::Config& read, std::size_t key) {
  return read.flag(key);
}

void judge_wishes(const Machine& machine, const config::Config& read, Report& report) {
  // Without a GPU nothing is asked of the direct path.
  if (machine.gpus.empty()) return;
  const bool ready = report.is_able(Ability::p2pdma);
  if (!ready && is_on(read, config::key_at("properties.use_pci_p2pdma"))) {
    report.add(finding_at("config.p2pdma_in_vain"));
  }
  if (!ready && !report.is_able(Ability::nvidia_fs) && !is_on(read, config::key_at("properties.allow_compat_mode"))) {
    report.add(finding_at("config.compat_off"));
  }
  if (ready && is_on(read, config::key_at("properties.force_compat_mode"))) report.add(finding_at("config.forced"));
}

}  // namespace

std::string configuration_path(const Machine& machine) {
  return path_by(machine.probes);
}

config::Config configuration_of(const Tree& tree) {
  return read_configuration(tree, probes_of(tree));
}

bool configures(const Machine& machine, const std::string& key, const std::string& value) {
  const std::optional<std::size_t> index = config::find_key(key);
  return index && config::to_json(read_configuration(machine.tree, machine.probes).setting(*index).value) == value;
}

void judge_config(const Machine& machine, Report& report) {
  const std::string file = configuration_path(machine);
  const std::string text = machine.tree.text(file);
  const config::Config read = read_configuration(machine.tree, machine.probes);
  if (!machine.tree.has(file)) {
    report.fact(Section::config, "no configuration file: the defaults hold");
    if (file != default_file) report.add(finding_at("config.missing"), {{"file", file}});
  } else {
    judge_notes(read, file, text, report);
    if (!report.has(finding_at("config.unusable"))) judge_effects(read, file, report);
  }
  judge_addresses(machine, read, report);
  judge_wishes(machine, read, report);
}

}  // namespace sluice::doctor
