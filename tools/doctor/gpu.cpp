// SPDX-License-Identifier: Apache-2.0
// Section gpu: is there a device, does its driver start, is it as wide and as visible as it can be.
#include <fmt/format.h>

#include <algorithm>

#include "doctor/kernel_modules.h"
#include "doctor/sections.h"
#include "facts/coherence.h"

namespace sluice::doctor {
namespace {

// A card with less of its memory on the bus than this has no resizable BAR: the classic window is 256 MiB.
constexpr std::uint64_t small_bar = 1U << 30;

void judge_links(const Gpu& gpu, Report& report) {
  const Card& card = gpu.card;
  if (card.link.width > 0 && card.link.most_width > card.link.width) {
    report.add(finding_at("gpu.narrow_link"), {{"gpu", name_of(card)},
                                               {"now", std::to_string(card.link.width)},
                                               {"most", std::to_string(card.link.most_width)}});
  }
  if (card.link.speed > 0 && card.link.speed < card.link.most_speed) {
    report.add(
        finding_at("gpu.slow_link"),
        {{"gpu", card.address}, {"now", speed_words(card.link.speed)}, {"most", speed_words(card.link.most_speed)}});
  }
}

void judge_card(const Machine& machine, const Gpu& gpu, Report& report) {
  const Card& card = gpu.card;
  report.fact(Section::gpu,
              fmt::format("{}: driver {}, {} of {} lanes, {} of {}, BAR1 {}, NUMA node {}", name_of(card),
                          card.driver.empty() ? "none" : card.driver, card.link.width, card.link.most_width,
                          speed_words(card.link.speed), speed_words(card.link.most_speed),
                          gpu.bar1 == 0 ? "unknown" : size_words(gpu.bar1), card.node));
  if (card.driver == "nouveau") report.add(finding_at("gpu.nouveau"), {{"gpu", name_of(card)}});
  if (card.driver == "vfio-pci") report.add(finding_at("gpu.held_by_vfio"), {{"gpu", name_of(card)}});
  if (gpu.unified) {
    report.add(finding_at("gpu.unified"), {{"gpu", name_of(card)}});
    return;
  }
  judge_links(gpu, report);
  if (gpu.bar1 != 0 && gpu.bar1 < small_bar && !machine.driver.empty()) {
    report.add(finding_at("gpu.small_bar"), {{"gpu", name_of(card)}, {"size", size_words(gpu.bar1)}});
  }
}

// "device 0 0000:17:00.0 ecc=1 ... name=NVIDIA H200 MIG 1g.18gb".
void judge_cuda_devices(const Machine& machine, Report& report) {
  for (const std::string& line : machine.probes.all("device")) {
    report.fact(Section::gpu, "CUDA device " + line);
    const std::vector<std::string> parts = words(line);
    const std::string address = parts.size() > 1 ? parts[1] : "?";
    if (contains(line, " ecc=0 ") && !contains(line, "GeForce") && !contains(line, " integrated=1 ")) {
      report.add(finding_at("gpu.ecc_off"), {{"gpu", address}});
    }
    if (says_coherent(line)) report.add(finding_at("gpu.coherent"), {{"gpu", address}});
  }
  for (const std::string& gpu : machine.tree.names("/proc/driver/nvidia/capabilities")) {
    // Beside "config" and "monitor" there is a folder for each instance.
    for (const std::string& name : machine.tree.names("/proc/driver/nvidia/capabilities/" + gpu + "/mig")) {
      if (name.starts_with("gi")) report.add(finding_at("gpu.mig"), {{"gpu", gpu}});
    }
  }
}

void judge_cuda_answer(const Machine& machine, Report& report) {
  const std::string answer = machine.probes.get("cuda");
  const Values values = {{"result", answer}, {"driver", machine.driver}};
  const bool has_nodes = machine.tree.has("/dev/nvidiactl");
  switch (cuda_of(machine)) {
    case Cuda::missing:
      if (machine.in_container && has_nodes) {
        std::string given;
        for (const std::string& variable : machine.probes.all("env")) {
          if (variable.starts_with("NVIDIA_DRIVER_CAPABILITIES=")) given = variable.substr(variable.find('=') + 1);
        }
        report.add(finding_at("container.no_compute"), {{"value", given.empty() ? "not set" : given}});
      } else if (machine.tree.has("/run/nvidia/driver/proc")) {
        report.add(finding_at("gpu.driver_in_container"), values);
      } else if (!machine.in_container) {
        report.add(finding_at("gpu.no_libcuda"), values);
      }
      return;
    case Cuda::hangs:
      report.add(finding_at("gpu.cuda_hangs"), values);
      return;
    case Cuda::fails:
      if (!has_nodes) return;  // told already: that is why
      if (answer.starts_with("803")) {
        report.add(finding_at("gpu.version_mismatch"), values);
      } else if (answer.starts_with("802")) {
        report.add(finding_at("gpu.fabric_not_ready"), values);
      } else {
        report.add(finding_at("gpu.cuda_fails"), values);
      }
      return;
    case Cuda::works: {
      const std::int64_t version = to_number(machine.probes.get("cuda_version")).value_or(0);
      const std::string count = machine.probes.get("devices");
      report.can(Ability::gpu);
      report.add(finding_at("gpu.works"),
                 {{"cuda", fmt::format("{}.{}", version / 1000, version % 1000 / 10)},
                  {"count", count == "1" ? "1 device" : count + " devices"},
                  {"driver", machine.driver},
                  {"flavour", machine.open_module ? "open kernel module" : "closed kernel module"}});
      return;
    }
    case Cuda::unknown:
      return;
  }
}

void judge_missing_driver(const Machine& machine, const Gpu& gpu, Report& report) {
  const DkmsState dkms = dkms_of(machine, "nvidia");
  const bool built = std::find(dkms.kernels.begin(), dkms.kernels.end(), machine.kernel) != dkms.kernels.end();
  const Values values = {{"gpu", name_of(gpu.card)},
                         {"kernel", machine.kernel},
                         {"version", dkms.version},
                         {"built", dkms.kernels.empty() ? "no kernel" : joined(dkms.kernels, ", ")}};
  const bool elsewhere = !dkms.version.empty() && !built && module_file(machine, "nvidia").empty();
  report.add(elsewhere ? finding_at("gpu.driver_for_other_kernel") : finding_at("gpu.no_driver"), values);
}

bool asks_for_the_soft_gpu(const Machine& machine) {
  const std::vector<std::string> variables = machine.probes.all("env");
  return std::find(variables.begin(), variables.end(), "SLUICE_SOFTGPU=1") != variables.end();
}

}  // namespace

Cuda cuda_of(const Machine& machine) {
  const std::string answer = machine.probes.get("cuda");
  if (answer.empty()) return Cuda::unknown;
  if (answer == "missing" || machine.probes.get("cuda_is_soft") == "1") return Cuda::missing;
  if (answer == "hangs") return Cuda::hangs;
  return answer == "0" && machine.probes.get("devices") != "0" ? Cuda::works : Cuda::fails;
}

bool says_coherent(const std::string& device_line) {
  const std::string attributes = device_line.substr(0, device_line.find(" name=")) + " ";
  const auto has = [&attributes](const char* word) { return contains(attributes, fmt::format(" {}=1 ", word)); };
  return facts::is_said_coherent({.host_page_tables = has("hosttables"),
                                  .integrated = has("integrated"),
                                  .pageable = has("pageable"),
                                  .concurrent_managed = has("concurrent")});
}

std::string name_of(const Card& card) {
  return card.name.empty() ? card.address : card.name + " at " + card.address;
}

std::string size_words(std::uint64_t bytes) {
  constexpr std::uint64_t mib = 1U << 20;
  if (bytes < 1024 * mib) return fmt::format("{} MiB", bytes / mib);
  return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / static_cast<double>(1024 * mib));
}

