// SPDX-License-Identifier: Apache-2.0
// What the machine, the driver and the library say of themselves.
#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "common/driver.h"
#include "common/text.h"
#include "doctor/nvfs_report.h"
#include "doctor/platform.h"
#include "gdscheck/sections.h"
#include "sluice.h"

namespace sluice::tools {
namespace {

std::string first_line(const char* path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return printable(line);
}

// "2.26" of "2.26.6"; "" where nvidia-fs.ko is not loaded.
std::string nvfs_version() {
  const std::string& whole = platform().nvfs;
  const std::size_t first = whole.find('.');
  return printable(first == std::string::npos ? whole : whole.substr(0, whole.find('.', first + 1)));
}

int reported_version() {
  int version = 0;
  cuFileGetVersion(&version);
  return version;
}

std::string api_version() {
  const int version = reported_version();
  return fmt::format("{}.{}.{}", version / 1000, version % 1000 / 10, version % 10);
}

// Sluice's own: NVIDIA's library of that name is no use to it.
bool rdma_library_loads() {
  void* const library = ::dlopen("libcufile_rdma.so.1", RTLD_NOW | RTLD_LOCAL);
  return library != nullptr && ::dlsym(library, "sluice_rdma_interface") != nullptr;
}

std::string machine_name() {
  utsname name{};
  return uname(&name) == 0 ? name.machine : "unknown";
}

struct StorageRow {
  const char* name;
  CUfileDriverStatusFlags_t bit;
  const char* hook = nullptr;  // the driver's name in nvidia-fs.ko's list, where the way by it is this library's
  int since = 1150;            // the version of the report that has the row
  int until = 9999;            // the first that has not
};

// In the order of the incumbent's report.
constexpr std::array storage_rows{
    StorageRow{"NVMe P2PDMA", CU_FILE_NVME_P2P_SUPPORTED, nullptr, 1150, 1160},
    StorageRow{"NVMe", CU_FILE_NVME_SUPPORTED, "nvme"},
    StorageRow{"NVMeOF", CU_FILE_NVMEOF_SUPPORTED, "nvme_rdma"},
    StorageRow{"SCSI", CU_FILE_SCSI_SUPPORTED, "scsi_mod"},
    StorageRow{"ScaleFlux CSD", CU_FILE_SCALEFLUX_CSD_SUPPORTED, "sfxvdriver"},
    StorageRow{"NVMesh", CU_FILE_NVMESH_SUPPORTED, "nvmeib_common"},
    StorageRow{"DDN EXAScaler", CU_FILE_LUSTRE_SUPPORTED, "lnet"},
    StorageRow{"IBM Spectrum Scale", CU_FILE_GPFS_SUPPORTED, "mmfslinux"},
    StorageRow{"NFS", CU_FILE_NFS_SUPPORTED, "rpcrdma"},
    StorageRow{"BeeGFS", CU_FILE_BEEGFS_SUPPORTED, "beegfs"},
    StorageRow{"ScaTeFS", CU_FILE_SCATEFS_SUPPORTED, "scatefs"},
    StorageRow{"WekaFS", CU_FILE_WEKAFS_SUPPORTED},
    StorageRow{"FSx Lustre", CU_FILE_LUSTRE_SUPPORTED, "lnet", 1160},
    StorageRow{"VIRTIOFS", CU_FILE_VIRTIOFS_SUPPORTED, nullptr, 1160},
};

// What the library's properties say, and what this machine and its configuration make possible.
unsigned status_flags() {
  CUfileDrvProps_t properties{};
  cuFileDriverGetProperties(&properties);
  unsigned flags = properties.nvfs.dstatusflags;
  if (p2pdma_is_used()) flags |= 1U << CU_FILE_NVME_P2P_SUPPORTED;
  return flags;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return printable(text);
}

// What nvidia-fs.ko lists by now: nothing before the library has opened a node.
const std::vector<std::string>& hooks() {
  static const std::vector<std::string> listed = doctor::nvfs_report_of("").hooks;
  return listed;
}

bool is_listed(const StorageRow& row) {
  return row.hook != nullptr && !setting_is("sluice.nvfs", "\"off\"") &&
         std::find(hooks().begin(), hooks().end(), row.hook) != hooks().end();
}

// What 1.16 and later print in place of Supported and Unsupported: the ways that there are, the best first.
std::string ways_of(const StorageRow& row) {
  const bool p2pdma = row.bit == CU_FILE_NVME_SUPPORTED && p2pdma_is_used();
  const bool first = setting_is("sluice.nvfs", "\"first\"");
  const char* const nvfs = is_listed(row) ? "nvfs, " : "";
  return fmt::format("{}{}{}compat", first ? nvfs : "", p2pdma ? "p2pdma, " : "", first ? "" : nvfs);
}

// Listed is not proven: what was, in this process.
void print_nvfs_notes() {
  const std::string& version = platform().nvfs;
  if (version.empty()) return;
  if (setting_is("sluice.nvfs", "\"off\"")) {
    fmt::print(" note: nvidia-fs {} is loaded; this library goes without it, since sluice.nvfs is off\n",
               printable(version));
    return;
  }
  fmt::print(" note: nvidia-fs {} lists hooks of: {}. Supported is what is listed; what a trial has shown:\n",
             printable(version), hooks().empty() ? "none" : joined(hooks()));
  int pairs = 0;
  const auto print = [](const sluice_direct_pair_t* pair, void* context) {
    if (pair->path != SLUICE_PATH_NVFS) return;
    ++*static_cast<int*>(context);
    fmt::print(" note:   GPU {} and {}: {}, {}\n", pair->gpu, printable(pair->storage),
               pair->reason == SLUICE_REASON_DIRECT ? "proven" : "not proven", printable(pair->sentence));
  };
  sluice_direct_pairs(print, &pairs);
  if (pairs == 0) fmt::print(" note:   nothing yet; `sluice explain FILE` makes the trial for a file's storage\n");
}

// Which way cards reach GPU memory, and what is in the way: each once, there may be many cards.
void print_rdma_notes() {
  std::vector<std::string> told;
  for (const doctor::RdmaPair& pair : platform().rdma_pairs) {
    const std::string words = words_about(pair);
    if (std::find(told.begin(), told.end(), words) != told.end()) continue;
    told.push_back(words);
    fmt::print(" note: GPU {} and {}: {}\n", printable(pair.gpu), printable(pair.device), printable(words));
  }
  if (!told.empty()) fmt::print(" note: more of that: sluice doctor rdma\n");
}

std::string kernel_driver_status() {
  const std::string& flavour = platform().kernel_driver;
  if (flavour.empty()) return "Not installed";
  return flavour == "open" ? "Supported(Nvidia Open Driver Installed)"
                           : "Unsupported(Nvidia Proprietary Driver Installed)";
}

}  // namespace

const doctor::Platform& platform() {
  static const doctor::Platform found = doctor::platform_of("");
  return found;
}

bool p2pdma_is_used() {
  bool proven = false;
  const auto look = [](const sluice_direct_pair_t* pair, void* context) {
    if (pair->path == SLUICE_PATH_P2PDMA && pair->reason == SLUICE_REASON_DIRECT) *static_cast<bool*>(context) = true;
  };
  sluice_direct_pairs(look, &proven);
  return proven || (platform().p2pdma_ready && setting_is("properties.use_pci_p2pdma", "true"));
}

void print_title(std::string_view title) {
  const std::string rule(title.size(), '=');
  fmt::print(" {}\n {}\n {}\n", rule, title, rule);
}

void print_versions() {
  const std::string nvfs = nvfs_version();
  const std::string in_front = nvfs.empty() ? "" : fmt::format("nvidia_fs version:  {} ", nvfs);
  int version = 0;
  cuFileGetVersion(&version);
  fmt::print(" GDS release version: {} (Sluice {})\n", api_version(), sluice_version());
  // Reports up to 1.15 tell the version of libcufile itself, later ones the least nvidia-fs that it works with: of both
  // the known number is 2.12.
  constexpr int first_with_minimum = 1160;
  fmt::print(" {}{}: 2.12\n", in_front,
             version < first_with_minimum ? "libcufile version" : "nvidia_fs minimum version");
}

void print_environment() {
  fmt::print(" Platform: {}\n", machine_name());
  print_title("ENVIRONMENT:");
  std::vector<std::string> variables;
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    if (text.substr(0, 7) == "CUFILE_" || text.substr(0, 7) == "SLUICE_") variables.push_back(printable(text));
  }
  std::sort(variables.begin(), variables.end());
  for (const std::string& variable : variables) {
    const auto equals = std::min(variable.find('='), variable.size());
    fmt::print(" {} : {}\n", variable.substr(0, equals), variable.substr(std::min(equals + 1, variable.size())));
  }
}

