// SPDX-License-Identifier: Apache-2.0
// What is kept of each device: its staging memory, and what it has yet to do for a request that has ended.
#include "staging/neighbour.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <chrono>
#include <limits>
#include <memory>
#include <new>
#include <vector>

#include "base/never_destroyed.h"
#include "base/spin_backoff.h"
#include "gpu/peer_access.h"
#include "gpu/peer_memory.h"
#include "gpu/peers.h"
#include "topology/lenders.h"

namespace sluice::staging {

namespace {

using Clock = std::chrono::steady_clock;
constexpr auto after_refusal = std::chrono::seconds(1);

struct Device {
  std::atomic<bool> taken{false};
  std::atomic<unsigned> in_use{0};  // transfers that have it for their target
  std::atomic<Lent> answer{Lent::never_asked};
  std::atomic<KernelThere> kernel{KernelThere::unwanted};
  std::atomic<Clock::rep> not_before{0};        // it has refused something: it is not asked with every request
  std::atomic<Clock::rep> no_kernel_before{0};  // the same of a kernel
  std::atomic<bool> has_memory{false};
  // Of the one that has taken it.
  gpu::PeerMemory memory;
  Clock::time_point last_use{};
  std::optional<StagingLease> late;
  std::uint32_t late_mark = 0;
};

std::array<Device, gpu::max_devices>& devices() noexcept {
  static base::NeverDestroyed<std::array<Device, gpu::max_devices>> all;
  return all.get();
}

// When some of its memory may have been unused for long enough. Never: no device has any.
constexpr Clock::rep never = std::numeric_limits<Clock::rep>::max();
std::atomic<Clock::rep> next_look{never};

Clock::rep now_in_ticks() noexcept {
  return Clock::now().time_since_epoch().count();
}

// A reset of the device takes its memory along.
void forget_what_was_reset(Device& device) noexcept {
  if (device.memory.is_there() && gpu::inspect(device.memory.address()).kind != facts::MemoryKind::device) {
    device.memory.forget();
  }
}

bool is_known(int ordinal) noexcept {
  return ordinal >= 0 && static_cast<std::size_t>(ordinal) < gpu::max_devices;
}

Device& device_at(int ordinal) noexcept {
  return devices()[static_cast<std::size_t>(ordinal)];
}

// Has it done by now what the request before has not waited for? What is lost does not come any more, and streams of a
// context that is gone are not asked.
bool is_through(Device& device, const gpu::Session& now) noexcept {
  if (!device.late) return true;
  const gpu::Staging& late = device.late->device();
  const bool there = device.late->has_copied(device.late_mark);
  const bool is_lost = !late.serves(now.context(), now.context_id()) || (!there && late.health() != cuda::success);
  if (!there && !is_lost) return false;
  if (is_lost) device.late->condemn();
  device.late.reset();
  return true;
}

// Whether it may lend at all; then nothing of it has been touched.
Lent may_lend(int neighbour, int target, const LendingRules& rules) noexcept {
  if (!gpu::can_reach(target, neighbour)) return Lent::no_peer_access;
  if (!rules.named && !gpu::is_joined_by_nvlink(target, neighbour)) return Lent::no_nvlink;
  if (!rules.makes_contexts && !gpu::is_in_use(neighbour)) return Lent::not_in_use;
  return device_at(neighbour).in_use.load(std::memory_order_relaxed) > 0 ? Lent::at_work : Lent::lends;
}

// By copies, with the device taken and its context current: its staging memory, which the target reads.
Lent make_memory(Device& device, int neighbour, int target, std::uint64_t bytes) noexcept {
  forget_what_was_reset(device);
  if (!device.memory.is_there() && device.memory.make(neighbour, bytes) != cuda::success) return Lent::no_memory;
  device.has_memory.store(true, std::memory_order_relaxed);
  return device.memory.let_in(target) == cuda::success ? Lent::lends : Lent::no_peer_access;
}

// By a kernel there.
KernelThere can_carry(const Device& device, StagingLease& lease, const KernelReach& reach,
                      cuda::DevicePtr& places_there) noexcept {
  if (now_in_ticks() < device.no_kernel_before.load(std::memory_order_relaxed)) return KernelThere::was_refused;
  if (!lease.device().can_gather()) return KernelThere::not_loaded;
  if (!lease.kernel_worth_trying(reach.length)) return KernelThere::was_late;
  places_there = gpu::seen_from_here(reach.places);
  if (places_there == 0) return KernelThere::no_places;
  if (gpu::kernels_can_write(reach.target, reach.length)) return KernelThere::carries;
  places_there = 0;
  return KernelThere::out_of_reach;
}

// By the one that has taken it.
void is_free(Device& device) noexcept {
  device.last_use = Clock::now();
  next_look.store((device.last_use + neighbours_rest).time_since_epoch().count(), std::memory_order_relaxed);
  device.taken.store(false, std::memory_order_release);
}

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

// Empty where there is no memory to make them.
std::span<const int> order_for(int target, int present) noexcept {
  const Orders* orders = known_orders.load(std::memory_order_acquire);
  if (orders == nullptr) orders = make_orders(present);
  if (orders == nullptr || orders->present != present) return {};
  return orders->of_target[static_cast<std::size_t>(target)];
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
  }
  return "";
}

const char* words_of(KernelThere answer) noexcept {
  switch (answer) {
    case KernelThere::unwanted:
      return "a kernel was not asked for";
    case KernelThere::carries:
      return "by a kernel";
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
  if (text == "lend") return rules;
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

void free_unused_neighbours(std::chrono::nanoseconds unused) noexcept {
  Clock::rep next = never;
  for (Device& device : devices()) {
    if (!device.has_memory.load(std::memory_order_relaxed)) continue;
    // Those who find it taken meanwhile go without it.
    if (device.taken.exchange(true, std::memory_order_acquire)) {
      next = std::min(next, (Clock::now() + neighbours_rest).time_since_epoch().count());
      continue;
    }
    if (device.late && device.late->has_copied(device.late_mark)) device.late.reset();
    if (!device.late && Clock::now() - device.last_use >= unused) {
      forget_what_was_reset(device);
      device.memory.free();
      device.has_memory.store(false, std::memory_order_relaxed);
    } else {
      next = std::min(next, (Clock::now() + neighbours_rest).time_since_epoch().count());
    }
    device.taken.store(false, std::memory_order_release);
  }
  next_look.store(next, std::memory_order_relaxed);
}

LinkInUse::LinkInUse(int device) noexcept : device_(is_known(device) ? device : -1) {
  if (device_ < 0) return;
  device_at(device_).in_use.fetch_add(1, std::memory_order_relaxed);
  Clock::rep look = next_look.load(std::memory_order_relaxed);
  // One thread looks, the others go on.
  if (look != never && now_in_ticks() >= look &&
      next_look.compare_exchange_strong(look, never, std::memory_order_relaxed)) {
    free_unused_neighbours(neighbours_rest);
  }
}

LinkInUse::~LinkInUse() {
  if (device_ >= 0) device_at(device_).in_use.fetch_sub(1, std::memory_order_relaxed);
}

bool NeighbourLease::take(int neighbour, int target, const gpu::Session& session, const LendingRules& rules,
                          const KernelReach* reach) noexcept {
  Device& device = device_at(neighbour);
  piece_bytes_ = std::min(largest_piece, rules.most_bytes / most_pieces / 65536 * 65536);
  if (now_in_ticks() < device.not_before.load(std::memory_order_relaxed)) return false;
  Lent answer = piece_bytes_ == 0 && reach == nullptr ? Lent::no_memory : may_lend(neighbour, target, rules);
  if (answer == Lent::lends && device.taken.exchange(true, std::memory_order_acquire)) {
    answer = Lent::at_work;
  } else if (answer == Lent::lends) {
    answer = make_ready(neighbour, target, session, reach);
    if (answer != Lent::lends) {
      host_side_.reset();
      target_side_.reset();
      device.taken.store(false, std::memory_order_release);
      if (answer != Lent::late && answer != Lent::no_kernel) {
        device.not_before.store((Clock::now() + after_refusal).time_since_epoch().count(), std::memory_order_relaxed);
      }
    }
  }
  device.answer.store(answer, std::memory_order_relaxed);
  if (answer != Lent::lends) return false;
  device_ = neighbour;
  late_ = 0;
  broken_ = handed_on_ = false;
  return true;
}

// With the device taken: its context current as long as this takes.
Lent NeighbourLease::make_ready(int neighbour, int target, const gpu::Session& session,
                                const KernelReach* reach) noexcept {
  Device& device = device_at(neighbour);
  places_there_ = 0;
  {
    const gpu::Session there(gpu::memory_of_device(neighbour));
    if (there.status() != cuda::success) return Lent::no_context;
    if (!is_through(device, there)) return Lent::late;
    context_ = there.context();
    if (reach == nullptr) {
      const Lent answer = make_memory(device, neighbour, target, piece_bytes_ * most_pieces);
      if (answer != Lent::lends) return answer;
    }
    host_side_.emplace(StagingLease::take(there));
    if (!*host_side_) return Lent::no_memory;
    if (reach != nullptr) {
      const KernelThere kernel = can_carry(device, *host_side_, *reach, places_there_);
      device.kernel.store(kernel, std::memory_order_relaxed);
      return kernel == KernelThere::carries ? Lent::lends : Lent::no_kernel;
    }
  }
  target_side_.emplace(StagingLease::take(session));
  if (!*target_side_) return Lent::no_memory;
  memory_ = device.memory.address();
  piece_bytes_ = std::min<std::uint64_t>(piece_bytes_, device.memory.size() / most_pieces);
  std::atomic_ref(host_side_->words().copied).store(0, std::memory_order_relaxed);
  std::atomic_ref(target_side_->words().copied).store(0, std::memory_order_relaxed);
  return Lent::lends;
}

bool NeighbourLease::is_wanted_elsewhere() const noexcept {
  return device_at(device_).in_use.load(std::memory_order_relaxed) > 0;
}

void NeighbourLease::hand_on() noexcept {
  if (device_ < 0 || places_there_ == 0 || handed_on_) return;
  handed_on_ = true;
  is_free(device_at(device_));
}

void NeighbourLease::give_back() noexcept {
  if (device_ < 0) return;
  Device& device = device_at(device_);
  if (broken_) {
    if (places_there_ == 0) {
      host_side_->give_up();
    } else {
      host_side_->condemn();  // there are no copies to wait for
      device.no_kernel_before.store((Clock::now() + after_refusal).time_since_epoch().count(),
                                    std::memory_order_relaxed);
    }
  } else if (late_ != 0) {
    device.late_mark = late_;
    device.late.emplace(std::move(*host_side_));
  }
  host_side_.reset();
  target_side_.reset();
  device_ = -1;
  if (!handed_on_) is_free(device);
}

Neighbours::Neighbours(int target, const gpu::Session& session, const LendingRules& rules, const KernelReach* reach,
                       Else otherwise) noexcept {
  if (reach != nullptr) take(target, session, rules, reach);
  if (count_ > 0 || otherwise == Else::nothing) return;
  if (reach == nullptr) {
    for (Device& device : devices()) device.kernel.store(KernelThere::unwanted, std::memory_order_relaxed);
  }
  take(target, session, rules, nullptr);
}

void Neighbours::take(int target, const gpu::Session& session, const LendingRules& rules,
                      const KernelReach* reach) noexcept {
  const int present = std::min(gpu::device_count(), static_cast<int>(gpu::max_devices));
  if (target < 0 || target >= present) return;
  for (const int neighbour : order_for(target, present)) {
    if (count_ == most) break;
    if ((rules.devices >> static_cast<unsigned>(neighbour) & 1U) == 0) continue;
    if (leases_[count_].take(neighbour, target, session, rules, reach)) ++count_;
  }
}

std::string words_of_neighbours(int target) {
  std::string text;
  const int present = std::min(gpu::device_count(), static_cast<int>(gpu::max_devices));
  for (int neighbour = 0; neighbour < present; ++neighbour) {
    const Lent answer = device_at(neighbour).answer.load(std::memory_order_relaxed);
    if (neighbour == target || answer == Lent::never_asked) continue;
    text += fmt::format("{}GPU{}: {}", text.empty() ? "" : ", ", neighbour, words_of(answer));
    if (answer != Lent::lends && answer != Lent::no_kernel) continue;
    const KernelThere kernel = device_at(neighbour).kernel.load(std::memory_order_relaxed);
    const bool by_copies = answer == Lent::lends && kernel != KernelThere::carries;
    text += fmt::format("{} ({})", by_copies ? ", by its copy engine" : "", words_of(kernel));
  }
  return text;
}

void neighbours_after_fork_in_child() noexcept {
  for (Device& device : devices()) {
    device.taken.store(false, std::memory_order_relaxed);
    device.in_use.store(0, std::memory_order_relaxed);
    device.answer.store(Lent::never_asked, std::memory_order_relaxed);
    device.memory.forget();
    device.has_memory.store(false, std::memory_order_relaxed);
    device.late.reset();
  }
}

}  // namespace sluice::staging
