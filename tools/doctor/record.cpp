// SPDX-License-Identifier: Apache-2.0
// What is recorded is a list of patterns: what no section reads does not leave the machine.
#include "doctor/record.h"

#include <fmt/format.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "config/json.h"
#include "doctor/anonymous.h"
#include "doctor/kernel_modules.h"
#include "doctor/machine.h"
#include "doctor/sections.h"
#include "doctor/tar.h"
#include "facts/file_system.h"
#include "facts/mount.h"
#include "facts/read.h"

namespace sluice::doctor {
namespace {

namespace fs = std::filesystem;

// A pattern ends at a file, a folder that is only there or not, or a link of which only the last name counts.
constexpr std::array patterns{
    "/proc/sys/kernel/osrelease",
    "/proc/sys/kernel/io_uring_disabled",
    "/proc/version",
    "/proc/1/cgroup",
    "/proc/net/fib_trie",
    "/proc/driver/nvidia/version",
    "/proc/driver/nvidia/params",
    "/proc/driver/nvidia/capabilities/*/mig/*",
    "/proc/driver/nvidia-fs/version",
    "/proc/driver/nvidia-fs/devcount",
    "/proc/driver/nvidia-fs/modules",
    "/proc/fs/lustre/osc/*/max_rpcs_in_flight",
    "/proc/fs/lustre/osc/*/max_pages_per_rpc",
    "/proc/fs/lustre/osc/*/checksums",
    "/proc/fs/lustre/llite/*/max_read_ahead_mb",
    "/etc/modprobe.d/*.conf",
    "/run/modprobe.d/*.conf",
    "/usr/lib/modprobe.d/*.conf",
    "/lib/modprobe.d/*.conf",
    "/etc/modules-load.d/*",
    "/usr/lib/modules-load.d/*",
    "/etc/fstab",
    "/.dockerenv",
    "/run/.containerenv",
    "/run/udev",
    "/run/nvidia-persistenced",
    "/run/nvidia/driver/proc",
    "/run/mellanox/drivers",
    "/dev/nvidiactl",
    "/dev/nvidia-fs0",
    "/dev/infiniband",
    "/dev/mapper/*",
    "/var/lib/dkms/nvidia*/*/*",
    "/sys/class/dmi/id/sys_vendor",
    "/sys/class/dmi/id/product_name",
    "/sys/module/nvidia/version",
    "/sys/module/nvidia_fs/version",
    "/sys/module/mlx5_core/version",
    "/sys/module/mlx_compat",
    "/sys/module/mlx_compat/version",
    "/sys/kernel/mm/memory_peers/*/version",
    "/sys/module/nvidia_peermem",
    "/sys/module/nv_peer_mem",
    "/sys/module/vfio_pci",
    "/sys/module/nvme/parameters/poll_queues",
    "/sys/bus/pci/devices/*/class",
    "/sys/bus/pci/devices/*/vendor",
    "/sys/bus/pci/devices/*/device",
    "/sys/bus/pci/devices/*/numa_node",
    "/sys/bus/pci/devices/*/resource",
    "/sys/bus/pci/devices/*/current_link_*",
    "/sys/bus/pci/devices/*/max_link_*",
    "/sys/bus/pci/devices/*/driver",
    "/sys/bus/pci/devices/*/iommu_group",
    "/sys/bus/pci/devices/*/p2pmem/size",
    "/sys/kernel/iommu_groups/*/type",
    "/sys/kernel/iommu_groups/*/devices/*",
    "/sys/devices/system/node/node*/cpulist",
    "/sys/devices/system/node/node*/distance",
    "/sys/class/nvme/*/transport",
    "/sys/class/nvme/*/address",
    "/sys/class/nvme/*/state",
    "/sys/class/nvme/*/ctrl_loss_tmo",
    "/sys/class/nvme/*/reconnect_delay",
    "/sys/class/nvme/*/device",
    "/sys/class/nvme/*/nvme*n*/ana_state",
    "/sys/class/nvme/*/nvme*n*",
    "/sys/class/nvme-subsystem/*/subsysnqn",
    "/sys/class/nvme-subsystem/*/iopolicy",
    "/sys/class/nvme-subsystem/*/nvme*",
    "/sys/class/infiniband/*/ports/*/state",
    "/sys/class/infiniband/*/ports/*/rate",
    "/sys/class/infiniband/*/ports/*/link_layer",
    "/sys/class/infiniband/*/ports/*/gid_attrs/ndevs/*",
    "/sys/class/infiniband/*/device",
    "/sys/class/net/*/device",
    "/sys/block/*/queue/scheduler",
    "/sys/block/*/queue/nr_requests",
    "/sys/block/*/queue/logical_block_size",
    "/sys/block/*/queue/dma_alignment",
    "/sys/block/*/device",
    "/sys/block/*/device/driver",
    "/sys/block/*/dm/uuid",
    "/sys/block/*/md/level",
    "/sys/block/*/slaves/*",
    "/sys/block/*/*/partition",
    "/sys/class/block/*",
    "/sys/dev/block/*",
    "/sys/fs/lustre/osc/*/max_rpcs_in_flight",
    "/sys/fs/lustre/osc/*/max_pages_per_rpc",
    "/sys/fs/lustre/osc/*/checksums",
    "/sys/fs/lustre/llite/*/max_read_ahead_mb",
    "/sys/fs/lustre/llite/*/parallel_dio",
};

// Values behind these words are replaced.
constexpr std::array<std::string_view, 9> secrets = {
    "password=", "passwd=", "pass=", "credentials=", "username=", "secret=", "token=", "cephkey=", "rdma_dc_key"};

constexpr std::size_t largest_file = 1 << 20;

class Recorder {
 public:
  explicit Recorder(const Tree& tree) : tree_(tree), anonymizer_(tree.value("/proc/sys/kernel/hostname")) {}

