// SPDX-License-Identifier: Apache-2.0
// Section vm: guests, and hosts that hold devices for guests.
#include <fmt/format.h>

#include <algorithm>

#include "doctor/sections.h"

namespace sluice::doctor {
namespace {

bool holds_for_guests(const Machine& machine) {
  return contains(machine.command_line, "vfio-pci.ids") || machine.has_module("vfio_pci");
}

void judge_groups(const Machine& machine, Report& report) {
  const std::string groups = "/sys/kernel/iommu_groups/";
  for (const Gpu& gpu : machine.gpus) {
    if (gpu.card.group.empty() || gpu.card.driver != "vfio-pci") continue;
    std::vector<std::string> others;
    for (const std::string& address : machine.tree.names(groups + gpu.card.group + "/devices")) {
      const bool own = address.substr(0, address.rfind('.')) == gpu.card.address.substr(0, gpu.card.address.rfind('.'));
      const std::string driver = machine.tree.link("/sys/bus/pci/devices/" + address + "/driver");
      if (own || driver == "vfio-pci" || driver == "pcieport" || driver.empty()) continue;
      others.push_back(fmt::format("{} ({})", address, driver));
    }
    if (others.empty()) continue;
    report.add(finding_at("vm.shared_group"),
               {{"group", gpu.card.group}, {"gpu", name_of(gpu.card)}, {"others", joined(others, ", ")}});
  }
}

void judge_host(const Machine& machine, Report& report) {
  if (contains(machine.command_line, "pcie_acs_override")) report.add(finding_at("vm.acs_override"));
  if (!holds_for_guests(machine)) return;
  if (machine.tree.names("/sys/kernel/iommu_groups").empty()) {
    report.add(finding_at("vm.iommu_off"));
    return;
  }
  judge_groups(machine, report);
  for (const Drive& drive : machine.drives) {
    if (!drive.card.domain.starts_with("DMA")) continue;
    report.add(finding_at("vm.host_translates"), {{"type", drive.card.domain}});
  }
}

}  // namespace

void judge_vm(const Machine& machine, Report& report) {
  if (machine.wsl) return;
  if (machine.hypervisor.empty()) {
    report.fact(Section::vm, "no hypervisor: bare metal");
    judge_host(machine, report);
    return;
  }
  report.fact(Section::vm, fmt::format("a guest of {}, {} IOMMU groups", machine.hypervisor,
                                       machine.tree.names("/sys/kernel/iommu_groups").size()));
  if (machine.gpus.empty()) return;
  report.add(finding_at("vm.guest"), {{"hypervisor", machine.hypervisor}});
  const bool geforce =
      std::any_of(machine.gpus.begin(), machine.gpus.end(), [](const Gpu& gpu) { return gpu.geforce; });
  if (geforce && machine.driver_version().before(465)) {
    report.add(finding_at("vm.hidden_hypervisor"), {{"driver", machine.driver}});
  }
}

}  // namespace sluice::doctor
