// SPDX-License-Identifier: Apache-2.0
// Section p2pdma: can drives reach GPU memory by the kernel's PCI P2PDMA, as far as files tell.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "doctor/sections.h"
#include "facts/machine.h"
#include "facts/read.h"

namespace sluice::doctor {
namespace {

constexpr std::array<std::string_view, 2> keys = {"RMForceStaticBar1=1", "RmForceDisableIomapWC=1"};

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::vector<std::string_view> missing_keys(const std::string& dwords) {
  std::vector<std::string_view> missing;
  for (const std::string_view key : keys) {
    if (!contains(lower(dwords), lower(std::string(key)))) missing.push_back(key);
  }
  return missing;
}

// The keys as the loaded driver has them.
std::string dwords_in_force(const Machine& machine) {
  for (const std::string& line : split(machine.tree.text("/proc/driver/nvidia/params"), '\n')) {
    if (line.starts_with("RegistryDwords:")) return line;
  }
  return {};
}

// A file that sets both keys for the next load; "" for none.
std::string file_with_keys(const Machine& machine) {
  for (const char* folder : {"/etc/modprobe.d", "/run/modprobe.d", "/usr/lib/modprobe.d", "/lib/modprobe.d"}) {
    for (const std::string& name : machine.tree.names(folder)) {
      std::string path = below(folder, name);
      if (!name.ends_with(".conf")) continue;
      for (const std::string& line : split(machine.tree.text(path), '\n')) {
        const std::vector<std::string> parts = words(line);
        const bool options = parts.size() > 2 && parts[0] == "options" && parts[1] == "nvidia";
        if (options && missing_keys(line).empty()) return path;
      }
    }
  }
  return {};
}

bool judge_keys(const Machine& machine, Report& report) {
  const std::vector<std::string_view> missing = missing_keys(dwords_in_force(machine));
  if (missing.empty()) return true;
  const std::string file = file_with_keys(machine);
  if (!file.empty()) {
    report.add(finding_at("p2pdma.keys_not_in_force"), {{"file", file}});
  } else if (missing.size() == 1) {
    report.add(finding_at("p2pdma.keys_half"), {{"key", std::string(missing.front())}});
  } else {
    report.add(finding_at("p2pdma.keys_missing"));
  }
  return false;
}

bool translates(const std::string& domain) {
  return domain.starts_with("DMA");
}

bool judge_iommu(const Machine& machine, Report& report) {
  bool translating = false;
  const auto judge = [&](const std::string& device, const Card& card) {
    if (!translates(card.domain)) return;
    translating = true;
    report.add(finding_at("p2pdma.translating_iommu"), {{"device", device}, {"type", card.domain}});
  };
  for (const Gpu& gpu : machine.gpus) judge(name_of(gpu.card), gpu.card);
  for (const Drive& drive : machine.drives) {
    if (drive.transport == "pcie") judge(drive.disk.empty() ? drive.controller : drive.disk, drive.card);
  }
  return !translating;
}

// ACS of a port: its extended capability 13, whose control word may send requests upwards. Needs root; false where the
// configuration space cannot be read so far.
bool acs_redirects(const Machine& machine, const std::string& bridge) {
  const std::string space = machine.tree.text("/sys/bus/pci/devices/" + bridge + "/config");
  const auto byte = [&space](std::size_t at) { return static_cast<unsigned>(static_cast<unsigned char>(space[at])); };
  std::size_t at = 0x100;
  for (int steps = 0; steps < 64 && at >= 0x100 && at + 8 <= space.size(); ++steps) {
    const unsigned id = byte(at) | byte(at + 1) << 8;
    constexpr unsigned acs = 0x000d;
    constexpr unsigned redirections = 0x1c;  // requests, completions, upstream forwarding
    if (id == acs) return (byte(at + 6) & redirections) != 0;
    at = (byte(at + 2) | byte(at + 3) << 8) >> 4;
  }
  return false;
}

// The ports between the common bridge and the card, where a switch would turn traffic round.
void judge_acs(const Machine& machine, const Gpu& gpu, const Drive& drive, const std::string& common, Report& report) {
  for (const Card* card : {&gpu.card, &drive.card}) {
    for (const std::string& bridge : card->bridges) {
      if (bridge == common) break;
      if (!acs_redirects(machine, bridge)) continue;
      report.add(finding_at("p2pdma.acs"),
                 {{"bridge", bridge}, {"devices", gpu.card.address + " and " + drive.controller}});
    }
  }
}

void judge_pairs(const Machine& machine, Report& report) {
  for (const Drive& drive : machine.drives) {
    if (drive.transport != "pcie") continue;
    if (drive.head) report.add(finding_at("p2pdma.multipath"), {{"drive", drive.disk}});
    for (const Gpu& gpu : machine.gpus) {
      const std::string common = common_bridge(gpu.card, drive.card);
      report.fact(Section::p2pdma, fmt::format("{} and {}: {}; IOMMU {} and {}", drive.controller, gpu.card.address,
                                               common.empty() ? "no common bridge" : "below " + common,
                                               gpu.card.domain.empty() ? "none" : gpu.card.domain,
                                               drive.card.domain.empty() ? "none" : drive.card.domain));
      // In a guest all bridges are invented.
      if (common.empty() && machine.hypervisor.empty()) {
        report.add(finding_at("p2pdma.no_common_bridge"), {{"drive", drive.controller}, {"gpu", name_of(gpu.card)}});
      }
      if (!common.empty()) judge_acs(machine, gpu, drive, common, report);
    }
  }
}

// Every kernel has vfs_read: where it is not listed, the list is hidden.
bool kernel_tells(const Machine& machine) {
  if (machine.has_symbol("vfs_read")) return true;
  for (const char* home : {"/boot/config-", "/lib/modules/", "/usr/lib/modules/"}) {
    const std::string place = home + machine.kernel;
    if (machine.tree.has(std::string(home) == "/boot/config-" ? place : place + "/config")) return true;
  }
  return false;
}

// NVIDIA's library cares; here a trial decides.
void judge_kaslr(const Machine& machine, Report& report) {
  const bool wanted = configures(machine, "properties.use_pci_p2pdma", "true");
  if (!wanted || machine.arch != "x86_64" || contains(machine.command_line, "nokaslr")) return;
  const std::string text = machine.tree.text("/boot/config-" + machine.kernel);
  if (contains(text, "CONFIG_RANDOMIZE_BASE=y")) report.add(finding_at("p2pdma.kaslr"));
}

bool kernel_can(const Machine& machine) {
  return machine.has_symbol("pci_p2pdma_add_resource") || facts::of_machine(machine.tree.root()).kernel_has_p2pdma;
}

}  // namespace

std::vector<std::string> bridges_with_acs(const Machine& machine) {
  std::vector<std::string> found;
  for (const std::string& address : machine.tree.names("/sys/bus/pci/devices")) {
    const bool bridge = machine.tree.value("/sys/bus/pci/devices/" + address + "/class").starts_with("0x0604");
    if (bridge && acs_redirects(machine, address)) found.push_back(address);
  }
  return found;
}

std::string common_bridge(const Card& a, const Card& b) {
  for (const std::string& bridge : a.bridges) {
    if (std::find(b.bridges.begin(), b.bridges.end(), bridge) != b.bridges.end()) return bridge;
  }
  return {};
}

void judge_p2pdma(const Machine& machine, Report& report) {
  if (machine.driver.empty() || machine.gpus.empty() || machine.wsl) return;
  const Values values = {{"kernel", machine.kernel}, {"driver", machine.driver}};
  report.fact(Section::p2pdma, fmt::format("kernel {}: {}; driver keys: {}", machine.kernel,
                                           kernel_can(machine) ? "has PCI P2PDMA" : "has no PCI P2PDMA",
                                           dwords_in_force(machine).empty() ? "none" : dwords_in_force(machine)));
  const Gpu& first = machine.gpus.front();
  if (first.unified) return;  // told in section gpu: there is no bus between
  if (first.coherent) return report.add(finding_at("p2pdma.coherent"), {{"gpu", name_of(first.card)}});
  if (machine.arch == "aarch64") return report.add(finding_at("p2pdma.arm64"));
  if (!machine.open_module) return report.add(finding_at("p2pdma.closed_module"));
  bool ready = true;
  if (!kernel_can(machine) && !kernel_tells(machine)) {
    report.add(finding_at("p2pdma.kernel_untold"), values);
    ready = false;
  } else if (!kernel_can(machine) || machine.kernel_version().before(6, 2)) {
    report.add(finding_at("p2pdma.kernel_without"), values);
    ready = false;
  }
  const bool keys_in_force = judge_keys(machine, report);
  if (machine.driver_version().before(565)) {
    report.add(finding_at("p2pdma.old_driver"), values);
    ready = false;
  } else if (keys_in_force && machine.kernel_version().at_least(6, 15) && machine.driver_version().before(595)) {
    report.add(finding_at("p2pdma.driver_for_kernel"), values);
    ready = false;
  }
  // Without the keys no library tries, and a translating IOMMU does no harm.
  ready = ready && keys_in_force && judge_iommu(machine, report);
  if (keys_in_force) judge_pairs(machine, report);
  if (!ready) return;
  for (const Gpu& gpu : machine.gpus) {
    if (machine.tree.has("/sys/bus/pci/devices/" + gpu.card.address + "/p2pmem/size")) continue;
    report.add(finding_at("p2pdma.not_published"), {{"gpu", name_of(gpu.card)}});
  }
  judge_kaslr(machine, report);
  report.can(Ability::p2pdma);
  report.add(finding_at("p2pdma.possible"), values);
}

}  // namespace sluice::doctor