std::string speed_words(double gigatransfers) {
  return gigatransfers > 0 ? fmt::format("{:.1f} GT/s PCIe", gigatransfers) : "?";
}

void judge_gpu(const Machine& machine, Report& report) {
  if (machine.wsl) {
    report.add(finding_at("gpu.wsl"));
    if (cuda_of(machine) == Cuda::works) report.can(Ability::gpu);
    return;
  }
  // A container without sysfs sees no bus, and may have a GPU all the same.
  const bool has_gpu = !machine.gpus.empty() || !machine.driver.empty() || cuda_of(machine) == Cuda::works;
  if (!has_gpu) {
    report.add(finding_at("gpu.none"));
    return;
  }
  for (const Gpu& gpu : machine.gpus) judge_card(machine, gpu, report);
  if (machine.driver.empty()) {
    for (const Gpu& gpu : machine.gpus) {
      if (!gpu.card.driver.empty()) continue;
      judge_missing_driver(machine, gpu, report);
    }
    return;
  }
  if (!machine.open_module) report.add(finding_at("gpu.closed_module"), {{"driver", machine.driver}});
  if (!machine.tree.has("/dev/nvidiactl")) {
    report.add(machine.in_container ? finding_at("container.no_gpu") : finding_at("gpu.no_nodes"));
  } else if (!machine.in_container && !machine.tree.has("/run/nvidia-persistenced")) {
    report.add(finding_at("gpu.no_persistence"));
  }
  judge_cuda_answer(machine, report);
  judge_cuda_devices(machine, report);
  if (asks_for_the_soft_gpu(machine)) report.add(finding_at("gpu.soft_asked"));
}

}  // namespace sluice::doctor
