// SPDX-License-Identifier: Apache-2.0
// Section rdma: can network cards reach GPU memory, and by which of the two ways.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "doctor/kernel_modules.h"
#include "doctor/sections.h"

namespace sluice::doctor {
namespace {

using facts::RdmaDecision;
using facts::RdmaGpuFacts;
using facts::RdmaObstacle;
using facts::RdmaWay;
using facts::Told;

constexpr const char* devices_folder = "/sys/class/infiniband";
constexpr const char* peermem = "nvidia_peermem";

struct RdmaCard {
  std::string device;  // "mlx5_0"
  std::string driver;  // on its bus: "mlx5_core"
};

// What is known of one GPU, and the words about it.
struct RdmaGpu {
  std::string address;
  std::string name;
  RdmaGpuFacts facts;
  std::string refusal;  // what the export answered
  bool tells_order = false;
  bool unified = false;
};

void judge_ports(const Machine& machine, const std::string& device, Report& report) {
  const std::string ports = below(devices_folder, device) + "/ports";
  for (const std::string& port : machine.tree.names(ports)) {
    const std::string place = below(ports, port);
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

// Those of hardware: software devices hang on no bus.
std::vector<RdmaCard> judge_devices(const Machine& machine, Report& report) {
  std::vector<RdmaCard> cards;
  for (const std::string& device : machine.tree.names(devices_folder)) {
    const std::string folder = below(devices_folder, device);
    judge_ports(machine, device, report);
    if (!machine.tree.has(folder + "/device")) {
      report.add(finding_at("rdma.soft_roce"), {{"device", device}});
      continue;
    }
    const std::string address = machine.tree.link(folder + "/device");
    const std::string driver = machine.tree.link("/sys/bus/pci/devices/" + address + "/driver");
    cards.push_back({device, driver.empty() ? "unknown" : driver});
  }
  return cards;
}

bool wants_peermem(const Machine& machine) {
  for (const char* folder : {"/etc/modules-load.d", "/usr/lib/modules-load.d"}) {
    for (const std::string& name : machine.tree.names(folder)) {
      const std::string text = machine.tree.text(std::string(folder) + "/" + name);
      if (contains(text, "nvidia-peermem") || contains(text, peermem)) return true;
    }
  }
  return false;
}

// "1" of " rdma=1 "; nothing where the driver did not tell.
std::optional<std::int64_t> attribute_in(const std::string& line, const std::string& name) {
  const std::string wanted = name + "=";
  for (const std::string& word : words(line.substr(0, line.find(" name=")))) {
    if (word.starts_with(wanted)) return to_number(std::string_view(word).substr(wanted.size()));
  }
  return std::nullopt;
}

Told told_in(const std::string& line, const std::string& name) {
  const std::optional<std::int64_t> value = attribute_in(line, name);
  if (!value) return Told::unknown;
  return *value != 0 ? Told::yes : Told::no;
}

// "0 ok", "0 801 CUDA_ERROR_NOT_SUPPORTED", "0 untried 2 ...".
void add_export(const Machine& machine, const std::string& ordinal, RdmaGpu& gpu) {
  if (!machine.probes.get("export_late").empty()) gpu.refusal = "the driver gave no answer in time";
  for (const std::string& line : machine.probes.all("export")) {
    if (!line.starts_with(ordinal + " ")) continue;
    const std::string answer = line.substr(ordinal.size() + 1);
    constexpr std::string_view untried = "untried ";
    if (answer.starts_with(untried)) {
      gpu.refusal = answer.substr(untried.size());
      continue;
    }
    gpu.facts.exported = answer == "ok" ? Told::yes : Told::no;
    gpu.refusal = answer == "ok" ? "" : answer;
  }
}

RdmaGpu told_by_cuda(const Machine& machine, const std::string& line) {
  const std::vector<std::string> parts = words(line);
  RdmaGpu gpu;
  gpu.address = parts.size() > 1 ? parts[1] : "?";
  const std::size_t name = line.find(" name=");
  gpu.name = (name == std::string::npos ? "" : line.substr(name + 6) + " at ") + gpu.address;
  gpu.facts.supported = told_in(line, "rdma");
  gpu.facts.dma_buf = told_in(line, "dmabuf");
  gpu.tells_order = attribute_in(line, "ordering").has_value();
  gpu.facts.ordering = static_cast<int>(attribute_in(line, "ordering").value_or(0));
  gpu.unified = attribute_in(line, "integrated").value_or(0) != 0;
  if (!parts.empty()) add_export(machine, parts.front(), gpu);
  return gpu;
}

// Where CUDA does not start here, what the flavour of the driver leaves open.
RdmaGpu told_by_the_bus(const Machine& machine, const Gpu& card) {
  RdmaGpu gpu;
  gpu.address = card.card.address;
  gpu.name = name_of(card.card);
  gpu.facts.dma_buf = machine.open_module ? Told::unknown : Told::no;
  return gpu;
}

std::vector<RdmaGpu> rdma_gpus(const Machine& machine) {
  std::vector<RdmaGpu> gpus;
  for (const std::string& line : machine.probes.all("device")) gpus.push_back(told_by_cuda(machine, line));
  if (gpus.empty() && !machine.driver.empty()) {
    for (const Gpu& gpu : machine.gpus) gpus.push_back(told_by_the_bus(machine, gpu));
  }
  for (RdmaGpu& gpu : gpus) {
    for (const Gpu& seen : machine.gpus) {
      if (!seen.unified || seen.card.address != gpu.address) continue;
      gpu.unified = true;
      gpu.name = name_of(seen.card);
      gpu.facts.supported = Told::no;
    }
  }
  return gpus;
}

const char* word_for(Told told, const char* yes, const char* no) {
  if (told == Told::unknown) return "not told";
  return told == Told::yes ? yes : no;
}

std::string words_about(const RdmaGpu& gpu) {
  std::string exported = word_for(gpu.facts.exported, "exported", "export refused");
  if (gpu.facts.exported == Told::unknown) exported = "export not tried";
  if (!gpu.refusal.empty()) exported += " (" + gpu.refusal + ")";
  std::string order = gpu.tells_order ? ", sees a card's writes in no order" : "";
  if (gpu.facts.ordering == 100) order = ", sees a card's writes in order";
  if (gpu.facts.ordering >= 200) order = ", sees a card's writes in order, as do other devices";
  return fmt::format("GPU {}: GPUDirect RDMA {}, dma-buf {}, {}{}", gpu.address,
                     word_for(gpu.facts.supported, "yes", "no"), word_for(gpu.facts.dma_buf, "yes", "no"), exported,
                     order);
}

void tell_kernel(const Machine& machine, Report& report) {
  const facts::RdmaKernelFacts& rdma = machine.rdma;
  if (rdma.tells_symbols) {
    report.fact(Section::rdma,
                fmt::format("kernel: ib_core takes dma-bufs: {}; drivers that register one: {}; ib_core registers peer "
                            "memory: {}",
                            rdma.core_takes_dma_buf ? "yes" : "no",
                            rdma.dma_buf_drivers.empty() ? "none" : joined(rdma.dma_buf_drivers, ", "),
                            rdma.core_registers_peers ? "yes" : "no"));
  } else {
    report.fact(Section::rdma, "kernel: the list of symbols is hidden");
  }
  report.fact(Section::rdma,
              fmt::format("nvidia_peermem: {}; network drivers: {}", rdma.peermem_loaded ? "loaded" : "not loaded",
                          rdma.ofed.empty() ? "the kernel's own" : "NVIDIA's (OFED) " + rdma.ofed));
}

RdmaPair pair_of(const RdmaGpu& gpu, const RdmaCard& card, const RdmaDecision& decision) {
  return {.gpu = gpu.address,
          .device = card.device,
          .way = std::string(facts::name_of(decision.way)),
          .proven = decision.proven,
          .needs_flush = decision.needs_flush,
          .against_dma_buf = std::string(facts::words_for(decision.dma_buf, RdmaWay::dma_buf)),
          .against_peermem = std::string(facts::words_for(decision.peermem, RdmaWay::peermem))};
}

// Eight GPUs and ten cards make eighty pairs that are mostly alike.
void tell_pairs(Report& report) {
  std::map<std::string, std::vector<std::string>> alike;
  for (const RdmaPair& pair : report.pairs()) {
    alike[words_about(pair)].push_back(fmt::format("{} and {}", pair.gpu, pair.device));
  }
  for (const auto& [words, pairs] : alike) {
    const bool all = pairs.size() > 1 && alike.size() == 1;
    report.fact(Section::rdma, fmt::format("{}: {}", all ? "each GPU and each card" : joined(pairs, ", "), words));
  }
}

// The GPU Operator loads the module where its values say so, and waits for NVIDIA's network drivers before.
void judge_missing_peermem(const Machine& machine, Report& report) {
  if (report.has(finding_at("rdma.peermem_refused"))) return;
  const bool on_node = machine.tree.has("/run/nvidia/driver/proc");
  const std::vector<std::string> variables = machine.probes.all("env");
  const bool in_pod =
      machine.in_container && std::any_of(variables.begin(), variables.end(), [](const std::string& variable) {
        return variable.starts_with("KUBERNETES_SERVICE_PORT=");
      });
  const bool drivers_in_container = machine.tree.has("/run/mellanox/drivers");
  if (on_node && !drivers_in_container && !machine.rdma.ofed.empty()) {
    report.add(finding_at("rdma.operator_waits_for_ofed"), {{"ofed", machine.rdma.ofed}});
  } else if (on_node || in_pod) {
    report.add(finding_at("rdma.operator_without_peermem"));
  } else {
    report.add(finding_at("rdma.peermem_not_loaded"));
  }
}

// Why there is no way, and what makes one.
void judge_obstacle(const Machine& machine, const RdmaGpu& gpu, const RdmaCard& card, const RdmaDecision& decision,
                    Report& report) {
  switch (decision.dma_buf) {
    case RdmaObstacle::gpu_without_rdma:
      report.add(gpu.unified ? finding_at("rdma.unified") : finding_at("rdma.gpu_without"), {{"gpu", gpu.name}});
      return;
    case RdmaObstacle::export_refused:
      return;  // told already
    case RdmaObstacle::core_without:
      report.add(finding_at("rdma.kernel_without_dma_buf"), {{"kernel", machine.kernel}});
      break;
    case RdmaObstacle::card_without:
      report.add(finding_at("rdma.card_without_dma_buf"),
                 {{"device", card.device}, {"driver", card.driver}, {"kernel", machine.kernel}});
      break;
    case RdmaObstacle::gpu_without_export:
      if (decision.peermem == RdmaObstacle::not_loaded) break;
      report.add(machine.open_module ? finding_at("rdma.no_export") : finding_at("rdma.no_way"),
                 {{"driver", machine.driver}, {"kernel", machine.kernel}});
      break;
    case RdmaObstacle::nothing:
    case RdmaObstacle::not_loaded:
      break;
  }
  if (decision.peermem == RdmaObstacle::not_loaded) judge_missing_peermem(machine, report);
}

void judge_pair(const Machine& machine, const RdmaGpu& gpu, const RdmaCard& card, Report& report) {
  const RdmaDecision decision = facts::decide_rdma(gpu.facts, machine.rdma, card.driver);
  report.pair(pair_of(gpu, card, decision));
  if (decision.way == RdmaWay::none) return judge_obstacle(machine, gpu, card, decision, report);
  // Where CUDA does not start, no process here reaches GPU memory.
  if (cuda_of(machine) == Cuda::works) report.can(Ability::rdma);
  if (decision.way == RdmaWay::peermem) return report.add(finding_at("rdma.peermem"));
  report.add(decision.proven ? finding_at("rdma.dma_buf") : finding_at("rdma.dma_buf_likely"));
}

void judge_modules(const Machine& machine, Report& report) {
  const facts::RdmaKernelFacts& rdma = machine.rdma;
  if (rdma.legacy_loaded) report.add(finding_at("rdma.legacy_module"));
  if (rdma.peermem_loaded) return;
  if (rdma.tells_symbols && !rdma.core_registers_peers && wants_peermem(machine)) {
    report.add(finding_at("rdma.peermem_cannot"));
  }
  const std::string symbol = symbol_in_log(machine, peermem, "disagrees about version of symbol");
  if (!symbol.empty()) report.add(finding_at("rdma.peermem_refused"), {{"symbol", symbol}});
}

}  // namespace

void judge_rdma(const Machine& machine, Report& report) {
  const std::vector<RdmaCard> cards = judge_devices(machine, report);
  const std::vector<RdmaGpu> gpus = rdma_gpus(machine);
  if (cards.empty()) {
    const std::string first = gpus.empty() ? "" : "; " + words_about(gpus.front());
    report.fact(Section::rdma, "no network card with RDMA" + first);
    return;
  }
  tell_kernel(machine, report);
  if (machine.in_container && !machine.tree.has("/dev/infiniband")) {
    report.add(finding_at("rdma.pod_without_nic"));
    return;
  }
  judge_modules(machine, report);
  for (const RdmaGpu& gpu : gpus) {
    report.fact(Section::rdma, words_about(gpu));
    if (gpu.facts.exported == Told::no && gpu.facts.dma_buf != Told::no && gpu.facts.supported != Told::no) {
      report.add(finding_at("rdma.export_refused"), {{"gpu", gpu.name}, {"error", gpu.refusal}});
    }
    for (const RdmaCard& card : cards) judge_pair(machine, gpu, card, report);
  }
  tell_pairs(report);
}

}  // namespace sluice::doctor
