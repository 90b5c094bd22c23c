// SPDX-License-Identifier: Apache-2.0
// A driver without hooks moves the bytes of a shadow buffer and reports success, so the module's word that it is loaded
// says nothing: its list has to name the driver of this very file, and the kernel has to export the hooks from the
// module that drives this very drive. An array is as good as its worst member.
#include "facts/nvfs.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "facts/block.h"
#include "facts/read.h"

namespace sluice::facts {

namespace {

// Drivers of drives: the key in `modules`, and what the module that has the hooks exports.
struct DriveHook {
  std::string_view key;
  std::string_view symbol;
};
constexpr std::array drive_hooks = {
    DriveHook{"nvme", "nvme_v1_register_nvfs_dma_ops"},
    DriveHook{"nvme", "nvme_v2_register_nvfs_dma_ops"},
    DriveHook{"nvme_rdma", "nvme_rdma_v1_register_nvfs_dma_ops"},
    DriveHook{"sfxvdriver", "sfxv_v1_register_nvfs_dma_ops"},
    DriveHook{"nvmeib_common", "nvmesh_v1_register_nvfs_dma_ops"},
    DriveHook{"scsi_mod", "scsi_v1_register_dma_scsi_ops"},
};

// File systems that bring hooks of their own. WekaFS and GPFS are served from user space, not by this way.
struct FileSystemKey {
  std::string_view file_system;
  std::string_view key;
};
constexpr std::array file_system_keys = {
    FileSystemKey{"lustre", "lnet"},   FileSystemKey{"nfs", "rpcrdma"},     FileSystemKey{"nfs4", "rpcrdma"},
    FileSystemKey{"beegfs", "beegfs"}, FileSystemKey{"scatefs", "scatefs"},
};

void read_version(std::string_view text, NvfsFacts& facts) {
  const std::size_t colon = text.find(':');
  facts.version = trimmed(colon == std::string_view::npos ? text : text.substr(colon + 1));
  const char* const end = facts.version.data() + facts.version.size();
  const auto [dot, error] = std::from_chars(facts.version.data(), end, facts.major);
  if (error == std::errc{} && dot != end && *dot == '.') std::from_chars(dot + 1, end, facts.minor);
}

// The module that drives a disk, as /proc/kallsyms names it. The parts of one driver of the kernel's have other names.
std::string module_of(const BlockFacts& disk, const Root& root) {
  if (disk.driver == "nvme") return disk.transport == "rdma" ? "nvme_rdma" : "nvme";
  if (disk.driver == "sd") return "scsi_mod";
  const std::optional<std::string> link = read_link(root.at("/sys/class/block/" + disk.name + "/device/driver/module"));
  return link ? std::string(last_component(*link)) : disk.driver;
}

bool lists(const NvfsFacts& nvfs, std::string_view key) {
  return std::find(nvfs.hooked.begin(), nvfs.hooked.end(), key) != nvfs.hooked.end();
}

}  // namespace

NvfsFacts of_nvfs(const Root& root) {
  NvfsFacts facts;
  const std::optional<std::string> version = read_value(root.at("/proc/driver/nvidia-fs/version"));
  facts.loaded = version.has_value() || exists(root.at("/proc/driver/nvidia-fs/devcount"));
  if (version) read_version(*version, facts);
  const std::string modules = read_text(root.at("/proc/driver/nvidia-fs/modules")).value_or("");
  // "nvme: (null)": a driver that publishes no version is hooked all the same.
  for (std::size_t at = 0; at < modules.size();) {
    const std::size_t end = std::min(modules.find('\n', at), modules.size());
    const std::string_view line = std::string_view(modules).substr(at, end - at);
    const std::size_t colon = line.find(':');
    const std::string_view key = trimmed(line.substr(0, colon));
    if (colon != std::string_view::npos && !key.empty() && key != "wekafsio") facts.hooked.emplace_back(key);
    at = end + 1;
  }
  return facts;
}

const std::vector<std::string>& NvfsHookSearch::keys_exported_by(const std::string& module) {
  const auto [place, is_new] = exported_.try_emplace(module);
  if (!is_new) return place->second;
  // "ffffffffc0a1b000 T nvme_v1_register_nvfs_dma_ops	[nvme]"; what is built in has no module behind it.
  std::vector<std::string> lines;
  lines.reserve(drive_hooks.size());
  for (const DriveHook& hook : drive_hooks) lines.push_back(" " + std::string(hook.symbol) + "\t[" + module + "]\n");
  const std::vector<bool> found =
      file_contains(root_.at("/proc/kallsyms"), std::vector<std::string_view>(lines.begin(), lines.end()));
  for (std::size_t i = 0; i < drive_hooks.size(); ++i) {
    if (found[i]) place->second.emplace_back(drive_hooks[i].key);
  }
  return place->second;
}

NvfsHooks NvfsHookSearch::hooks_of(const BlockFacts& disk, const NvfsFacts& nvfs) {
  if (disk.name.empty() || disk.driver.empty()) return NvfsHooks::unknown;
  const std::vector<std::string>& keys = keys_exported_by(module_of(disk, root_));
  if (std::any_of(keys.begin(), keys.end(), [&nvfs](const auto& key) { return lists(nvfs, key); })) {
    return NvfsHooks::present;
  }
  const bool its_name_is_listed =
      (disk.driver == "nvme" && lists(nvfs, disk.transport == "rdma" ? "nvme_rdma" : "nvme")) ||
      (disk.driver == "sd" && lists(nvfs, "scsi_mod"));
  return its_name_is_listed ? NvfsHooks::foreign : NvfsHooks::not_listed;
}

NvfsHooks NvfsHookSearch::hooks_below(const FileFacts& file, const NvfsFacts& nvfs) {
  for (const FileSystemKey& known : file_system_keys) {
    if (file.file_system_name == known.file_system) {
      return lists(nvfs, known.key) ? NvfsHooks::present : NvfsHooks::not_listed;
    }
  }
  const std::lock_guard lock(mutex_);
  if (file.block.members.empty()) return hooks_of(file.block, nvfs);
  for (const std::string& member : file.block.members) {
    const NvfsHooks hooks = hooks_of(block_of_source("/dev/" + member, root_), nvfs);
    if (hooks != NvfsHooks::present) return hooks;
  }
  return NvfsHooks::present;
}

}  // namespace sluice::facts