void print_driver() {
  const unsigned flags = status_flags();
  print_title("DRIVER CONFIGURATION:");
  const int version = reported_version();
  for (const StorageRow& row : storage_rows) {
    if (version < row.since || version >= row.until) continue;
    if (version >= 1160) {
      fmt::print(" {:<19}: {}\n", row.name, ways_of(row));
      continue;
    }
    const bool supported = (flags >> static_cast<unsigned>(row.bit) & 1U) != 0 || is_listed(row);
    fmt::print(" {:<19}: {}\n", row.name, supported ? "Supported" : "Unsupported");
  }
  const doctor::Platform& facts = platform();
  const bool has_rdma_library = rdma_library_loads();
  fmt::print(" {:<19}: {}\n", "Userspace RDMA", has_rdma_library && facts.rdma_up > 0 ? "Supported" : "Unsupported");
  fmt::print(" --Mellanox PeerDirect : {}\n", facts.peer_memory ? "Enabled" : "Disabled");
  if (version >= 1160) fmt::print(" --DmaBuf support      : {}\n", facts.dma_buf ? "Enabled" : "Disabled");
  fmt::print(" --rdma library        : {} (libcufile_rdma.so)\n", has_rdma_library ? "Loaded" : "Not Loaded");
  fmt::print(" --rdma devices        : {}\n",
             facts.rdma_devices.empty() ? "Not configured" : joined(facts.rdma_devices));
  fmt::print(" --rdma_device_status  : Up: {} Down: {}\n", facts.rdma_up, facts.rdma_down);
  print_rdma_notes();
  print_nvfs_notes();
  if (!p2pdma_is_used() && facts.gpu_works) {
    fmt::print(" note: NVMe P2PDMA: {}\n",
               facts.p2pdma_ready ? "properties.use_pci_p2pdma is off" : printable(facts.why_no_p2pdma));
  }
}

