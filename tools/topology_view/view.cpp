// SPDX-License-Identifier: Apache-2.0
// Reading once, showing in the form that is wanted.
#include "topology_view/view.h"

#include "doctor/probes.h"
#include "doctor/sections.h"
#include "topology/export.h"
#include "topology/static_routes.h"
#include "topology/told.h"
#include "topology_view/svg.h"
#include "topology_view/text.h"

namespace sluice::topology_view {

std::string show(const Wishes& wishes) {
  const Form form = wishes.form;
  const doctor::Tree tree(wishes.root.empty() ? facts::Root() : facts::Root(wishes.root));
  const topology::Machine machine =
      topology::read_machine(tree.root(), topology::told_by_lines(doctor::probes_of(tree).text()));
  if (form == Form::svg) return as_svg(machine);
  if (form == Form::text) return as_text(machine);
  const config::Config config = doctor::configuration_of(tree);
  topology::RoutingRules rules = topology::routing_rules(config);
  const std::string error = topology::apply_static_routes(config, tree.root(), rules);
  if (form == Form::json) return topology::to_json(machine, rules);
  const std::string complaint = error.empty() ? "" : error + "\n";
  if (!wishes.file.empty()) {
    const std::string mounts = tree.text("/proc/self/mountinfo");
    return complaint + routes_to_file_as_text(machine, config, rules, mounts, wishes.file);
  }
  return as_text(machine) + "\n" + complaint + routes_as_text(machine, config, rules);
}

}  // namespace sluice::topology_view
