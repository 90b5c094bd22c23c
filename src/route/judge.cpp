// SPDX-License-Identifier: Apache-2.0
// Which path, and why not a more direct one.
#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
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
bool has_no_drive(const facts::BlockFacts& block) noexcept {
  constexpr std::array<std::string_view, 7> without{"brd", "zram", "null_blk", "ublk", "nbd", "rbd", "drbd"};
  return std::find(without.begin(), without.end(), block.driver) != without.end();
}

// Calls `tell` with one reason after the other until it answers that it has enough. The order is the contract
// (docs/reference/paths.md): from what the caller chose, over what the memory and the file are, to what the machine
// lacks and what a trial has shown. When the first reason is removed by its remedy, the next one is told.
template <typename Tell>
void tell_reasons(const facts::FileFacts& file, const facts::BufferFacts& buffer, const facts::MachineFacts& machine,
                  const Rules& rules, facts::TrialResult reach, Tell tell) noexcept(noexcept(tell(Reason{}))) {
  if (is_host(buffer.kind) && tell(SLUICE_REASON_HOST_MEMORY)) return;
  if (rules.plain && tell(SLUICE_REASON_PLAIN_MODE)) return;
  if (rules.force_compat && tell(SLUICE_REASON_FORCED_BY_CONFIGURATION)) return;
  if (buffer.kind == MemoryKind::managed && tell(SLUICE_REASON_MANAGED_MEMORY)) return;
  if (buffer.soft && !buffer.backed && tell(SLUICE_REASON_SOFT_GPU)) return;
  if (const std::optional<Reason> reason = by_file_system(file.file_system); reason && tell(*reason)) return;
  if (file.direct_is_copied && tell(SLUICE_REASON_UNSUPPORTED_FILE_SYSTEM)) return;
  if (has_no_drive(file.block) && tell(SLUICE_REASON_UNSUPPORTED_DEVICE)) return;
  if (!rules.use_pci_p2pdma && tell(SLUICE_REASON_DIRECT_PATH_OFF)) return;
  // What backs a soft GPU may be any memory, and the trial tells whether I/O gets there.
  if (!machine.kernel_has_p2pdma && !buffer.soft && tell(SLUICE_REASON_KERNEL_WITHOUT_P2PDMA)) return;
  if (reach == TrialResult::no_provider && tell(SLUICE_REASON_NO_DIRECT_PROVIDER)) return;
  if (!file.direct && tell(SLUICE_REASON_BUFFERED_DESCRIPTOR)) return;
  if (reach != TrialResult::no_provider) tell(reason_of(reach));
}

Reason first_reason(const facts::FileFacts& file, const facts::BufferFacts& buffer, const facts::MachineFacts& machine,
                    const Rules& rules, facts::TrialResult reach) noexcept {
  Reason first = SLUICE_REASON_NOT_PROVEN;
  tell_reasons(file, buffer, machine, rules, reach, [&first](Reason reason) noexcept {
    first = reason;
    return true;
  });
  return first;
}

}  // namespace

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
    case TrialResult::proven:
      return SLUICE_REASON_DIRECT;
  }
  return SLUICE_REASON_NOT_PROVEN;
}

RouteChoice judge(const facts::FileFacts& file, const facts::BufferFacts& buffer, const facts::MachineFacts& machine,
                  const Rules& rules, base::Direction direction, TrialResult reach) noexcept {
  if (direction == base::Direction::read ? file.caller_reads : file.caller_writes)
    return {SLUICE_PATH_USERSPACE, SLUICE_REASON_CALLER_OPERATIONS};
  const Reason reason = first_reason(file, buffer, machine, rules, reach);
  return {reason == SLUICE_REASON_DIRECT ? SLUICE_PATH_P2PDMA : SLUICE_PATH_POSIX, reason};
}

std::vector<Reason> all_reasons(const facts::FileFacts& file, const facts::BufferFacts& buffer,
                                const facts::MachineFacts& machine, const Rules& rules, facts::TrialResult reach) {
  std::vector<Reason> reasons;
  tell_reasons(file, buffer, machine, rules, reach, [&reasons](Reason reason) {
    // A trial that nobody could make is no reason beside others; two facts may stand for one reason.
    const bool beside = reason == SLUICE_REASON_NOT_PROVEN || reason == SLUICE_REASON_DIRECT;
    const bool known = std::find(reasons.begin(), reasons.end(), reason) != reasons.end();
    if (!known && !(beside && !reasons.empty())) reasons.push_back(reason);
    return false;
  });
  return reasons;
}

bool compat_is_allowed(const Rules& rules) noexcept {
  return rules.allow_compat || rules.force_compat || rules.plain;
}

bool is_permitted(const RouteChoice& choice, const Rules& rules) noexcept {
  return choice.path != SLUICE_PATH_POSIX || choice.reason == SLUICE_REASON_HOST_MEMORY || compat_is_allowed(rules);
}

bool has_direct_way(const facts::MachineFacts& machine, const Rules& rules) noexcept {
  return machine.nvfs_loaded || (rules.use_pci_p2pdma && machine.kernel_has_p2pdma);
}

}  // namespace sluice::route
