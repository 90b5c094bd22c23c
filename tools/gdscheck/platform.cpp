// What the machine, the driver and the library say of themselves.
#include <fmt/format.h>
#include <mntent.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "common/driver.h"
#include "common/text.h"
#include "gdscheck/sections.h"
#include "sluice.h"

namespace sluice::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char* nvfs_version_file = "/proc/driver/nvidia-fs/version";

std::string first_line(const char* path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return printable(line);
}

std::string whole_text(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// "2.26" of "version: 2.26.6"; "" where nvidia-fs.ko is not loaded.
std::string nvfs_version() {
  const std::string line = first_line(nvfs_version_file);
  const auto start = line.find_first_of("0123456789");
  return start == std::string::npos ? "" : line.substr(start);
}

std::string api_version() {
  int version = 0;
  cuFileGetVersion(&version);
  return fmt::format("{}.{}.{}", version / 1000, version % 1000 / 10, version % 10);
}

std::string machine_name() {
  utsname name{};
  return uname(&name) == 0 ? name.machine : "unknown";
}

bool iommu_is_on() {
  std::error_code ignored;
  return fs::directory_iterator("/sys/class/iommu", ignored) != fs::directory_iterator();
}

struct StorageRow {
  const char* name;
  CUfileDriverStatusFlags_t bit;
};

// In the order of the incumbent's report.
constexpr std::array storage_rows{
    StorageRow{"NVMe P2PDMA", CU_FILE_NVME_P2P_SUPPORTED},
    StorageRow{"NVMe", CU_FILE_NVME_SUPPORTED},
    StorageRow{"NVMeOF", CU_FILE_NVMEOF_SUPPORTED},
    StorageRow{"SCSI", CU_FILE_SCSI_SUPPORTED},
    StorageRow{"ScaleFlux CSD", CU_FILE_SCALEFLUX_CSD_SUPPORTED},
    StorageRow{"NVMesh", CU_FILE_NVMESH_SUPPORTED},
    StorageRow{"DDN EXAScaler", CU_FILE_LUSTRE_SUPPORTED},
    StorageRow{"IBM Spectrum Scale", CU_FILE_GPFS_SUPPORTED},
    StorageRow{"NFS", CU_FILE_NFS_SUPPORTED},
    StorageRow{"BeeGFS", CU_FILE_BEEGFS_SUPPORTED},
    StorageRow{"ScaTeFS", CU_FILE_SCATEFS_SUPPORTED},
    StorageRow{"WekaFS", CU_FILE_WEKAFS_SUPPORTED},
};

std::string kernel_driver_status() {
  const std::string text = whole_text("/proc/driver/nvidia/version");
  if (text.empty()) return "Not installed";
  const bool open = text.find("Open Kernel Module") != std::string::npos;
  return open ? "Supported(Nvidia Open Driver Installed)" : "Unsupported(Nvidia Proprietary Driver Installed)";
}

}  // namespace

void print_title(std::string_view title) {
  const std::string rule(title.size(), '=');
  fmt::print(" {}\n {}\n {}\n", rule, title, rule);
}

void print_versions() {
  const std::string nvfs = nvfs_version();
  fmt::print(" GDS release version: {} (Sluice {})\n", api_version(), sluice_version());
  fmt::print(" {}libcufile version: {}\n", nvfs.empty() ? "" : fmt::format("nvidia_fs version:  {} ", nvfs),
             api_version());
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
  CUfileDrvProps_t properties{};
  cuFileDriverGetProperties(&properties);
  print_title("DRIVER CONFIGURATION:");
  for (const StorageRow& row : storage_rows) {
    const bool supported = (properties.nvfs.dstatusflags >> static_cast<unsigned>(row.bit) & 1U) != 0;
    fmt::print(" {:<19}: {}\n", row.name, supported ? "Supported" : "Unsupported");
  }
  fmt::print(" {:<19}: Unsupported\n", "Userspace RDMA");
  fmt::print(" --Mellanox PeerDirect : Disabled\n");
  fmt::print(" --rdma library        : Not Loaded (libcufile_rdma.so)\n");
  fmt::print(" --rdma devices        : Not configured\n");
  fmt::print(" --rdma_device_status  : Up: 0 Down: 0\n");
}

void print_gpus() {
  const Driver& driver = choose_driver();
  print_title("GPU INFO:");
  if (driver.kind == DriverKind::none) fmt::print(" No GPU: {}. Host memory works.\n", driver.why_not_real);
  if (driver.kind == DriverKind::soft) fmt::print(" The soft GPU stands in: {}.\n", driver.why_not_real);
  for (int i = 0; driver.kind != DriverKind::none && i < driver.devices; ++i) {
    std::size_t bar_kib = 0;
    const bool has_bar = cuFileGetBARSizeInKB(i, &bar_kib).err == CU_FILE_SUCCESS && bar_kib > 0;
    // "supports GDS" would promise a direct path, which this version does not have.
    fmt::print(" GPU index {} {} bar:{} bar size (MiB):{} by the posix path, IOMMU State: {}\n", i, describe_device(i),
               has_bar ? "1" : "disabled", has_bar ? std::to_string(bar_kib / 1024) : "N/A",
               iommu_is_on() ? "Enabled" : "Disabled");
  }
}

void print_platform(const std::string& failure) {
  const Driver& driver = choose_driver();
  utsname name{};
  uname(&name);
  const std::string board = first_line("/sys/class/dmi/id/product_name");
  print_title("PLATFORM INFO:");
  fmt::print(" IOMMU: {}\n", iommu_is_on() ? "enabled" : "disabled");
  fmt::print(" Nvidia Driver Info Status: {}\n", kernel_driver_status());
  fmt::print(" Cuda Driver Version Installed:  {}\n", driver.kind == DriverKind::real ? driver.version : 0);
  fmt::print(" Platform: {}, Arch: {}({} {})\n", board.empty() ? "unknown" : board, machine_name(), name.sysname,
             name.release);
  if (failure.empty()) {
    fmt::print(" Platform verification succeeded\n");
  } else {
    fmt::print(" Platform verification error:\n {}\n", failure);
  }
}

void print_details() {
  print_title("FILE SYSTEMS:");
  const std::unique_ptr<FILE, int (*)(FILE*)> mounts(setmntent("/proc/self/mounts", "r"), endmntent);
  std::array<char, 4096> room{};
  mntent entry{};
  while (mounts != nullptr &&
         getmntent_r(mounts.get(), &entry, room.data(), static_cast<int>(room.size())) != nullptr) {
    fmt::print(" {} : {} on {}\n", printable(entry.mnt_dir), printable(entry.mnt_type), printable(entry.mnt_fsname));
  }
  fmt::print(" The PCI tree: cuFileExportPCIeTopology(). The way of one file: sluice explain FILE.\n");
}

}  // namespace sluice::tools
