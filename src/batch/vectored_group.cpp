// SPDX-License-Identifier: Apache-2.0
// There are as many gatherings as were lent at the same time: a thread looks at those first, and makes another one
// where it finds none idle.
#include "batch/vectored_group.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <optional>

#include "base/thread_number.h"

namespace sluice::batch {

namespace {

struct Place {
  std::atomic<bool> lent{false};
  VectoredGroup* group = nullptr;  // of the borrower
};

constexpr std::size_t places = 32;
constexpr std::size_t tries = 4;

// Its gatherings are never destroyed: threads may be at it until the process has ended.
constinit std::array<Place, places> all;
// Those that are in use, from the first on. What is in a place is ordered by its own lent.
constinit std::atomic<std::size_t> in_use{0};

// The next place that is not in use, or none.
std::optional<std::size_t> another_place() noexcept {
  std::size_t next = in_use.load(std::memory_order_relaxed);
  while (next < places) {
    if (in_use.compare_exchange_weak(next, next + 1, std::memory_order_relaxed)) return next;
  }
  return std::nullopt;
}

}  // namespace

VectoredLease::VectoredLease() noexcept {
  const std::size_t count = in_use.load(std::memory_order_relaxed);
  for (std::size_t i = 0; i < std::min(tries, count); ++i) {
    if (borrow((base::thread_number() + i) % count)) return;
  }
  const auto fresh = another_place();
  if (fresh) static_cast<void>(borrow(*fresh));
}

// False: another thread has it.
bool VectoredLease::borrow(std::size_t number) noexcept {
  Place& place = all[number];
  if (place.lent.load(std::memory_order_relaxed) || place.lent.exchange(true, std::memory_order_acquire)) return false;
  if (place.group == nullptr) place.group = new (std::nothrow) VectoredGroup;
  place_ = number;
  group_ = place.group;
  if (group_ == nullptr) place.lent.store(false, std::memory_order_release);
  return true;
}

VectoredLease::~VectoredLease() {
  if (group_ == nullptr) return;
  clear();
  all[place_].lent.store(false, std::memory_order_release);
}

void VectoredLease::clear() noexcept {
  while (count_ > 0) drop_last();
}

}  // namespace sluice::batch
