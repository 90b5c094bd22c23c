// SPDX-License-Identifier: Apache-2.0
#include "staging/lending.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <charconv>
#include <cstddef>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "facts/root.h"
#include "gpu/cuda_api.h"
#include "gpu/memory.h"
#include "topology/lenders.h"

namespace sluice::staging {

namespace {

// In which order each device asks the others. Made by the first request that is large enough, for as long as the
// process lives.
struct Orders {
  int present = 0;
  std::vector<std::vector<int>> of_target;
};
std::atomic<const Orders*> known_orders{nullptr};

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return text;
}

const Orders* make_orders(int present) noexcept {
  try {
    auto made = std::make_unique<Orders>();
    made->present = present;
    std::vector<std::string> gpus(static_cast<std::size_t>(present));
    for (int device = 0; device < present; ++device) {
      gpus[static_cast<std::size_t>(device)] = lower_case(gpu::pci_address(device));
    }
    const topology::Machine machine = topology::read_machine(facts::Root{}, {});
    for (int device = 0; device < present; ++device) {
      made->of_target.push_back(topology::lenders_of(machine, gpus, device));
    }
    const Orders* before = nullptr;
    if (known_orders.compare_exchange_strong(before, made.get(), std::memory_order_acq_rel)) return made.release();
    return before;
  } catch (...) {
    return nullptr;
  }
}

}  // namespace

const char* words_of(Lent answer) noexcept {
  switch (answer) {
    case Lent::never_asked:
      return "not asked yet";
    case Lent::lends:
      return "lends its link";
    case Lent::no_peer_access:
      return "no peer access";
    case Lent::no_nvlink:
      return "no NVLink, and not named in sluice.links";
    case Lent::not_in_use:
      return "not in use by this process, and not named in sluice.links";
    case Lent::not_used_yet:
      return "this process has moved nothing large to or from it yet";
    case Lent::no_context:
      return "no context can be had there";
    case Lent::at_work:
      return "at work";
    case Lent::no_memory:
      return "no staging memory can be had there";
    case Lent::no_kernel:
      return "carries nothing by a kernel";
    case Lent::late:
      return "has not done yet what it was relieved of";
    case Lent::no_processors:
      return "not while the host takes processors from this machine (steal in top), as just now";
  }
  return "";
}

const char* words_of(KernelThere answer) noexcept {
  switch (answer) {
    case KernelThere::unwanted:
      return "a kernel was not asked for";
    case KernelThere::carries:
      return "by a kernel";
    case KernelThere::relays:
      return "by a kernel, by way of its own memory";
    case KernelThere::no_relay_memory:
      return "no memory for it to relay through is free there";
    case KernelThere::no_fetcher:
      return "the target has no kernel to fetch with";
    case KernelThere::fetcher_was_late:
      return "the target's kernel did not begin in time";
    case KernelThere::out_of_reach:
      return "its kernels do not reach the target's memory";
    case KernelThere::not_loaded:
      return "its kernels are not loaded";
    case KernelThere::was_late:
      return "its kernel did not begin in time";
    case KernelThere::no_places:
      return "its kernels do not see the host's places";
    case KernelThere::was_refused:
      return "its device has refused a kernel just now";
  }
  return "";
}

std::optional<LendingRules> lending_rules(std::string_view text, std::uint64_t least_bytes, std::uint64_t most_bytes) {
  LendingRules rules{.least_bytes = least_bytes, .most_bytes = most_bytes};
  if (text == "own") return rules;
  rules.on = true;
  rules.asked = text != "auto";
  rules.switches_peers = rules.asked;
  if (text == "lend" || text == "auto") return rules;
  rules.named = rules.makes_contexts = true;
  rules.devices = 0;
  if (text.ends_with(',')) return std::nullopt;
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find(','));
    unsigned ordinal = 0;
    const auto parsed = std::from_chars(one.data(), one.data() + one.size(), ordinal);
    if (parsed.ec != std::errc() || parsed.ptr != one.data() + one.size() || ordinal >= gpu::max_devices) {
      return std::nullopt;
    }
    rules.devices |= std::uint64_t{1} << ordinal;
    text.remove_prefix(std::min(one.size() + 1, text.size()));
  }
  return rules.devices == 0 ? std::nullopt : std::optional(rules);
}

std::span<const int> lenders_for(int target, int present) noexcept {
  const Orders* orders = known_orders.load(std::memory_order_acquire);
  if (orders == nullptr) orders = make_orders(present);
  if (orders == nullptr || orders->present != present) return {};
  return orders->of_target[static_cast<std::size_t>(target)];
}

}  // namespace sluice::staging
