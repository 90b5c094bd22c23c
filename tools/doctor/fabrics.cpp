// SPDX-License-Identifier: Apache-2.0
// Section fabrics: NVMe subsystems with their paths, as `nvme list-subsys` draws them.
#include <fmt/format.h>

#include "doctor/sections.h"
#include "facts/nvme_paths.h"

namespace sluice::doctor {
namespace {

constexpr const char* subsystems = "/sys/class/nvme-subsystem";

struct Path {
  std::string controller;
  std::string transport;
  std::string address;
  std::string state;
  std::string ana;  // "" where there are no such states
};

bool is_controller_name(const std::string& name) {
  return name.starts_with("nvme") && name.find_first_not_of("0123456789", 4) == std::string::npos;
}

std::vector<Path> paths_of(const Machine& machine, const std::string& subsystem) {
  std::vector<Path> paths;
  const std::string home = std::string(subsystems) + "/" + subsystem;
  for (const std::string& name : machine.tree.names(home)) {
    if (!is_controller_name(name)) continue;
    const std::string folder = below(home, name);
    Path path{name, machine.tree.value(folder + "/transport"), machine.tree.value(folder + "/address"),
              machine.tree.value(folder + "/state"), ""};
    for (const std::string& disk : machine.tree.names(folder)) {
      if (const std::string ana = machine.tree.value(below(folder, disk) + "/ana_state"); !ana.empty()) path.ana = ana;
    }
    paths.push_back(std::move(path));
  }
  return paths;
}

bool is_closed(const Path& path) {
  return path.ana == "inaccessible" || path.ana == "persistent-loss";
}

// How long the kernel tries to get a lost controller back; "" for drives that are no fabric's.
std::string patience_of(const Machine& machine, const std::string& controller) {
  const std::string home = "/sys/class/nvme/" + controller;
  const std::string limit = machine.tree.value(home + "/ctrl_loss_tmo");
  const std::string delay = machine.tree.value(home + "/reconnect_delay");
  if (limit.empty() && delay.empty()) return {};
  return fmt::format(", reconnects every {} s for {} s", delay.empty() ? "?" : delay, limit.empty() ? "?" : limit);
}

void judge_controller(const Machine& machine, const std::string& subsystem, const Path& path, std::size_t usable,
                      Report& report) {
  if (path.state != "live" && usable > 0) {
    report.add(
        finding_at("fabrics.path_down"),
        {{"subsystem", subsystem}, {"controller", path.controller}, {"state", path.state}, {"address", path.address}});
  }
  if (path.state == "live" && is_closed(path) && usable > 0) {
    report.add(
        finding_at("fabrics.inaccessible"),
        {{"subsystem", subsystem}, {"controller", path.controller}, {"ana", path.ana}, {"address", path.address}});
  }
  const std::string limit = machine.tree.value("/sys/class/nvme/" + path.controller + "/ctrl_loss_tmo");
  if (limit == "off" || limit == "-1") {
    report.add(finding_at("fabrics.waits_for_ever"), {{"controller", path.controller}, {"value", limit}});
  }
}

void judge_subsystem(const Machine& machine, const std::string& subsystem, const std::vector<Path>& paths,
                     Report& report) {
  std::size_t usable = 0;
  std::size_t optimized = 0;
  for (const Path& path : paths) {
    const bool open = path.state == "live" && !is_closed(path);
    if (open) ++usable;
    if (open && (path.ana == "optimized" || path.ana.empty())) ++optimized;
  }
  const Values values = {{"subsystem", subsystem},
                         {"transport", paths.front().transport},
                         {"count", std::to_string(optimized)},
                         {"policy", machine.tree.value(std::string(subsystems) + "/" + subsystem + "/iopolicy")}};
  for (const Path& path : paths) judge_controller(machine, subsystem, path, usable, report);
  if (usable == 0) return report.add(finding_at("fabrics.no_path"), values);
  report.add(finding_at("fabrics.host_memory"), values);
  if (optimized == 0) report.add(finding_at("fabrics.no_optimized_path"), values);
  if (paths.size() == 1) report.add(finding_at("fabrics.single_path"), values);
  if (optimized > 1 && machine.tree.value(std::string(subsystems) + "/" + subsystem + "/iopolicy") == "numa") {
    report.add(finding_at("fabrics.iopolicy"), values);
  }
}

}  // namespace

void judge_fabrics(const Machine& machine, Report& report) {
  if (machine.tree.names(subsystems).empty()) report.fact(Section::fabrics, "no NVMe subsystem");
  for (const std::string& subsystem : machine.tree.names(subsystems)) {
    const std::vector<Path> paths = paths_of(machine, subsystem);
    if (paths.empty()) continue;
    const std::string home = std::string(subsystems) + "/" + subsystem;
    report.fact(Section::fabrics,
                fmt::format("{} - NQN={} iopolicy={}", subsystem, machine.tree.value(home + "/subsysnqn"),
                            machine.tree.value(home + "/iopolicy")));
    for (const Path& path : paths) {
      report.fact(Section::fabrics, fmt::format(" +- {} {} {} {} {}{}", path.controller, path.transport, path.address,
                                                path.state, path.ana, patience_of(machine, path.controller)));
    }
    if (paths.front().transport != "pcie") judge_subsystem(machine, subsystem, paths, report);
  }
}

}  // namespace sluice::doctor