  void pattern(const std::string& wanted) {
    glob_t found{};
    const std::string full = tree_.root().at(wanted);
    if (glob(full.c_str(), GLOB_NOSORT, nullptr, &found) == 0) {
      const std::size_t top = tree_.root().at("").size();
      for (std::size_t i = 0; i < found.gl_pathc; ++i) path(std::string(found.gl_pathv[i]).substr(top));
    }
    globfree(&found);
  }

  // Every link on the way is kept as a link, and what it leads to under its own name.
  void path(std::string rest) {
    std::string place;
    for (int links = 0; links < 40 && !rest.empty();) {
      const std::size_t slash = rest.find('/', 1);
      const std::string part = rest.substr(0, slash);
      rest = slash == std::string::npos ? "" : rest.substr(slash);
      const std::optional<std::string> target = facts::read_link(tree_.root().at(place + part));
      // The number of this process, and what is another name for it, stay behind.
      const bool own = place + part == "/proc/self" || place + part == "/proc/net";
      if (!target || target->front() == '/' || own) {
        place += part;
        continue;
      }
      ++links;
      tar_.link(anonymizer_.path(place + part), anonymizer_.path(*target));
      const std::string real = fs::path(place + "/" + *target).lexically_normal().string();
      if (rest.empty() && !is_wanted_whole(place + part)) return;
      rest.insert(0, real);
      place.clear();
    }
    content(place);
  }

  void text(const std::string& path, const std::string& content) {
    if (!content.empty()) file(path, content);
  }

  // Bytes that are no text: as they are.
  void bytes(const std::string& path, const std::string& content) { tar_.file(anonymizer_.path(path), content); }

  Recorded recorded() const { return {tar_.whole(), tar_.size(), masks_, anonymizer_.replaced()}; }

  std::string masked(std::string text) {
    for (const std::string_view word : secrets) {
      for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + word.size())) {
        // As a mount option, password=..., and as JSON, "key": "...".
        const std::size_t begin = std::min(text.find_first_not_of("\": ", at + word.size()), text.size());
        const std::size_t end = std::min(text.find_first_of(", \n\"}", begin), text.size());
        text.replace(begin, end - begin, "LEFT-OUT");
        ++masks_;
      }
    }
    return text;
  }

 private:
  // Of the link "driver" only its name counts; disks, groups and subsystems are folders that are read.
  static bool is_wanted_whole(const std::string& link) {
    return !link.ends_with("/driver") && !link.ends_with("/device");
  }

  void file(const std::string& path, const std::string& content) {
    tar_.file(anonymizer_.path(path), anonymizer_.content(path, masked(content)));
  }

