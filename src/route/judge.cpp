// Which path, and why not a more direct one.
#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "route/route.h"

namespace sluice::route {

using facts::FileSystem;
using facts::MemoryKind;
using facts::Reach;

namespace {

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

// Below these there is no drive that could reach device memory, whatever the kernel: memory, a process, a network that
// the CPU serves. All others are tried: arrays, mappings and fabrics pass device pages on or refuse them, by kernel.
bool has_no_drive(const facts::BlockFacts& block) noexcept {
  constexpr std::array<std::string_view, 7> without{"brd", "zram", "null_blk", "ublk", "nbd", "rbd", "drbd"};
  return std::find(without.begin(), without.end(), block.driver) != without.end();
}

// The order is the contract (docs/paths.md): from what the caller chose, over what the memory and the file are, to
// what the machine lacks and what a trial has shown. Whoever removes the first reason by its remedy is told the next
// one.
Reason first_reason(const facts::FileFacts& file, const facts::BufferFacts& buffer, const facts::MachineFacts& machine,
                    const Rules& rules, facts::Reach reach) noexcept {
  if (is_host(buffer.kind)) return SLUICE_REASON_HOST_MEMORY;
  if (rules.plain) return SLUICE_REASON_PLAIN_MODE;
  if (rules.force_compat) return SLUICE_REASON_FORCED_BY_CONFIGURATION;
  if (buffer.kind == MemoryKind::managed) return SLUICE_REASON_MANAGED_MEMORY;
  if (buffer.soft && !buffer.backed) return SLUICE_REASON_SOFT_GPU;
  if (const std::optional<Reason> reason = by_file_system(file.file_system)) return *reason;
  if (file.direct_is_copied) return SLUICE_REASON_UNSUPPORTED_FILE_SYSTEM;
  if (has_no_drive(file.block)) return SLUICE_REASON_UNSUPPORTED_DEVICE;
  if (!rules.use_pci_p2pdma) {
    return machine.nvfs_loaded ? SLUICE_REASON_NO_DIRECT_PROVIDER : SLUICE_REASON_DIRECT_PATH_OFF;
  }
  // What backs a soft GPU may be any memory, and the trial tells whether I/O gets there.
  if (!machine.kernel_has_p2pdma && !buffer.soft) return SLUICE_REASON_KERNEL_WITHOUT_P2PDMA;
  if (reach == Reach::no_provider) return SLUICE_REASON_NO_DIRECT_PROVIDER;
  if (!file.direct) return SLUICE_REASON_BUFFERED_DESCRIPTOR;
  return reason_of(reach);
}

}  // namespace

Reason reason_of(Reach reach) noexcept {
  switch (reach) {
    case Reach::untried:
    case Reach::probing:
      return SLUICE_REASON_NOT_PROVEN;
    case Reach::no_provider:
      return SLUICE_REASON_NO_DIRECT_PROVIDER;
    case Reach::pages_refused:
      return SLUICE_REASON_PAGES_REFUSED;
    case Reach::unreachable:
      return SLUICE_REASON_UNREACHABLE_DEVICE;
    case Reach::pinning_refused:
      return SLUICE_REASON_PINNING_REFUSED;
    case Reach::data_lost:
      return SLUICE_REASON_DATA_LOST;
    case Reach::proven:
      return SLUICE_REASON_DIRECT;
  }
  return SLUICE_REASON_NOT_PROVEN;
}

Verdict judge(const facts::FileFacts& file, const facts::BufferFacts& buffer, const facts::MachineFacts& machine,
              const Rules& rules, base::Direction direction, Reach reach) noexcept {
  if (direction == base::Direction::read ? file.caller_reads : file.caller_writes)
    return {SLUICE_PATH_USERSPACE, SLUICE_REASON_CALLER_OPERATIONS};
  const Reason reason = first_reason(file, buffer, machine, rules, reach);
  return {reason == SLUICE_REASON_DIRECT ? SLUICE_PATH_P2PDMA : SLUICE_PATH_POSIX, reason};
}

bool compat_is_allowed(const Rules& rules) noexcept {
  return rules.allow_compat || rules.force_compat || rules.plain;
}

bool is_permitted(const Verdict& verdict, const Rules& rules) noexcept {
  return verdict.path != SLUICE_PATH_POSIX || verdict.reason == SLUICE_REASON_HOST_MEMORY || compat_is_allowed(rules);
}

bool has_direct_way(const facts::MachineFacts& machine, const Rules& rules) noexcept {
  return machine.nvfs_loaded || (rules.use_pci_p2pdma && machine.kernel_has_p2pdma);
}

}  // namespace sluice::route
