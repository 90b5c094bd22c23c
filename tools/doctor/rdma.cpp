// SPDX-License-Identifier: Apache-2.0
// Section rdma: can network cards reach GPU memory, and by which of the two ways.
#include <fmt/format.h>

#include <algorithm>

#include "doctor/kernel_modules.h"
#include "doctor/sections.h"

namespace sluice::doctor {
namespace {

constexpr const char* devices_folder = "/sys/class/infiniband";

void judge_ports(const Machine& machine, Report& report) {
  for (const std::string& device : machine.tree.names(devices_folder)) {
    const std::string folder = std::string(devices_folder) + "/" + device;
    // Software devices hang on no bus.
    if (!machine.tree.has(folder + "/device")) report.add(finding_at("rdma.soft_roce"), {{"device", device}});
    for (const std::string& port : machine.tree.names(folder + "/ports")) {
      const std::string place = below(folder + "/ports", port);
      // "4: ACTIVE".
      const std::string told = machine.tree.value(place + "/state");
      const std::size_t colon = told.find(": ");
      const std::string state = colon == std::string::npos ? told : told.substr(colon + 2);
      report.fact(Section::rdma,
                  fmt::format("{} port {}: {}, {}, {}", device, port, state, machine.tree.value(place + "/link_layer"),
                              machine.tree.value(place + "/rate")));
      if (state.empty() || contains(state, "ACTIVE")) continue;
      report.add(finding_at("rdma.port_down"), {{"device", device}, {"port", port}, {"state", state}});
    }
  }
}

bool device_says(const Machine& machine, std::string_view word) {
  const std::vector<std::string> devices = machine.probes.all("device");
  return std::any_of(devices.begin(), devices.end(), [word](const std::string& line) { return contains(line, word); });
}

bool wants_peermem(const Machine& machine) {
  for (const char* folder : {"/etc/modules-load.d", "/usr/lib/modules-load.d"}) {
    for (const std::string& name : machine.tree.names(folder)) {
      const std::string text = machine.tree.text(std::string(folder) + "/" + name);
      if (contains(text, "nvidia-peermem") || contains(text, "nvidia_peermem")) return true;
    }
  }
  return false;
}

void judge_way(const Machine& machine, Report& report) {
  const bool registers = machine.has_symbol("ib_register_peer_memory_client");
  const bool loaded = machine.has_module("nvidia_peermem");
  // Asked of the driver where it runs; else what the flavour makes likely.
  const bool exports =
      device_says(machine, " dmabuf=1 ") || (machine.probes.get("cuda").empty() && machine.open_module);
  const bool dma_buf = exports && machine.has_symbol("ib_umem_dmabuf_get");
  if (machine.has_module("nv_peer_mem")) report.add(finding_at("rdma.legacy_module"));
  if (!registers && !loaded && wants_peermem(machine)) report.add(finding_at("rdma.peermem_cannot"));
  if (dma_buf) {
    report.can(Ability::rdma);
    report.add(finding_at("rdma.dma_buf"));
  } else if (loaded && registers) {
    report.can(Ability::rdma);
    report.add(finding_at("rdma.peermem"));
  } else if (registers) {
    report.add(finding_at("rdma.peermem_not_loaded"));
  } else {
    report.add(finding_at("rdma.no_way"));
  }
}

}  // namespace

void judge_rdma(const Machine& machine, Report& report) {
  judge_ports(machine, report);
  const bool has_devices = !machine.tree.names(devices_folder).empty();
  if (!has_devices) report.fact(Section::rdma, "no RDMA device");
  for (const std::string& line : machine.probes.all("device")) {
    report.fact(Section::rdma,
                fmt::format("CUDA device {}: {}", words(line).front(),
                            contains(line, " dmabuf=1 ") ? "its memory can be exported as a dma-buf"
                                                         : "its memory cannot be exported as a dma-buf"));
  }
  if (has_devices && machine.in_container && !machine.tree.has("/dev/infiniband")) {
    report.add(finding_at("rdma.pod_without_nic"));
    return;
  }
  if (!has_devices || machine.driver.empty() || machine.gpus.empty()) return;
  const Gpu& first = machine.gpus.front();
  if (first.unified) {
    report.add(finding_at("rdma.unified"), {{"gpu", name_of(first.card)}});
    return;
  }
  judge_way(machine, report);
}

}  // namespace sluice::doctor