  void content(const std::string& place) {
    struct stat status {};
    if (stat(tree_.root().at(place).c_str(), &status) != 0) return;
    if (S_ISDIR(status.st_mode)) {
      tar_.folder(anonymizer_.path(place));
    } else if (S_ISREG(status.st_mode)) {
      const std::string text = tree_.text(place);
      file(place, text.size() > largest_file ? "" : text);
    } else {
      file(place, "");  // a device node: that it is there is all that counts
    }
  }

  const Tree& tree_;
  Anonymizer anonymizer_;
  TarWriter tar_;
  std::size_t masks_ = 0;
};

std::string lines_with(const std::string& text, const std::vector<std::string_view>& wanted) {
  std::string kept;
  for (const std::string& line : split(text, '\n')) {
    const bool wants = std::any_of(wanted.begin(), wanted.end(), [&line](auto word) { return contains(line, word); });
    if (wants) kept.append(line).append("\n");
  }
  return kept;
}

// What the kernel was told about devices; the rest of its command line is private.
std::string told_parameters(const std::string& command_line) {
  constexpr std::array<std::string_view, 12> wanted = {"iommu",     "intel_iommu", "amd_iommu", "pci",
                                                       "vfio",      "nvme",        "nvidia",    "nouveau",
                                                       "modprobe.", "module_",     "nokaslr",   "hugepages"};
  std::string kept;
  for (const std::string& word : words(command_line)) {
    const bool wants =
        std::any_of(wanted.begin(), wanted.end(), [&word](auto begin) { return word.starts_with(begin); });
    if (wants) kept.append(kept.empty() ? "" : " ").append(word);
  }
  return kept.empty() ? kept : kept + "\n";
}

// The mounts that hold files.
std::string storage_mounts(const std::string& table) {
  std::string kept;
  for (const std::string& line : split(table, '\n')) {
    const std::optional<facts::Mount> mount = facts::parse_mount(line);
    const bool pseudo = mount && facts::file_system_named(mount->type).substance == facts::Substance::pseudo;
    if (mount && !pseudo) kept.append(line).append("\n");
  }
  return kept;
}

// Of a bridge's configuration space: where its extended capabilities are, and the one of ACS. A serial number in it
// stays behind.
std::string access_control_of(const std::string& space) {
  std::string kept(space.size(), '\0');
  const auto byte = [&space](std::size_t at) { return static_cast<unsigned>(static_cast<unsigned char>(space[at])); };
  std::size_t at = 0x100;
  for (int steps = 0; steps < 64 && at >= 0x100 && at + 8 <= space.size(); ++steps) {
    constexpr unsigned acs = 0x000d;
    const std::size_t size = (byte(at) | byte(at + 1) << 8) == acs ? 8 : 4;
    kept.replace(at, size, space, at, size);
    at = (byte(at + 2) | byte(at + 3) << 8) >> 4;
  }
  return kept;
}

void record_large_files(const Tree& tree, const Machine& machine, Recorder& recorder) {
  std::string symbols;
  for (const std::string& name : machine.symbols) symbols += "0000000000000000 T " + name + "\n";
  recorder.text("/proc/kallsyms", symbols);
  const std::string dependencies = "/lib/modules/" + machine.kernel + "/modules.dep";
  recorder.text(dependencies, lines_with(tree.text(dependencies), {"/nvidia"}));
  for (const std::string& home :
       {std::string("/boot/config-") + machine.kernel, "/lib/modules/" + machine.kernel + "/config",
        "/usr/lib/modules/" + machine.kernel + "/config"}) {
    recorder.text(home, lines_with(tree.text(home), {"P2PDMA", "DMA_SHARED_BUFFER", "CONFIG_IO_URING", "RANDOMIZE"}));
  }
  for (const char* home : {"/etc/cdi", "/var/run/cdi"}) {
    for (const std::string& name : tree.names(home)) {
      recorder.text(below(home, name), lines_with(tree.text(below(home, name)), {"libcuda.so."}));
    }
  }
  recorder.text("/proc/meminfo",
                lines_with(tree.text("/proc/meminfo"), {"MemTotal:", "HugePages_Total:", "Hugepagesize:"}));
  // One processor speaks for all.
  const std::string processors = tree.text("/proc/cpuinfo");
  const std::size_t end_of_first = processors.find("\n\n");
  recorder.text("/proc/cpuinfo",
                lines_with(processors.substr(0, end_of_first), {"processor", "vendor_id", "model name", "flags"}));
  for (const std::string& address : tree.names("/proc/driver/nvidia/gpus")) {
    const std::string path = "/proc/driver/nvidia/gpus/" + address + "/information";
    recorder.text(path, lines_with(tree.text(path), {"Model:"}));
  }
  for (const std::string& address : tree.names("/sys/bus/pci/devices")) {
    const std::string folder = "/sys/bus/pci/devices/" + address;
    if (!tree.value(folder + "/class").starts_with("0x0604") || !tree.has(folder + "/config")) continue;
    recorder.path(folder + "/class");
    recorder.bytes(tree.real(folder) + "/config", access_control_of(tree.text(folder + "/config")));
  }
}

