// SPDX-License-Identifier: Apache-2.0
// Reading cards, drives, mounts and what kind of machine this is.
#include "doctor/machine.h"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>

#include "facts/file_system.h"
#include "facts/read.h"
#include "topology/pci.h"
#include "topology/told.h"

namespace sluice::doctor {
namespace {

constexpr const char* cards_folder = "/sys/bus/pci/devices/";
constexpr std::size_t most_mounts = 500;

std::string driver_version_in(const Tree& tree) {
  if (std::string version = tree.value("/sys/module/nvidia/version"); !version.empty()) return version;
  for (const std::string& word : words(tree.value("/proc/driver/nvidia/version"))) {
    if (Version(word).parts.size() >= 2) return word;
  }
  return {};
}

bool is_spark(const Tree& tree) {
  const std::string product = tree.value("/sys/class/dmi/id/product_name");
  return contains(product, "DGX Spark") || contains(product, "DGX_Spark");
}

// What the tree does not hold, because it says nothing of what is near what.
Card card_at(const Tree& tree, const topology::Place& place) {
  Card card;
  card.address = place.address;
  card.node = place.node;
  card.bridges = place.above;
  card.root = place.root;
  card.link = place.link;
  const std::string folder = cards_folder + place.address;
  card.driver = tree.link(folder + "/driver");
  card.group = tree.link(folder + "/iommu_group");
  card.domain = tree.value(folder + "/iommu_group/type");
  return card;
}

std::vector<Gpu> read_gpus(const Tree& tree, const topology::Machine& bus) {
  std::vector<Gpu> gpus;
  for (const topology::Device* const device : topology::devices_of(bus, topology::Kind::gpu)) {
    const std::string& model = device->model;
    Gpu gpu;
    gpu.card = card_at(tree, device->place);
    gpu.card.name = model.empty() ? "NVIDIA device" : model;
    gpu.bar1 = topology::bar_bytes(tree.root(), device->place.address, 1);
    gpu.geforce = contains(model, "GeForce");
    gpu.unified = contains(model, "GB10") || is_spark(tree);
    gpu.coherent = contains(model, "GH200") || contains(model, "GB200") || contains(model, "GB300");
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

bool is_disk_of(const std::string& name, const std::string& controller) {
  // "nvme0n1" of nvme0; not the hidden "nvme0c0n1".
  return name.starts_with(controller + "n") && name.find('c', controller.size()) == std::string::npos;
}

std::vector<Drive> read_drives(const Tree& tree, const topology::Machine& bus) {
  std::vector<Drive> drives;
  for (const std::string& controller : tree.names("/sys/class/nvme")) {
    const std::string folder = "/sys/class/nvme/" + controller;
    Drive drive;
    drive.controller = controller;
    drive.transport = tree.value(folder + "/transport");
    for (const std::string& name : tree.names(folder)) {
      if (drive.disk.empty() && is_disk_of(name, controller)) drive.disk = name;
      // "nvme0c1n1" is the hidden path of the head "nvme0n1".
      const std::size_t hidden = name.find('c', 4);
      if (drive.disk.empty() && name.starts_with("nvme") && hidden != std::string::npos) {
        drive.disk = name.substr(0, hidden) + name.substr(name.find('n', hidden));
        drive.head = true;
      }
    }
    if (drive.transport.empty() || drive.transport == "pcie") {
      const std::string address(facts::last_component(tree.real(folder + "/device")));
      topology::Place place;
      place.address = address;
      const topology::Device* const device = topology::find_device(bus, address);
      drive.card = card_at(tree, device != nullptr ? device->place : place);
    }
    drives.push_back(std::move(drive));
  }
  return drives;
}

std::vector<MountedFs> read_mounts(const Tree& tree) {
  std::vector<MountedFs> mounts;
  std::set<std::string> seen;
  const std::string table = tree.text("/proc/self/mountinfo");
  for (const std::string& line : split(table, '\n')) {
    std::optional<facts::Mount> mount = facts::parse_mount(line);
    if (!mount || mounts.size() >= most_mounts) continue;
    if (facts::file_system_named(mount->type).substance == facts::Substance::pseudo) continue;
    // Bind mounts show the same file system again.
    if (!seen.insert(mount->type + " " + mount->source + " " + std::to_string(mount->device)).second) continue;
    MountedFs mounted;
    mounted.block = facts::block_of_source(mount->source, tree.root());
    if (mounted.block.name.empty()) mounted.block = facts::block_with_number(mount->device, tree.root());
    mounted.mount = std::move(*mount);
    mounts.push_back(std::move(mounted));
  }
  return mounts;
}

// All that any section asks for: the list is read once, it is long.
const std::vector<std::string>& wanted_symbols() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list = {"pci_p2pdma_add_resource", "nvidia_p2p_get_pages", "nvme_v1_register_nvfs_dma_ops",
                                     "nvme_v2_register_nvfs_dma_ops", "dma_buf_io_ctx_create"};
    for (const std::string_view name : facts::rdma_symbols()) list.emplace_back(name);
    return list;
  }();
  return names;
}

std::set<std::string> read_symbols(const Tree& tree) {
  std::vector<std::string> texts;
  for (const std::string& name : wanted_symbols()) texts.push_back(" " + name);
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  const std::vector<bool> found = facts::file_contains(tree.root().at("/proc/kallsyms"), views);
  std::set<std::string> symbols;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i]) symbols.insert(wanted_symbols()[i]);
  }
  return symbols;
}

