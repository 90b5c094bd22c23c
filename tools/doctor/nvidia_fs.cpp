// SPDX-License-Identifier: Apache-2.0
// Section nvidia-fs: why it does not load, or what is wrong with it once it has.
#include <fmt/format.h>

#include <algorithm>

#include "doctor/kernel_modules.h"
#include "doctor/sections.h"
#include "facts/read.h"

namespace sluice::doctor {
namespace {

constexpr const char* module_name = "nvidia-fs";

// "26.01-0.6.8" of NVIDIA's own drivers for network cards; the kernel's tell none, or the kernel's.
void judge_doca(const Machine& machine, Report& report) {
  const std::string ofed = machine.tree.value("/sys/module/mlx5_core/version");
  const Version version(ofed);
  if (!machine.kernel_version().at_least(6, 17) || !version.at_least(20) || version.at_least(26, 1)) return;
  report.add(finding_at("nvidia_fs.doca_for_kernel"), {{"kernel", machine.kernel}, {"ofed", ofed}});
}

// One cause is told: the first of these that holds, from what is certain to what is likely.
void judge_unloaded(const Machine& machine, Report& report) {
  const std::string file = module_file(machine, module_name);
  const DkmsState dkms = dkms_of(machine, module_name);
  if (file.empty() && dkms.version.empty()) {
    report.fact(Section::nvidia_fs, "nvidia-fs is not installed; Sluice needs none");
    return;
  }
  judge_doca(machine, report);
  const ModInfo info = modinfo_of(machine, module_name);
  const auto field = [&info](const char* name) { return info.contains(name) ? info.at(name) : std::string(); };
  const std::string refused = symbol_in_log(machine, module_name, "disagrees about version of symbol");
  const std::string unknown = symbol_in_log(machine, module_name, "Unknown symbol");
  Values values = {{"version", dkms.version.empty() ? field("version") : dkms.version},
                   {"kernel", machine.kernel},
                   {"driver", machine.driver}};
  const std::string vermagic = field("vermagic");
  report.fact(Section::nvidia_fs,
              fmt::format("nvidia-fs is installed and not loaded: {}, made for {}",
                          file.empty() ? "no module for this kernel" : file, vermagic.empty() ? "?" : vermagic));
  if (file.empty() && dkms.kernels.empty()) {
    report.add(finding_at("nvidia_fs.never_built"), values);
  } else if (file.empty() || (!vermagic.empty() && !vermagic.starts_with(machine.kernel + " "))) {
    values.emplace_back("built", dkms.kernels.empty() ? words(vermagic).front() : joined(dkms.kernels, ", "));
    report.add(finding_at("nvidia_fs.other_kernel"), values);
  } else if (machine.driver.empty()) {
    report.add(finding_at("nvidia_fs.gpu_module_first"), values);
  } else if (!machine.open_module) {
    report.add(finding_at("nvidia_fs.closed_module"), values);
  } else if (!refused.empty()) {
    values.emplace_back("symbol", refused);
    report.add(finding_at("nvidia_fs.other_driver"), values);
  } else if (!info.empty() && !contains(field("depends"), "nvidia")) {
    values.emplace_back("file", std::string(facts::last_component(module_file(machine, "nvidia"))));
    report.add(finding_at("nvidia_fs.built_without_symbols"), values);
  } else if (!unknown.empty()) {
    values.emplace_back("symbol", unknown);
    report.add(finding_at("nvidia_fs.unknown_symbol"), values);
  } else {
    report.add(finding_at("nvidia_fs.not_loaded"), values);
  }
}

// "nvme: 1.2" and the like, one a line. wekafsio stands there always.
std::vector<std::string> hooks_of(const Machine& machine) {
  std::vector<std::string> names;
  for (const std::string& line : split(machine.tree.text("/proc/driver/nvidia-fs/modules"), '\n')) {
    const std::string name(facts::trimmed(line.substr(0, line.find(':'))));
    if (!name.empty() && name != "wekafsio") names.push_back(name);
  }
  return names;
}

void judge_hooks(const Machine& machine, const std::vector<std::string>& hooks, Report& report) {
  const bool has_nvme = std::any_of(machine.drives.begin(), machine.drives.end(),
                                    [](const Drive& drive) { return drive.transport == "pcie"; });
  if (!has_nvme || std::find(hooks.begin(), hooks.end(), "nvme") != hooks.end()) return;
  if (machine.has_symbol("nvme_v2_register_nvfs_dma_ops")) {
    report.add(finding_at("nvidia_fs.hooks_of_v2"));
  } else if (machine.has_symbol("nvme_v1_register_nvfs_dma_ops")) {
    report.add(finding_at("nvidia_fs.loaded_before_nvme"));
  } else {
    report.add(finding_at("nvidia_fs.no_nvme_hooks"));
  }
}

void judge_loaded(const Machine& machine, Report& report) {
  report.can(Ability::nvidia_fs);
  const std::vector<std::string> hooks = hooks_of(machine);
  const Values values = {
      {"version", machine.nvfs}, {"kernel", machine.kernel}, {"hooks", hooks.empty() ? "none" : joined(hooks, ", ")}};
  report.add(finding_at("nvidia_fs.loaded"), values);
  const Version version(machine.nvfs);
  if (version.before(2, 12)) report.add(finding_at("nvidia_fs.old"), values);
  if (machine.nvfs == "2.25.6") report.add(finding_at("nvidia_fs.bad_release"));
  for (const Gpu& gpu : machine.gpus) {
    if (gpu.unified) report.add(finding_at("nvidia_fs.unified"), {{"gpu", name_of(gpu.card)}});
  }
  judge_hooks(machine, hooks, report);
  const bool has_nvme = !machine.drives.empty();
  if (machine.kernel_version().at_least(6, 17) && has_nvme) {
    report.add(finding_at("nvidia_fs.hanging_kernel"), values);
  } else if (machine.kernel_version().at_least(6, 11)) {
    report.add(finding_at("nvidia_fs.slow_kernel"), values);
  }
  if (!machine.tree.has("/dev/nvidia-fs0")) report.add(finding_at("nvidia_fs.no_nodes"));
  judge_doca(machine, report);
  if (std::string symbol = symbol_in_log(machine, module_name, "no symbol version for"); !symbol.empty()) {
    report.add(finding_at("nvidia_fs.no_symbol_version"), {{"version", machine.nvfs}, {"symbol", std::move(symbol)}});
  }
}

}  // namespace

void judge_nvidia_fs(const Machine& machine, Report& report) {
  if (machine.nvfs_loaded) {
    judge_loaded(machine, report);
  } else {
    judge_unloaded(machine, report);
  }
}

}  // namespace sluice::doctor
