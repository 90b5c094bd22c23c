// SPDX-License-Identifier: Apache-2.0
// Why the drive does not move the bytes itself.
#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "route/route.h"

namespace sluice::route {

using facts::FileSystem;
using facts::MemoryKind;
using facts::TrialResult;

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
// Each request asks: lengths are compared first, and the names as words.
bool has_no_drive(const facts::BlockFacts& block) noexcept {
  const auto is = [&driver = block.driver]<std::size_t size>(const char(&name)[size]) noexcept {
    return driver.size() == size - 1 && std::memcmp(driver.data(), name, size - 1) == 0;
  };
  return is("brd") || is("zram") || is("null_blk") || is("ublk") || is("nbd") || is("rbd") || is("drbd");
}

// Calls `tell` with one reason after the other until it answers that it has enough; then that is the answer here, too.
// The order is the contract (docs/reference/paths.md): from what the caller chose, over what the memory and the file
// are, to what the machine lacks. When the first reason is removed by its remedy, the next one is told.
enum class Hooked : std::uint8_t { no, yes };  // a file system that brings the bytes to device memory by itself
template <typename Tell>
bool tell_of_memory_and_file(const facts::FileFacts& file, const facts::BufferFacts& buffer, const Rules& rules,
                             Hooked hooked, Tell tell) noexcept(noexcept(tell(Reason{}))) {
  if (is_host(buffer.kind) && tell(SLUICE_REASON_HOST_MEMORY)) return true;
  if (rules.plain && tell(SLUICE_REASON_PLAIN_MODE)) return true;
  if (rules.force_compat && tell(SLUICE_REASON_FORCED_BY_CONFIGURATION)) return true;
  if (buffer.kind == MemoryKind::managed && tell(SLUICE_REASON_MANAGED_MEMORY)) return true;
  if (buffer.soft && !buffer.backed && tell(SLUICE_REASON_SOFT_GPU)) return true;
  if (hooked == Hooked::yes) return false;
  if (const std::optional<Reason> reason = by_file_system(file.file_system); reason && tell(*reason)) return true;
  if (file.direct_is_copied && tell(SLUICE_REASON_UNSUPPORTED_FILE_SYSTEM)) return true;
  return has_no_drive(file.block) && tell(SLUICE_REASON_UNSUPPORTED_DEVICE);
}

template <typename Tell>
bool tell_without_trial(const facts::FileFacts& file, const facts::BufferFacts& buffer,
                        const facts::MachineFacts& machine, const Rules& rules,
                        Tell tell) noexcept(noexcept(tell(Reason{}))) {
  if (tell_of_memory_and_file(file, buffer, rules, Hooked::no, tell)) return true;
  if (!rules.use_pci_p2pdma && tell(SLUICE_REASON_DIRECT_PATH_OFF)) return true;
  // What backs a soft GPU may be any memory, and the trial tells whether I/O gets there.
  return !machine.kernel_has_p2pdma && !buffer.soft && tell(SLUICE_REASON_KERNEL_WITHOUT_P2PDMA);
}

std::optional<Reason> by_standing(const NvfsStanding& nvfs) noexcept {
  if (!nvfs.loaded) return SLUICE_REASON_NVFS_NOT_LOADED;
  if (!nvfs.recent) return SLUICE_REASON_NVFS_TOO_OLD;
  if (!nvfs.open) return SLUICE_REASON_NVFS_NO_NODE;
  switch (nvfs.hooks) {
    case facts::NvfsHooks::present:
      return std::nullopt;
    case facts::NvfsHooks::foreign:
      return SLUICE_REASON_NVFS_FOREIGN_HOOKS;
    case facts::NvfsHooks::not_listed:
    case facts::NvfsHooks::unknown:
      return SLUICE_REASON_NVFS_NO_HOOKS;
  }
  return SLUICE_REASON_NVFS_NO_HOOKS;
}

}  // namespace

std::optional<Reason> kept_from_drive(const facts::FileFacts& file, const facts::BufferFacts& buffer,
                                      const facts::MachineFacts& machine, const Rules& rules) noexcept {
  Reason first = SLUICE_REASON_NOT_PROVEN;
  const bool any = tell_without_trial(file, buffer, machine, rules, [&first](Reason reason) noexcept {
    first = reason;
    return true;
  });
  return any ? std::optional(first) : std::nullopt;
}

