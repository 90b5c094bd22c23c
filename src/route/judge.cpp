// Which path, and why not a more direct one.
#include <optional>

#include "route/route.h"

namespace sluice::route {

namespace {

using facts::FileSystem;
using facts::MemoryKind;

// The reason that lies in the file system; nothing where it lets device memory through.
std::optional<Reason> by_file_system(FileSystem file_system) noexcept {
  switch (file_system) {
    case FileSystem::none:
    case FileSystem::ext4:
    case FileSystem::xfs:
      return std::nullopt;
    case FileSystem::memory:
      return SLUICE_REASON_MEMORY_FILE_SYSTEM;
    case FileSystem::stacked:
      return SLUICE_REASON_STACKED_FILE_SYSTEM;
    case FileSystem::fuse:
      return SLUICE_REASON_FUSE_FILE_SYSTEM;
    case FileSystem::network:
      return SLUICE_REASON_NETWORK_FILE_SYSTEM;
    case FileSystem::btrfs:
    case FileSystem::other:
      return SLUICE_REASON_UNSUPPORTED_FILE_SYSTEM;
  }
  return SLUICE_REASON_UNSUPPORTED_FILE_SYSTEM;
}

// Device memory goes to drives on the same PCI fabric. A device that sysfs does not tell about is not trusted to be
// one.
bool is_local_nvme(const facts::BlockFacts& block) noexcept {
  return block.driver == "nvme" && block.transport == "pcie";
}

// The order is the contract (docs/paths.md): from what the caller chose, over what the memory and the file are, to
// what the machine lacks. Whoever removes the first reason by its remedy is told the next one.
Reason first_reason(const facts::FileFacts& file, const facts::BufferFacts& buffer, const facts::MachineFacts& machine,
                    const Rules& rules) noexcept {
  if (is_host(buffer.kind)) return SLUICE_REASON_HOST_MEMORY;
  if (rules.plain) return SLUICE_REASON_PLAIN_MODE;
  if (rules.force_compat) return SLUICE_REASON_FORCED_BY_CONFIGURATION;
  if (buffer.kind == MemoryKind::managed) return SLUICE_REASON_MANAGED_MEMORY;
  if (buffer.soft) return SLUICE_REASON_SOFT_GPU;
  if (const std::optional<Reason> reason = by_file_system(file.file_system)) return *reason;
  if (!is_local_nvme(file.block)) return SLUICE_REASON_UNSUPPORTED_DEVICE;
  if (!rules.use_pci_p2pdma && !machine.nvfs_loaded) return SLUICE_REASON_DIRECT_PATH_OFF;
  // nvidia-fs.ko brings its own way and needs no PCI_P2PDMA.
  if (!machine.kernel_has_p2pdma && !machine.nvfs_loaded) return SLUICE_REASON_KERNEL_WITHOUT_P2PDMA;
  return SLUICE_REASON_NO_DIRECT_PROVIDER;
}

}  // namespace

Verdict judge(const facts::FileFacts& file, const facts::BufferFacts& buffer, const facts::MachineFacts& machine,
              const Rules& rules, base::Direction direction) noexcept {
  if (direction == base::Direction::read ? file.caller_reads : file.caller_writes)
    return {SLUICE_PATH_USERSPACE, SLUICE_REASON_CALLER_OPERATIONS};
  return {SLUICE_PATH_POSIX, first_reason(file, buffer, machine, rules)};
}

}  // namespace sluice::route