bool looks_like_a_container(const Tree& tree, const Probes& probes) {
  if (tree.has("/.dockerenv") || tree.has("/run/.containerenv")) return true;
  for (const std::string& variable : probes.all("env")) {
    if (variable.starts_with("KUBERNETES_SERVICE_PORT=")) return true;
  }
  const std::string first = tree.text("/proc/1/cgroup");
  return contains(first, "/docker") || contains(first, "/kubepods") || contains(first, "/libpod");
}

std::string hypervisor_of(const Tree& tree) {
  // The processor says so, or the firmware does.
  const bool told = contains(tree.text("/proc/cpuinfo"), " hypervisor");
  const std::string vendor = tree.value("/sys/class/dmi/id/sys_vendor");
  const std::string product = tree.value("/sys/class/dmi/id/product_name");
  for (const char* name : {"QEMU", "KVM", "VMware", "Xen", "Microsoft", "Google", "Amazon EC2", "innotek"}) {
    if (!contains(vendor, name) && !contains(product, name)) continue;
    if (told) return name;
  }
  return told ? "an unnamed hypervisor" : "";
}

}  // namespace

Machine::Machine(const Tree& read_from) : tree(read_from), probes(probes_of(read_from)) {
  kernel = tree.value("/proc/sys/kernel/osrelease");
  arch = probes.get("arch");
  command_line = tree.value("/proc/cmdline");
  driver = driver_version_in(tree);
  open_module = contains(tree.text("/proc/driver/nvidia/version"), "Open Kernel Module");
  const std::string nvfs_version = tree.value("/proc/driver/nvidia-fs/version");
  nvfs_loaded = !nvfs_version.empty() || tree.has("/sys/module/nvidia_fs");
  nvfs = tree.value("/sys/module/nvidia_fs/version");
  if (nvfs.empty() && contains(nvfs_version, ":")) {
    nvfs = facts::trimmed(std::string_view(nvfs_version).substr(nvfs_version.find(':') + 1));
  }
  bus = topology::read_machine(tree.root(), topology::told_by_lines(probes.text()));
  gpus = read_gpus(tree, bus);
  drives = read_drives(tree, bus);
  for (const topology::Device* const device : topology::devices_of(bus, topology::Kind::nic)) {
    if (!device->place.address.empty()) nics.push_back(card_at(tree, device->place));
  }
  mounts = read_mounts(tree);
  symbols = read_symbols(tree);
  rdma = facts::rdma_kernel_facts(tree.root(), {symbols.begin(), symbols.end()}, symbols.contains("vfs_read"));
  in_container = looks_like_a_container(tree, probes);
  wsl = contains(tree.text("/proc/version"), "microsoft") || contains(kernel, "microsoft");
  hypervisor = hypervisor_of(tree);
}

}  // namespace sluice::doctor
