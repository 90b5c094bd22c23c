// SPDX-License-Identifier: Apache-2.0
// Section storage: every mount, and what it lies on.
#include <fmt/format.h>

#include <algorithm>

#include "doctor/lustre.h"
#include "doctor/sections.h"
#include "doctor/storage.h"

namespace sluice::doctor {
namespace {

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> list) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

void judge_layers(const MountedFs& mounted, const Machine& machine, const Values& values, Report& report) {
  const std::string block = "/sys/block/" + mounted.block.name;
  if (mounted.block.driver == "device-mapper") {
    const std::string uuid = machine.tree.value(block + "/dm/uuid");
    if (uuid.starts_with("LVM-")) report.add(finding_at("storage.lvm"), values);
    if (uuid.starts_with("mpath-")) report.add(finding_at("storage.dm_multipath"), values);
    if (uuid.starts_with("CRYPT-")) report.add(finding_at("storage.encrypted"), values);
  }
  if (mounted.block.driver == "md") {
    const std::string level = machine.tree.value(block + "/md/level");
    if (is_one_of(level, {"raid4", "raid5", "raid6"})) {
      Values with_level = values;
      with_level.emplace_back("level", level);
      report.add(finding_at("storage.md_level"), with_level);
    }
  }
  if (mounted.block.driver == "loop") report.add(finding_at("storage.loop"), values);
}

void judge_ext4_or_xfs(const MountedFs& mounted, const Machine& machine, Values values, Report& report) {
  const std::string& options = mounted.mount.options;
  if (mounted.mount.type == "ext4") {
    const std::string data = option_of(options, "data");
    if (data == "journal") report.add(finding_at("storage.data_journal"), values);
    const bool nvidia_cares = machine.nvfs_loaded || configures(machine, "properties.use_pci_p2pdma", "true");
    if (data.empty() && nvidia_cares) report.add(finding_at("storage.ordered_unlisted"), values);
  }
  for (const char* option : {"nobarrier", "barrier=0"}) {
    if (!has_option(options, option)) continue;
    values.emplace_back("option", option);
    report.add(finding_at("storage.no_barriers"), values);
  }
  if (has_option(options, "sync")) report.add(finding_at("storage.sync_mount"), values);
  if (has_option(options, "discard")) report.add(finding_at("storage.discard"), values);
  judge_layers(mounted, machine, values, report);
}

void judge_nfs(const MountedFs& mounted, Values values, Report& report) {
  const std::string& options = mounted.mount.options;
  const std::string size = option_of(options, "rsize");
  const std::string connections = option_of(options, "nconnect");
  values.emplace_back("rsize", size);
  values.emplace_back("nconnect", connections.empty() ? "1" : connections);
  constexpr std::int64_t wanted = 1 << 20;
  const std::int64_t bytes = to_number(size).value_or(wanted);
  if (bytes < wanted) report.add(finding_at("storage.nfs_small"), values);
  const std::string protocol = option_of(options, "proto");
  if (protocol == "rdma") {
    report.add(finding_at("storage.nfs_rdma"), values);
  } else if (to_number(connections).value_or(1) < 4) {
    report.add(finding_at("storage.nfs_tcp"), values);
  }
}

void judge_mount(const MountedFs& mounted, const Machine& machine, Report& report) {
  const std::string& type = mounted.mount.type;
  const std::string device = mounted.block.name.empty() ? mounted.mount.source : mounted.block.name;
  report.fact(Section::storage, describe_mount(mounted, machine));
  const Values values = {
      {"point", mounted.mount.point}, {"type", type}, {"device", device}, {"source", mounted.mount.source}};
  if (is_one_of(type, {"ext4", "xfs"})) {
    judge_ext4_or_xfs(mounted, machine, values, report);
  } else if (type == "btrfs") {
    report.add(finding_at("storage.btrfs"), values);
  } else if (type == "zfs") {
    report.add(finding_at("storage.zfs"), values);
  } else if (type == "overlay") {
    report.add(finding_at("storage.overlay"), values);
  } else if (type == "virtiofs") {
    report.add(finding_at("storage.virtiofs"), values);
  } else if (type.starts_with("fuse") && !is_one_of(type, {"fuse.lxcfs", "fuse.gvfsd-fuse", "fuse.portal"})) {
    report.add(finding_at("storage.fuse"), values);
  } else if (is_one_of(type, {"nfs", "nfs4"})) {
    judge_nfs(mounted, values, report);
  } else if (is_one_of(type, {"lustre", "wekafs", "gpfs", "mmfs", "beegfs", "fhgfs", "scatefs", "ceph"})) {
    report.add(finding_at("storage.distributed"), values);
  }
}

// A mount that would fail at the next start is not there to be seen.
void judge_fstab(const Machine& machine, Report& report) {
  for (const std::string& line : split(machine.tree.text("/etc/fstab"), '\n')) {
    const std::vector<std::string> fields = words(line);
    if (fields.size() < 4 || fields[0].front() == '#' || fields[2] != "xfs") continue;
    if (has_option(fields[3], "nobarrier"))
      report.add(finding_at("storage.nobarrier_in_fstab"), {{"point", fields[1]}});
  }
}

}  // namespace

bool has_option(const std::string& options, std::string_view wanted) {
  const std::vector<std::string> all = split(options, ',');
  return std::find(all.begin(), all.end(), wanted) != all.end();
}

std::string option_of(const std::string& options, const std::string& name) {
  for (const std::string& option : split(options, ',')) {
    if (option.starts_with(name + "=")) return option.substr(name.size() + 1);
  }
  return {};
}

void judge_storage(const Machine& machine, Report& report) {
  for (const MountedFs& mounted : machine.mounts) judge_mount(mounted, machine, report);
  judge_fstab(machine, report);
  judge_drives(machine, report);
  judge_lustre(machine, report);
}

}  // namespace sluice::doctor
