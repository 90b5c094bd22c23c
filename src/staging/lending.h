// SPDX-License-Identifier: Apache-2.0
// Whether other GPUs lend their links: what sluice.links says, in which order they are asked, and what they answer.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace sluice::staging {

// sluice.links.
struct LendingRules {
  bool on = false;
  bool named = false;                         // a list of devices: these, by whatever link
  bool makes_contexts = false;                // also on devices that the process does not work with
  std::uint64_t devices = ~std::uint64_t{0};  // by ordinal
  std::uint64_t least_bytes = 0;              // of a transfer: sluice.links_min_kb
  std::uint64_t most_bytes = 0;               // of staging memory on each: properties.max_device_cache_size_kb
  // Else it is as by itself: only by kernels, and only where nothing changes for the program.
  bool asked = true;
  // sluice.links_copy.
  bool by_kernel = true;       // where kernels can carry a read
  bool switches_peers = true;  // for that, peer access of the program's contexts
};
// "auto", "own", "lend", "0,2": nothing where the text is something else.
std::optional<LendingRules> lending_rules(std::string_view text, std::uint64_t least_bytes, std::uint64_t most_bytes);

// What became of a neighbour when it was asked last.
enum class Lent : std::uint8_t {
  never_asked,
  lends,
  no_peer_access,  // the target does not reach its memory
  no_nvlink,       // and it was not named
  not_in_use,      // by the process, and it was not named
  not_used_yet,    // by a transfer of ours, and it was not asked for: our kernels are not in its primary context
  no_context,      // none can be made: another process has it for itself, or it is broken
  at_work,         // for itself, or for another request
  no_memory,       // on it, or pinned
  no_kernel,       // while a read is carried by kernels alone
  late,            // it has not done yet what it was relieved of
  no_processors,   // the host of this virtual machine takes too much of their time: steal_gauge.h
};
const char* words_of(Lent answer) noexcept;

// And a kernel there.
enum class KernelThere : std::uint8_t {
  unwanted,  // by sluice.links_copy, or for this transfer
  carries,   // into the target's memory
  relays,    // into memory of its own
  no_relay_memory,
  no_fetcher,        // on the target
  fetcher_was_late,  // just now
  out_of_reach,      // the target's memory is, for kernels of the neighbour
  not_loaded,        // yet, or its device will not have it
  was_late,          // it did not begin in time just now
  no_places,         // pinned memory that its device sees
  was_refused,       // just now, or its device was lost
};
const char* words_of(KernelThere answer) noexcept;

// In which order a device asks the others, of so many that are there. Empty where there is no memory to make it.
std::span<const int> lenders_for(int target, int present) noexcept;

}  // namespace sluice::staging