std::string iommu_state_of(int index) {
  const std::vector<doctor::PlatformGpu>& gpus = platform().gpus;
  const auto place = static_cast<std::size_t>(index);
  return place < gpus.size() ? gpus[place].iommu : "Disabled";
}

std::vector<GpuRow> gpu_rows() {
  const Driver& driver = choose_driver();
  std::vector<GpuRow> rows;
  for (int i = 0; driver.kind != DriverKind::none && i < driver.devices; ++i) {
    GpuRow row;
    row.name = describe_device(i);
    std::size_t bar_kib = 0;
    if (cuFileGetBARSizeInKB(i, &bar_kib).err == CU_FILE_SUCCESS) row.bar_mib = bar_kib / 1024;
    row.soft = driver.kind == DriverKind::soft;
    row.iommu = iommu_state_of(i);
    row.coherent = doctor::shares_memory([i](int attribute) { return device_attribute(i, attribute); });
    rows.push_back(std::move(row));
  }
  return rows;
}

void print_gpus() {
  const Driver& driver = choose_driver();
  print_title("GPU INFO:");
  if (driver.kind == DriverKind::none) fmt::print(" No GPU: {}. Host memory works.\n", driver.why_not_real);
  if (driver.kind == DriverKind::soft) fmt::print(" The soft GPU stands in: {}.\n", driver.why_not_real);
  int index = 0;
  for (const GpuRow& row : gpu_rows()) {
    fmt::print(" GPU index {} {} bar:{} bar size (MiB):{} {}, IOMMU State: {}\n", index, row.name,
               row.bar_mib > 0 ? "1" : "disabled", row.bar_mib > 0 ? std::to_string(row.bar_mib) : "N/A",
               row.soft ? "is no GPU" : "supports GDS", row.iommu);
    if (row.coherent) {
      fmt::print(
          " note: GPU index {} shares memory with the CPU by hardware, as the driver tells: sluice.coherent is {}\n",
          index, setting_is("sluice.coherent", "\"off\"") ? "off" : "on, where a trial succeeds");
    }
    ++index;
  }
  for (const std::string& bridge : platform().acs_bridges) {
    fmt::print(" ACS is on at the PCI bridge {}\n", printable(bridge));
  }
}

void print_platform(const std::string& failure) {
  const Driver& driver = choose_driver();
  utsname name{};
  uname(&name);
  const std::string board = first_line("/sys/class/dmi/id/product_name");
  print_title("PLATFORM INFO:");
  fmt::print(" IOMMU: {}\n", platform().iommu);
  fmt::print(" Nvidia Driver Info Status: {}\n", kernel_driver_status());
  fmt::print(" Cuda Driver Version Installed:  {}\n", driver.kind == DriverKind::real ? driver.version : 0);
  fmt::print(" Platform: {}, Arch: {}({} {})\n", board.empty() ? "unknown" : board, machine_name(), name.sysname,
             name.release);
  if (failure.empty()) {
    fmt::print(" Platform verification succeeded\n");
  } else {
    fmt::print(" Platform verification {}\n", failure);
  }
}

void print_details() {
  print_title("FILE SYSTEMS:");
  for (const doctor::PlatformMount& mount : platform().mounts) {
    fmt::print(" {} : {} on {} dev_id {}\n", printable(mount.point), printable(mount.type), printable(mount.source),
               mount.device);
  }
  fmt::print(
      " The PCI tree: gdscheck -e sysfs. The way of one file: sluice explain FILE. The machine: sluice doctor.\n");
}

void print_pairs() {
  print_title("GPU AND DEVICE PAIRS:");
  if (platform().pairs.empty()) fmt::print(" none: no GPU on the PCI bus, or nothing beside it\n");
  for (const doctor::PlatformPair& pair : platform().pairs) {
    fmt::print(" {} {} : {}\n", printable(pair.gpu), printable(pair.device), pair.distance);
  }
}

std::string verification() {
  const Driver& driver = choose_driver();
  if (driver.kind == DriverKind::real) return {};
  const std::string& sign = platform().why_no_gpu;
  return fmt::format("failed: no GPU ({})", sign.empty() ? driver.why_not_real : printable(sign));
}

}  // namespace sluice::tools