std::optional<Reason> kept_from_nvfs(const facts::FileFacts& file, const facts::BufferFacts& buffer,
                                     const NvfsStanding& nvfs, const Rules& rules) noexcept {
  Reason first = SLUICE_REASON_NOT_PROVEN;
  const bool brings_hooks = file.file_system == FileSystem::network && nvfs.hooks == facts::NvfsHooks::present;
  const bool any = tell_of_memory_and_file(file, buffer, rules, brings_hooks ? Hooked::yes : Hooked::no,
                                           [&first](Reason reason) noexcept {
                                             first = reason;
                                             return true;
                                           });
  if (any) return first;
  if (const std::optional<Reason> reason = by_standing(nvfs)) return reason;
  return file.direct ? std::nullopt : std::optional(SLUICE_REASON_BUFFERED_DESCRIPTOR);
}

Reason after_trial(const facts::FileFacts& file, TrialResult reach) noexcept {
  if (reach == TrialResult::no_provider) return SLUICE_REASON_NO_DIRECT_PROVIDER;
  return file.direct ? reason_of(reach) : SLUICE_REASON_BUFFERED_DESCRIPTOR;
}

Reason reason_of(TrialResult reach) noexcept {
  switch (reach) {
    case TrialResult::untried:
    case TrialResult::probing:
      return SLUICE_REASON_NOT_PROVEN;
    case TrialResult::no_provider:
      return SLUICE_REASON_NO_DIRECT_PROVIDER;
    case TrialResult::pages_refused:
      return SLUICE_REASON_PAGES_REFUSED;
    case TrialResult::unreachable:
      return SLUICE_REASON_UNREACHABLE_DEVICE;
    case TrialResult::pinning_refused:
      return SLUICE_REASON_PINNING_REFUSED;
    case TrialResult::data_lost:
      return SLUICE_REASON_DATA_LOST;
    case TrialResult::call_refused:
      return SLUICE_REASON_NVFS_CALL_REFUSED;
    case TrialResult::bytes_elsewhere:
      return SLUICE_REASON_NVFS_BYTES_ELSEWHERE;
    case TrialResult::write_lost:
      return SLUICE_REASON_NVFS_WRITE_LOST;
    case TrialResult::unwritable:
      return SLUICE_REASON_NVFS_WRITES_NOT_PROVEN;
    case TrialResult::proven:
      return SLUICE_REASON_DIRECT;
  }
  return SLUICE_REASON_NOT_PROVEN;
}

std::vector<Reason> all_reasons(const facts::FileFacts& file, const facts::BufferFacts& buffer,
                                const facts::MachineFacts& machine, const Rules& rules, facts::TrialResult reach) {
  std::vector<Reason> reasons;
  const auto add = [&reasons](Reason reason) {
    // A trial that could not be made is no reason beside others; two facts may stand for one reason.
    const bool beside = reason == SLUICE_REASON_NOT_PROVEN || reason == SLUICE_REASON_DIRECT;
    const bool known = std::find(reasons.begin(), reasons.end(), reason) != reasons.end();
    if (!known && !(beside && !reasons.empty())) reasons.push_back(reason);
    return false;
  };
  tell_without_trial(file, buffer, machine, rules, add);
  if (reach == TrialResult::no_provider) add(SLUICE_REASON_NO_DIRECT_PROVIDER);
  if (!file.direct) add(SLUICE_REASON_BUFFERED_DESCRIPTOR);
  if (reach != TrialResult::no_provider) add(reason_of(reach));
  return reasons;
}

bool compat_is_allowed(const Rules& rules) noexcept {
  return rules.allow_compat || rules.force_compat || rules.plain;
}

bool cpu_may_move(Reason reason, const Rules& rules) noexcept {
  return reason == SLUICE_REASON_HOST_MEMORY || compat_is_allowed(rules);
}

bool has_direct_way(const facts::MachineFacts& machine, const Rules& rules) noexcept {
  return (rules.use_nvfs && machine.nvfs_loaded) || (rules.use_pci_p2pdma && machine.kernel_has_p2pdma);
}

}  // namespace sluice::route
