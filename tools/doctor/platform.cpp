// SPDX-License-Identifier: Apache-2.0
// From the sections' findings and the machine to rows.
#include "doctor/platform.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "doctor/sections.h"
#include "facts/coherence.h"
#include "facts/read.h"
#include "topology/addresses.h"

namespace sluice::doctor {
namespace {

// The worst sign of a section; "" where nothing is wrong with it.
std::string worst_of(const Report& report, Section section) {
  for (const Found& found : report.by_harm()) {
    if (found.row->section == section && found.row->harm != Harm::fine) return found.sign;
  }
  return {};
}

const char* state_of(const std::string& domain) {
  if (domain.empty()) return "Disabled";
  return domain == "identity" ? "Pass-through" : "Enabled";
}

std::string iommu_of(const Machine& machine) {
  if (machine.tree.names("/sys/class/iommu").empty() && machine.tree.names("/sys/kernel/iommu_groups").empty()) {
    return "disabled";
  }
  const bool translates = std::any_of(machine.gpus.begin(), machine.gpus.end(),
                                      [](const Gpu& gpu) { return gpu.card.domain.starts_with("DMA"); });
  const bool identity = std::any_of(machine.gpus.begin(), machine.gpus.end(),
                                    [](const Gpu& gpu) { return gpu.card.domain == "identity"; });
  return identity && !translates ? "pass-through" : "enabled";
}

void fill_rdma(const Machine& machine, const Report& report, Platform& platform) {
  platform.rdma_pairs = report.pairs();
  platform.dma_buf = std::any_of(report.pairs().begin(), report.pairs().end(),
                                 [](const RdmaPair& pair) { return pair.way == "dma-buf"; });
  platform.peer_memory = machine.rdma.peermem_loaded && machine.rdma.core_registers_peers;
  for (const std::string& device : machine.tree.names("/sys/class/infiniband")) {
    platform.rdma_devices.push_back(device);
    for (const std::string& port : machine.tree.names("/sys/class/infiniband/" + device + "/ports")) {
      const std::string ports = below("/sys/class/infiniband", device) + "/ports";
      const std::string state = machine.tree.value(below(ports, port) + "/state");
      ++(contains(state, "ACTIVE") ? platform.rdma_up : platform.rdma_down);
    }
  }
}

void fill_gpus(const Machine& machine, Platform& platform) {
  std::vector<std::string> addresses;
  for (const std::string& line : machine.probes.all("device")) {
    // "0 0000:17:00.0 ecc=1 ...": CUDA writes addresses in capitals.
    const std::vector<std::string> parts = words(line);
    if (parts.size() < 2) continue;
    std::string address = parts[1];
    std::transform(address.begin(), address.end(), address.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    addresses.push_back(std::move(address));
  }
  if (addresses.empty()) {
    for (const Gpu& gpu : machine.gpus) addresses.push_back(gpu.card.address);
  }
  for (const std::string& address : addresses) {
    const auto seen = std::find_if(machine.gpus.begin(), machine.gpus.end(),
                                   [&address](const Gpu& gpu) { return gpu.card.address == address; });
    platform.gpus.push_back({address, state_of(seen == machine.gpus.end() ? "" : seen->card.domain)});
  }
}

void fill_pairs(const Machine& machine, Platform& platform) {
  for (const Gpu& gpu : machine.gpus) {
    for (const Drive& drive : machine.drives) {
      if (drive.transport != "pcie") continue;
      platform.pairs.push_back({gpu.card.address, drive.controller, distance_words(machine, gpu.card, drive.card)});
    }
    for (const Card& nic : machine.nics) {
      platform.pairs.push_back({gpu.card.address, nic.address, distance_words(machine, gpu.card, nic)});
    }
  }
}

void fill_unusable(const Machine& machine, Platform& platform) {
  for (const topology::AddressList& list : topology::all_address_lists(configuration_of(machine.tree))) {
    for (const topology::Adapter& adapter : topology::adapters_of(machine.bus, list.addresses)) {
      if (adapter.objection.empty()) continue;
      platform.unusable.push_back(
          {list.key + (list.mount.empty() ? "" : " " + list.mount), adapter.address, adapter.objection});
    }
  }
}

}  // namespace

bool shares_memory(const std::function<int(int)>& value_of) {
  return facts::is_said_coherent({.host_page_tables = value_of(100) == 1,
                                  .integrated = value_of(18) == 1,
                                  .pageable = value_of(88) == 1,
                                  .concurrent_managed = value_of(89) == 1});
}

Platform platform_of(const std::string& root) {
  const Tree tree(root.empty() ? facts::Root() : facts::Root(root));
  const Machine machine(tree);
  Report report;
  judge_gpu(machine, report);
  judge_p2pdma(machine, report);
  judge_rdma(machine, report);
  Platform platform;
  const bool has_drive = std::any_of(machine.drives.begin(), machine.drives.end(),
                                     [](const Drive& drive) { return drive.transport == "pcie"; });
  platform.p2pdma_ready = report.is_able(Ability::p2pdma) && has_drive;
  if (!platform.p2pdma_ready) {
    platform.why_no_p2pdma = worst_of(report, Section::p2pdma);
    if (platform.why_no_p2pdma.empty()) platform.why_no_p2pdma = has_drive ? "no GPU" : "no NVMe drive on PCIe is seen";
  }
  platform.gpu_works = report.is_able(Ability::gpu);
  if (!platform.gpu_works) platform.why_no_gpu = worst_of(report, Section::gpu);
  platform.nvfs = machine.nvfs;
  for (const std::string& line : split(tree.text("/proc/driver/nvidia-fs/modules"), '\n')) {
    const std::string name(facts::trimmed(line.substr(0, line.find(':'))));
    if (!name.empty() && name != "wekafsio") platform.nvfs_hooks.push_back(name);
  }
  fill_rdma(machine, report, platform);
  platform.iommu = iommu_of(machine);
  if (!machine.driver.empty()) platform.kernel_driver = machine.open_module ? "open" : "proprietary";
  platform.acs_bridges = bridges_with_acs(machine);
  fill_gpus(machine, platform);
  for (const MountedFs& mounted : machine.mounts) {
    const facts::Mount& mount = mounted.mount;
    platform.mounts.push_back({mount.point, mount.type, mount.source, mount.options, mount.device});
  }
  fill_pairs(machine, platform);
  fill_unusable(machine, platform);
  return platform;
}

}  // namespace sluice::doctor
