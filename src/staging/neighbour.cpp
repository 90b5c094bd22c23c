// SPDX-License-Identifier: Apache-2.0
// What is kept of each device: its staging memory, and what it has yet to do for a request that has ended.
#include "staging/neighbour.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <new>
#include <utility>

#include "base/never_destroyed.h"
#include "base/spin_backoff.h"
#include "gpu/loading.h"
#include "gpu/peer_access.h"
#include "gpu/peer_memory.h"
#include "gpu/peers.h"
#include "gpu/primary_context.h"
#include "staging/steal_gauge.h"
#include "workers/aside.h"

namespace sluice::staging {

struct RelayMemory {
  std::atomic<bool> taken{false};
  gpu::PeerMemory memory;  // of the one that has taken it
};

namespace {

using Clock = std::chrono::steady_clock;
constexpr auto after_refusal = std::chrono::seconds(1);
// Of a kernel, after several refusals in a row: reads that come less often would all begin with one.
constexpr auto longest_after_refusals = std::chrono::seconds(64);

struct Device {
  std::atomic<bool> taken{false};
  std::atomic<unsigned> in_use{0};  // transfers that have it for their target
  // The last of them: when it ended, and whose it was.
  std::atomic<Clock::rep> last_end{Clock::time_point::min().time_since_epoch().count()};
  std::atomic<const void*> last_thread{nullptr};
  std::atomic<Lent> answer{Lent::never_asked};
  std::atomic<KernelThere> kernel{KernelThere::unwanted};
  std::atomic<Clock::rep> not_before{0};        // it has refused something: it is not asked with every request
  std::atomic<Clock::rep> no_kernel_before{0};  // the same of a kernel
  std::atomic<std::chrono::seconds::rep> kernels_rest{0};  // until then, last
  std::atomic<bool> has_any{false};                        // memory there, or its context held
  std::array<RelayMemory, 2> relays;                       // of two reads, as one hands on to the next
  // Of the one that has taken it.
  gpu::PeerMemory memory;
  gpu::PrimaryContextHold context;  // where it was not asked for
  std::atomic<unsigned> leases{0};  // that work in it
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

// An address that no other living thread has.
const void* this_thread() noexcept {
  static constinit thread_local std::byte mine{};
  return &mine;
}

Clock::rep now_in_ticks() noexcept {
  return Clock::now().time_since_epoch().count();
}

// A reset of the device takes its memory along.
void forget_if_reset(gpu::PeerMemory& memory) noexcept {
  if (memory.is_there() && gpu::inspect(memory.address()).kind != facts::MemoryKind::device) memory.forget();
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

// A thread that reads into it piece by piece has its link to itself in between, too. (One that turns from this GPU to
// the next one leaves it.)
bool is_between_transfers(const Device& device) noexcept {
  constexpr auto a_while = std::chrono::microseconds(500);
  const Clock::rep last = device.last_end.load(std::memory_order_relaxed);
  return last != Clock::time_point::min().time_since_epoch().count() &&
         Clock::now() - Clock::time_point(Clock::duration(last)) < a_while &&
         device.last_thread.load(std::memory_order_relaxed) != this_thread();
}

bool is_by_kernel(KernelThere answer) noexcept {
  return answer == KernelThere::carries || answer == KernelThere::relays;
}

// Whether it may lend at all; then nothing of it has been touched.
Lent may_lend(int neighbour, int target, const LendingRules& rules) noexcept {
  if (!rules.asked && !gpu::were_loaded_on(neighbour)) return Lent::not_used_yet;
  if (!gpu::can_reach(target, neighbour)) return Lent::no_peer_access;
  if (!rules.named && !gpu::is_joined_by_nvlink(target, neighbour)) return Lent::no_nvlink;
  if (rules.asked && !rules.makes_contexts && !gpu::is_in_use(neighbour)) return Lent::not_in_use;
  if (device_at(neighbour).in_use.load(std::memory_order_relaxed) > 0) return Lent::at_work;
  return rules.asked || steal_gauge.allows(Clock::now()) ? Lent::lends : Lent::no_processors;
}

// By copies, with the device taken and its context current: its staging memory, which the target reads.
Lent make_memory(Device& device, int neighbour, int target, std::uint64_t bytes) noexcept {
  forget_if_reset(device.memory);
  if (!device.memory.is_there() && device.memory.make(neighbour, bytes) != cuda::success) return Lent::no_memory;
  device.has_any.store(true, std::memory_order_relaxed);
  return device.memory.let_in(target) == cuda::success ? Lent::lends : Lent::no_peer_access;
}

// By a kernel there, which the target reads from.
bool make_relay_memory(gpu::PeerMemory& memory, int neighbour, int target, std::uint64_t bytes) noexcept {
  forget_if_reset(memory);
  if (!memory.is_there() && memory.make(neighbour, bytes) != cuda::success) return false;
  return memory.let_in(target) == cuda::success;
}

// By the one that has taken it: with all that it has held and made for one that was not asked for. Loading kernels is
// for the program's own transfers to begin: a driver waits for all kernels in a context with it.
bool hold_context(Device& device, int neighbour) noexcept {
  // What the program has ended meanwhile ends now.
  if (device.leases.load(std::memory_order_acquire) == 0) device.context.end();
  if (!device.context.begin(neighbour)) return false;
  device.has_any.store(true, std::memory_order_relaxed);
  if (gpu::are_loaded(device.context.context(), device.context.context_id())) return true;
  if (device.leases.load(std::memory_order_acquire) == 0) device.context.end();
  return false;
}

// A transfer that ends then has what is unused looked for, or one before.
void look_again_at(Clock::rep when) noexcept {
  Clock::rep before = next_look.load(std::memory_order_relaxed);
  while (when < before && !next_look.compare_exchange_weak(before, when, std::memory_order_relaxed)) {
  }
}

// By the one that has taken it.
void is_free(Device& device) noexcept {
  device.last_use = Clock::now();
  look_again_at((device.last_use + neighbours_rest).time_since_epoch().count());
  device.taken.store(false, std::memory_order_release);
}

// Twice as long each time in a row.
void has_refused_a_kernel(Device& device) noexcept {
  const std::chrono::seconds last(device.kernels_rest.load(std::memory_order_relaxed));
  const std::chrono::seconds rest = std::clamp(2 * last, after_refusal, longest_after_refusals);
  device.kernels_rest.store(rest.count(), std::memory_order_relaxed);
  device.no_kernel_before.store((Clock::now() + rest).time_since_epoch().count(), std::memory_order_relaxed);
}

// By the one that has taken the device. False: a read that has handed it on has one yet.
bool free_relay_memory(Device& device) noexcept {
  bool all = true;
  for (RelayMemory& relay : device.relays) {
    if (relay.taken.exchange(true, std::memory_order_acquire)) {
      all = false;
      continue;
    }
    forget_if_reset(relay.memory);
    relay.memory.free();
    relay.taken.store(false, std::memory_order_release);
  }
  return all;
}

}  // namespace

std::uint64_t who_may_lend(int target, const LendingRules& rules, Idle idle) noexcept {
  const int present = std::min(gpu::known_device_count(), static_cast<int>(gpu::max_devices));
  std::uint64_t all = 0;
  for (int neighbour = 0; rules.on && neighbour < present; ++neighbour) {
    const std::uint64_t bit = std::uint64_t{1} << static_cast<unsigned>(neighbour);
    if (neighbour == target || (rules.devices & bit) == 0) continue;
    Device& device = device_at(neighbour);
    // As it answered just now.
    if (now_in_ticks() < device.not_before.load(std::memory_order_relaxed)) continue;
    Lent answer = may_lend(neighbour, target, rules);
    const bool is_busy = device.taken.load(std::memory_order_relaxed) || is_between_transfers(device);
    if (answer == Lent::lends && is_busy && idle == Idle::now && !rules.named) answer = Lent::at_work;
    if (answer == Lent::lends) {
      all |= bit;
    } else {
      device.answer.store(answer, std::memory_order_relaxed);
    }
  }
  return all;
}

void free_unused_neighbours(std::chrono::nanoseconds unused) noexcept {
  next_look.store(never, std::memory_order_relaxed);  // what is given back from now on tells of itself
  Clock::rep next = never;
  for (Device& device : devices()) {
    if (!device.has_any.load(std::memory_order_relaxed)) continue;
    // Those who find it taken meanwhile go without it.
    if (device.taken.exchange(true, std::memory_order_acquire)) {
      next = std::min(next, (Clock::now() + neighbours_rest).time_since_epoch().count());
      continue;
    }
    if (device.late && device.late->has_copied(device.late_mark)) device.late.reset();
    if (!device.late && Clock::now() - device.last_use >= unused) {
      forget_if_reset(device.memory);
      device.memory.free();
      // A read that has handed it on may still work in its context.
      const bool has_more = !free_relay_memory(device) || device.leases.load(std::memory_order_acquire) > 0;
      if (!has_more) device.context.end();
      device.has_any.store(has_more, std::memory_order_relaxed);
      if (has_more) next = std::min(next, (Clock::now() + neighbours_rest).time_since_epoch().count());
    } else {
      next = std::min(next, (Clock::now() + neighbours_rest).time_since_epoch().count());
    }
    device.taken.store(false, std::memory_order_release);
  }
  look_again_at(next);
}

bool holds_of_neighbours() noexcept {
  return std::ranges::any_of(devices(),
                             [](const Device& device) { return device.has_any.load(std::memory_order_relaxed); });
}

LinkInUse::LinkInUse(int device) noexcept : device_(is_known(device) ? device : -1) {
  if (device_ >= 0) device_at(device_).in_use.fetch_add(1, std::memory_order_relaxed);
}

LinkInUse::~LinkInUse() {
  if (device_ < 0) return;
  Device& device = device_at(device_);
  device.last_end.store(now_in_ticks(), std::memory_order_relaxed);
  device.last_thread.store(this_thread(), std::memory_order_relaxed);
  device.in_use.fetch_sub(1, std::memory_order_relaxed);
  Clock::rep look = next_look.load(std::memory_order_relaxed);
  // One thread looks, the others go on; and neighbours' drivers are not waited for.
  if (look != never && now_in_ticks() >= look &&
      next_look.compare_exchange_strong(look, never, std::memory_order_relaxed) &&
      !workers::run_aside([] { free_unused_neighbours(neighbours_rest); })) {
    look_again_at(look);
  }
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
    answer = make_ready(neighbour, target, session, rules, reach);
    if (answer != Lent::lends) {
      drop_all();
      leave_context(neighbour);
      if (device.has_any.load(std::memory_order_relaxed)) {
        look_again_at((Clock::now() + neighbours_rest).time_since_epoch().count());
      }
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
Lent NeighbourLease::make_ready(int neighbour, int target, const gpu::Session& session, const LendingRules& rules,
                                const KernelReach* reach) noexcept {
  Device& device = device_at(neighbour);
  places_there_ = 0;
  {
    facts::BufferFacts memory_there = gpu::memory_of_device(neighbour);
    if (!rules.asked) {
      if (!hold_context(device, neighbour)) return Lent::not_used_yet;
      device.leases.fetch_add(1, std::memory_order_relaxed);
      holds_context_ = true;
      memory_there.context = device.context.context();
    }
    const gpu::Session there(memory_there);
    if (there.status() != cuda::success) return Lent::no_context;
    // It may have been reset just now.
    if (holds_context_ && there.context_id() != device.context.context_id()) return Lent::not_used_yet;
    if (!is_through(device, there)) return Lent::late;
    context_ = there.context();
    if (reach == nullptr) {
      const Lent answer = make_memory(device, neighbour, target, piece_bytes_ * most_pieces);
      if (answer != Lent::lends) return answer;
    }
    host_side_.emplace(StagingLease::take(there));
    if (!*host_side_) return Lent::no_memory;
    if (reach != nullptr) {
      const KernelThere kernel = make_kernel_ready(neighbour, target, rules, *reach);
      device.kernel.store(kernel, std::memory_order_relaxed);
      if (relay_memory_ == nullptr) return is_by_kernel(kernel) ? Lent::lends : Lent::no_kernel;
    }
  }
  if (relay_memory_ != nullptr) {
    // Of a launch that was revoked and may come yet, the words are not to be used.
    target_side_.emplace(StagingLease::take(session));
    const bool has_fetcher = *target_side_ && target_side_->device().can_gather();
    if (has_fetcher && target_side_->kernel_worth_trying(reach->length)) return Lent::lends;
    device.kernel.store(has_fetcher ? KernelThere::fetcher_was_late : KernelThere::no_fetcher,
                        std::memory_order_relaxed);
    return Lent::no_kernel;
  }
  target_side_.emplace(StagingLease::take(session));
  if (!*target_side_) return Lent::no_memory;
  memory_ = device.memory.address();
  piece_bytes_ = std::min<std::uint64_t>(piece_bytes_, device.memory.size() / most_pieces);
  std::atomic_ref(host_side_->words().copied).store(0, std::memory_order_relaxed);
  std::atomic_ref(target_side_->words().copied).store(0, std::memory_order_relaxed);
  return Lent::lends;
}

// With its context current.
KernelThere NeighbourLease::make_kernel_ready(int neighbour, int target, const LendingRules& rules,
                                              const KernelReach& reach) noexcept {
  Device& device = device_at(neighbour);
  if (now_in_ticks() < device.no_kernel_before.load(std::memory_order_relaxed)) return KernelThere::was_refused;
  if (!host_side_->device().can_gather()) return KernelThere::not_loaded;
  if (!host_side_->kernel_worth_trying(reach.length)) return KernelThere::was_late;
  const cuda::DevicePtr places_there = gpu::seen_from_here(reach.places);
  if (places_there == 0) return KernelThere::no_places;
  const auto settings =
      rules.switches_peers ? gpu::PeerSettings::may_be_switched_on : gpu::PeerSettings::stay_as_they_are;
  const bool reaches = gpu::kernels_can_write(reach.target, reach.length, settings);
  const KernelThere answer = reaches                ? KernelThere::carries
                             : rules.switches_peers ? KernelThere::out_of_reach
                                                    : take_relay_memory(neighbour, target, rules, reach);
  if (is_by_kernel(answer)) places_there_ = places_there;
  return answer;
}

KernelThere NeighbourLease::take_relay_memory(int neighbour, int target, const LendingRules& rules,
                                              const KernelReach& reach) noexcept {
  if (reach.relay_bytes == 0) return KernelThere::out_of_reach;
  if (!host_side_->device().can_relay()) return KernelThere::not_loaded;
  Device& device = device_at(neighbour);
  std::uint64_t bytes = 0;
  for (RelayMemory& relay : device.relays) {
    bytes += reach.relay_bytes;
    if (bytes > rules.most_bytes) break;
    if (relay.taken.exchange(true, std::memory_order_acquire)) continue;
    device.has_any.store(true, std::memory_order_relaxed);
    if (make_relay_memory(relay.memory, neighbour, target, reach.relay_bytes)) {
      relay_memory_ = &relay;
      return KernelThere::relays;
    }
    relay.taken.store(false, std::memory_order_release);
    device.no_kernel_before.store((Clock::now() + after_refusal).time_since_epoch().count(), std::memory_order_relaxed);
    break;
  }
  return KernelThere::no_relay_memory;
}

NeighbourLease::Relay NeighbourLease::relay() noexcept {
  return relay_memory_ != nullptr ? Relay{relay_memory_->memory.address(), relay_memory_->memory.size(), &*target_side_}
                                  : Relay{};
}

void NeighbourLease::drop_all() noexcept {
  host_side_.reset();
  target_side_.reset();
  if (relay_memory_ != nullptr) relay_memory_->taken.store(false, std::memory_order_release);
  relay_memory_ = nullptr;
}

void NeighbourLease::leave_context(int neighbour) noexcept {
  if (std::exchange(holds_context_, false)) device_at(neighbour).leases.fetch_sub(1, std::memory_order_release);
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
      has_refused_a_kernel(device);
    }
  } else if (places_there_ != 0) {
    device.kernels_rest.store(0, std::memory_order_relaxed);
  } else if (late_ != 0) {
    device.late_mark = late_;
    device.late.emplace(std::move(*host_side_));
  }
  drop_all();
  leave_context(device_);
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
  const int present = std::min(gpu::known_device_count(), static_cast<int>(gpu::max_devices));
  if (target < 0 || target >= present) return;
  for (const int neighbour : lenders_for(target, present)) {
    if (count_ == (reach != nullptr ? most_by_kernels : most)) break;
    if ((rules.devices >> static_cast<unsigned>(neighbour) & 1U) == 0) continue;
    if (leases_[count_].take(neighbour, target, session, rules, reach)) ++count_;
  }
}

std::string words_of_neighbours(int target) {
  std::string text;
  const int present = std::min(gpu::known_device_count(), static_cast<int>(gpu::max_devices));
  for (int neighbour = 0; neighbour < present; ++neighbour) {
    const Lent answer = device_at(neighbour).answer.load(std::memory_order_relaxed);
    if (neighbour == target || answer == Lent::never_asked) continue;
    // As most are.
    if (answer == Lent::not_used_yet && !gpu::is_in_use(neighbour)) continue;
    text += fmt::format("{}GPU{}: {}", text.empty() ? "" : ", ", neighbour, words_of(answer));
    if (answer != Lent::lends && answer != Lent::no_kernel) continue;
    const KernelThere kernel = device_at(neighbour).kernel.load(std::memory_order_relaxed);
    const bool by_copies = answer == Lent::lends && !is_by_kernel(kernel);
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
    device.context.forget();
    device.leases.store(0, std::memory_order_relaxed);
    for (RelayMemory& relay : device.relays) {
      relay.memory.forget();
      relay.taken.store(false, std::memory_order_relaxed);
    }
    device.has_any.store(false, std::memory_order_relaxed);
    device.late.reset();
  }
}

}  // namespace sluice::staging
