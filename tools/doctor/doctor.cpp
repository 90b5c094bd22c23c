// SPDX-License-Identifier: Apache-2.0
// Calling the sections; rendering.
#include "doctor/doctor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "doctor/pair_json.h"
#include "doctor/record.h"
#include "doctor/sections.h"

namespace sluice::doctor {
namespace {

using Json = nlohmann::ordered_json;

// Text from files may be no UTF-8; it is replaced then, not refused.
std::string dumped(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

bool is_wanted(Section section, const Wishes& wishes) {
  return wishes.sections.empty() || section == Section::trial ||
         std::find(wishes.sections.begin(), wishes.sections.end(), section) != wishes.sections.end();
}

bool says_anything(Section section, const Report& report) {
  const std::vector<Found> found = report.by_harm();
  return !report.facts(section).empty() ||
         std::any_of(found.begin(), found.end(), [section](const Found& one) { return one.row->section == section; });
}

// A section that is named and has no GPU to judge: then what is said of the GPU is what there is to say.
bool lacks_gpu(const Report& report, const Wishes& wishes) {
  const bool no_gpu = report.has(finding_at("gpu.none"));
  return std::any_of(wishes.sections.begin(), wishes.sections.end(), [&](Section section) {
    const bool of_gpu = section == Section::p2pdma || section == Section::nvidia_fs || section == Section::rdma;
    return (of_gpu && no_gpu) || (section == Section::p2pdma && !says_anything(section, report));
  });
}

bool keeps_from_gpu(const Found& found) {
  const bool about_gpu = found.row->section == Section::gpu || found.row->section == Section::container;
  return about_gpu && found.row->harm < Harm::advice;
}

std::vector<Found> wanted(const Report& report, const Wishes& wishes) {
  std::vector<Found> found = report.by_harm();
  const bool with_gpu = lacks_gpu(report, wishes);
  std::erase_if(found, [&](const Found& one) {
    return !is_wanted(one.row->section, wishes) && !(with_gpu && keeps_from_gpu(one));
  });
  return found;
}

std::vector<Ability> unmet(const Report& report, const Wishes& wishes) {
  std::vector<Ability> missing = wishes.abilities;
  std::erase_if(missing, [&report](Ability ability) { return report.is_able(ability); });
  return missing;
}

Section section_of(Ability ability) {
  switch (ability) {
    case Ability::gpu:
      return Section::gpu;
    case Ability::p2pdma:
      return Section::p2pdma;
    case Ability::nvidia_fs:
      return Section::nvidia_fs;
    case Ability::rdma:
      return Section::rdma;
    case Ability::uring:
      return Section::uring;
  }
  return Section::gpu;
}

// The worst that is said in the ability's own section, or of the GPU, without which none is there.
std::string reason_for(Ability ability, const Report& report) {
  for (const Section section : {section_of(ability), Section::gpu, Section::container}) {
    for (const Found& found : report.by_harm()) {
      if (found.row->section == section && found.row->harm != Harm::fine) return found.sign;
    }
  }
  return "this machine does not have it";
}

// Each GPU with each card: which way, and what speaks against the others.
Json ways_of_cards(const Report& report) {
  Json ways = Json::array();
  for (const RdmaPair& pair : report.pairs()) ways.push_back(json_of(pair));
  return ways;
}

std::string_view verdict_of(int status) {
  constexpr std::array<std::string_view, 4> words = {"fine", "degraded", "broken", "no GPU"};
  return words[static_cast<std::size_t>(status)];
}

// A host of many containers has as many overlays: what is said of one holds for all.
constexpr std::size_t most_alike = 4;

std::size_t alike_before(const std::vector<Found>& all, std::size_t index) {
  std::size_t alike = 0;
  while (alike < index && all[index - alike - 1].row == all[index].row) ++alike;
  return alike;
}

// What stands in `backquotes`, piece by piece.
std::vector<std::string> commands_in(const std::string& remedy) {
  std::vector<std::string> commands;
  std::size_t open = remedy.find('`');
  while (open != std::string::npos) {
    const std::size_t close = remedy.find('`', open + 1);
    if (close == std::string::npos) break;
    commands.push_back(remedy.substr(open + 1, close - open - 1));
    open = remedy.find('`', close + 1);
  }
  return commands;
}

}  // namespace

std::optional<Section> section_named(std::string_view name) {
  for (std::size_t i = 0; i < section_count; ++i) {
    if (name_of(static_cast<Section>(i)) == name) return static_cast<Section>(i);
  }
  return std::nullopt;
}

std::optional<Ability> ability_named(std::string_view name) {
  for (std::size_t i = 0; i < ability_count; ++i) {
    if (name_of(static_cast<Ability>(i)) == name) return static_cast<Ability>(i);
  }
  return std::nullopt;
}

void try_first(const Wishes& wishes) {
  const auto& [sections, abilities] = wishes;
  const bool wants = std::find(sections.begin(), sections.end(), Section::rdma) != sections.end() ||
                     std::find(abilities.begin(), abilities.end(), Ability::rdma) != abilities.end();
  probes_of(Tree(facts::Root()), wants ? Exports::always : Exports::where_useful);
}

Report examine(const std::string& root) {
  if (!root.empty()) want_machine(root, root);
  const Tree tree(root.empty() ? facts::Root() : facts::Root(root));
  const Machine machine(tree);
  Report report;
  judge_gpu(machine, report);
  judge_nvidia_fs(machine, report);
  judge_p2pdma(machine, report);
  judge_storage(machine, report);
  judge_fabrics(machine, report);
  judge_rdma(machine, report);
  judge_vm(machine, report);
  judge_container(machine, report);
  judge_uring(machine, report);
  judge_config(machine, report);
  judge_topology(machine, report);
  judge_recorded_trial(machine, report);
  return report;
}

int status_of(const Report& report, const Wishes& wishes) {
  if (wishes.abilities.empty()) {
    int status = 0;
    for (const Found& found : wanted(report, wishes)) {
      if (found.row->harm == Harm::no_gpu) return 3;
      if (found.row->harm == Harm::broken) status = 2;
      if (found.row->harm == Harm::degraded) status = std::max(status, 1);
    }
    return status;
  }
  const std::vector<Ability> missing = unmet(report, wishes);
  if (missing.empty()) return 0;
  return report.has(finding_at("gpu.none")) ? 3 : 2;
}

std::string as_text(const Report& report, const Wishes& wishes) {
  std::string text;
  for (const Section section : wishes.sections) {
    text += fmt::format("{}:\n", name_of(section));
    for (const std::string& fact : report.facts(section)) text += "  " + fact + "\n";
    if (!says_anything(section, report)) text += "  nothing that could be judged\n";
  }
  const std::vector<Found> all = wanted(report, wishes);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Found& found = all[i];
    const std::size_t alike = alike_before(all, i);
    if (alike == most_alike)
      text += fmt::format("{:<8}  ... and more of these: --json has them all\n", name_of(found.row->harm));
    if (alike >= most_alike) continue;
    text += fmt::format("{:<8}  {} · {} · {}\n", name_of(found.row->harm), found.sign, found.cause, found.remedy);
  }
  for (const Ability ability : unmet(report, wishes)) {
    text += fmt::format("missing   {} is expected · {}\n", name_of(ability), reason_for(ability, report));
  }
  // The findings above may be worse: nothing of theirs is expected.
  const bool all_there = !wishes.abilities.empty() && unmet(report, wishes).empty();
  return text + fmt::format("verdict   {}{}\n", verdict_of(status_of(report, wishes)),
                            all_there ? ": all that is expected is there" : "");
}

std::string as_json(const Report& report, const Wishes& wishes) {
  const int status = status_of(report, wishes);
  Json json;
  json["format"] = 1;
  json["verdict"] = verdict_of(status);
  json["status"] = status;
  json["findings"] = Json::array();
  for (const Found& found : wanted(report, wishes)) {
    json["findings"].push_back({{"id", found.row->id},
                                {"section", name_of(found.row->section)},
                                {"harm", name_of(found.row->harm)},
                                {"sign", found.sign},
                                {"cause", found.cause},
                                {"remedy", found.remedy},
                                {"commands", commands_in(found.remedy)}});
  }
  json["abilities"] = Json::object();
  for (std::size_t i = 0; i < ability_count; ++i) {
    const auto ability = static_cast<Ability>(i);
    json["abilities"][std::string(name_of(ability))] = report.is_able(ability);
  }
  json["expected_and_missing"] = Json::array();
  for (const Ability ability : unmet(report, wishes)) json["expected_and_missing"].push_back(name_of(ability));
  if (is_wanted(Section::rdma, wishes)) json["gpudirect_rdma"] = ways_of_cards(report);
  json["facts"] = Json::object();
  for (std::size_t i = 0; i < section_count; ++i) {
    const auto section = static_cast<Section>(i);
    if (is_wanted(section, wishes)) json["facts"][std::string(name_of(section))] = report.facts(section);
  }
  return dumped(json);
}

std::string as_script(const Report& report, const Wishes& wishes) {
  std::string text =
      "#!/bin/sh\n# Remedies for what `sluice doctor` has found. Read each line before you run it.\nset -eu\n";
  for (const Found& found : wanted(report, wishes)) {
    if (found.row->harm == Harm::fine) continue;
    text += fmt::format("\n# {}: {}\n# {}\n", name_of(found.row->harm), found.sign, found.remedy);
    for (const std::string& command : commands_in(found.remedy)) {
      // What names something to be filled in is not a command yet, and our own tools look, and mend nothing.
      const bool open = contains(command, "...") || contains(command, "FILE") || contains(command, "FOLDER");
      const bool looks = command.starts_with("sluice ") || command.starts_with("gdscheck ");
      text += (open || looks ? "# " : "") + command + "\n";
    }
  }
  return text;
}

std::string table_as_json() {
  Json json = Json::array();
  for (const Finding& finding : findings) {
    json.push_back({{"id", finding.id},
                    {"section", name_of(finding.section)},
                    {"harm", name_of(finding.harm)},
                    {"sign", finding.sign},
                    {"cause", finding.cause},
                    {"remedy", finding.remedy}});
  }
  return dumped(json);
}

}  // namespace sluice::doctor
