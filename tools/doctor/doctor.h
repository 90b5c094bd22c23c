// SPDX-License-Identifier: Apache-2.0
// The examination as a whole, and its three forms: lines for people, JSON, a script.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/report.h"

namespace sluice::doctor {

std::optional<Section> section_named(std::string_view name);
std::optional<Ability> ability_named(std::string_view name);

// Every section looks: what one finds, others rest on. Nothing is changed. `root` is the folder of a recorded tree; ""
// is this machine. Throws ToolError where it is no machine's tree.
Report examine(const std::string& root);

struct Wishes {
  std::vector<Section> sections;   // to be shown; empty: all
  std::vector<Ability> abilities;  // that are expected; any makes the report a probe
};

// Tries on this machine what has to be tried before this process starts CUDA. With the section or the ability rdma
// among the wishes, also whether memory of each GPU can be exported.
void try_first(const Wishes& wishes);

// 0 fine, 1 degraded, 2 broken, 3 no GPU. Of a probe: 0 when all that is expected is there, else 2, or 3 without any
// GPU.
int status_of(const Report& report, const Wishes& wishes);

// One line a finding, worst first; where sections are named, what is there stands above. The last line sums up.
std::string as_text(const Report& report, const Wishes& wishes);
// docs/reference/doctor.schema.json describes it.
std::string as_json(const Report& report, const Wishes& wishes);
// Shell commands of the remedies, each below what it mends. Nothing is run: to be read first.
std::string as_script(const Report& report, const Wishes& wishes);
// The table of all findings, as JSON: for the page that is made of it.
std::string table_as_json();

}  // namespace sluice::doctor