void record_probes(const Tree& tree, const Machine& machine, const std::string& more, Recorder& recorder) {
  std::string found;  // what no record of files tells; of a tree its own answers are kept
  const auto add = [&](const char* key, const std::string& words) {
    if (!words.empty()) found.append(key).append(" ").append(words).append("\n");
  };
  if (tree.is_the_machine()) {
    add("log_refused", log_refusal(machine));
    add("profile_refused", profile_refusal(machine));
    add("trace_word", trace_word(machine));
  }
  recorder.text("/sluice/probes", machine.probes.text() + found + more);
  recorder.text("/sluice/kernel-log", tree.is_the_machine() ? kernel_log() : tree.text("/sluice/kernel-log"));
  for (const char* name : {"nvidia", "nvidia-fs", "nvidia-peermem"}) {
    std::string text;
    for (const auto& [field, value] : modinfo_of(machine, name))
      text.append(field).append(": ").append(value).append("\n");
    recorder.text(std::string("/sluice/modinfo/") + name, text);
  }
}

}  // namespace

Recorded record(const std::string& root, const std::string& more_probes) {
  if (!root.empty()) want_machine(root, root);
  const Tree tree(root.empty() ? facts::Root() : facts::Root(root));
  const Machine machine(tree);
  Recorder recorder(tree);
  for (const char* pattern : patterns) recorder.pattern(pattern);
  recorder.text("/proc/cmdline", told_parameters(tree.text("/proc/cmdline")));
  recorder.text("/proc/self/mountinfo", storage_mounts(tree.text("/proc/self/mountinfo")));
  recorder.text("/proc/self/status", lines_with(tree.text("/proc/self/status"), {"Seccomp", "Cap"}));
  for (const std::string& variable : machine.probes.all("env")) {
    if (variable.starts_with("CUFILE_ENV_PATH_JSON=")) recorder.path(variable.substr(variable.find('=') + 1));
  }
  recorder.path("/etc/cufile.json");
  record_large_files(tree, machine, recorder);
  record_probes(tree, machine, more_probes, recorder);
  return recorder.recorded();
}

void want_machine(const std::string& root, const std::string& name) {
  const Tree tree{facts::Root(root)};
  if (tree.has("/proc") || tree.has("/sys") || tree.has("/sluice/probes")) return;
  throw tools::ToolError(
      fmt::format("{} is no recorded machine: it has neither /proc nor /sys.", config::printable(name)),
      "Name a folder or a tar file that `sluice doctor --record` has written.", 2);
}

Unpacked::Unpacked(const std::string& tar) {
  std::string name = (fs::temp_directory_path() / "sluice-machine-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr)
    throw std::runtime_error("no temporary folder: " + std::string(std::strerror(errno)));
  folder_ = name;
  try {
    unpack_tar(tar, folder_);
    want_machine(folder_, tar);
  } catch (const tools::ToolError&) {
    fs::remove_all(folder_);
    throw;
  } catch (const std::runtime_error& error) {
    fs::remove_all(folder_);
    throw tools::ToolError(std::string(error.what()) + ".",
                           "Name a folder or a tar file that `sluice doctor --record` has written.", 2);
  } catch (...) {
    fs::remove_all(folder_);
    throw;
  }
}

Unpacked::~Unpacked() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

}  // namespace sluice::doctor
