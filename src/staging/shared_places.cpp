// SPDX-License-Identifier: Apache-2.0
#include "staging/shared_places.h"

#include <array>
#include <atomic>
#include <chrono>

#include "gpu/peer_access.h"
#include "gpu/pin.h"
#include "gpu/staging_memory.h"

namespace sluice::staging {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t most_places = 8;  // two each for four devices: one that has handed its links on keeps them
std::array<std::atomic<std::byte*>, most_places> idle_places{};
std::atomic<std::size_t> places_made{0};
// What cannot be pinned is not tried with every read.
std::atomic<Clock::rep> no_pinning_before{0};
constexpr auto after_refused_pinning = std::chrono::seconds(1);

gpu::StagingShape places_shape() noexcept {
  constexpr std::size_t spare = 65536;
  return gpu::StagingShape{.bulk = SharedPlaces::room, .behind = spare}.in_pages();
}

std::byte* take_idle_places() noexcept {
  for (auto& slot : idle_places) {
    if (std::byte* const memory = slot.exchange(nullptr, std::memory_order_acquire)) return memory;
  }
  return nullptr;
}

std::byte* map_places() noexcept {
  if (places_made.fetch_add(1, std::memory_order_relaxed) < most_places) {
    if (std::byte* const memory = gpu::map_staging(places_shape())) return memory;
  }
  places_made.fetch_sub(1, std::memory_order_relaxed);
  return nullptr;
}

// There is a slot for each, but another thread may put one back behind this one's look.
void put_places_back(std::byte* memory) noexcept {
  for (std::size_t i = 0;; ++i) {
    std::byte* none = nullptr;
    auto& slot = idle_places[i % most_places];
    if (slot.compare_exchange_strong(none, memory, std::memory_order_release, std::memory_order_relaxed)) return;
  }
}

// A context that has pinned it and is gone may have taken that along. While one that has lives, it stays: gpu/pin.h.
bool are_pinned_here(std::byte* memory) noexcept {
  if (gpu::seen_from_here(memory) != 0) return true;
  if (gpu::pinned_by(memory) != nullptr) return false;
  const gpu::CudaApi& driver = *gpu::driver();
  driver.mem_host_unregister(memory);
  return driver.mem_host_register(memory, places_shape().size(), cuda::host_register_portable) == cuda::success &&
         gpu::seen_from_here(memory) != 0;
}

}  // namespace

SharedPlaces SharedPlaces::take(const gpu::Session& session) noexcept {
  const Clock::rep now = Clock::now().time_since_epoch().count();
  if (session.status() != cuda::success || now < no_pinning_before.load(std::memory_order_relaxed)) return {};
  std::byte* memory = take_idle_places();
  if (memory == nullptr) memory = map_places();
  if (memory == nullptr) return {};
  if (are_pinned_here(memory)) return SharedPlaces(memory);
  put_places_back(memory);
  no_pinning_before.store((Clock::now() + after_refused_pinning).time_since_epoch().count(), std::memory_order_relaxed);
  return {};
}

SharedPlaces::~SharedPlaces() {
  if (memory_ != nullptr) put_places_back(memory_);
}

void shared_places_after_fork_in_child() noexcept {
  for (auto& slot : idle_places) slot.store(nullptr, std::memory_order_relaxed);
  places_made.store(0, std::memory_order_relaxed);
}

}  // namespace sluice::staging
