// SPDX-License-Identifier: Apache-2.0
// One place a thread in the usual case; the first user of a place makes what is lent there.
#include "batch/vectored_group.h"

#include <atomic>
#include <new>

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

}  // namespace

VectoredLease::VectoredLease() noexcept {
  for (std::size_t i = 0; i < tries; ++i) {
    place_ = (base::thread_number() + i) % places;
    Place& place = all[place_];
    if (place.lent.load(std::memory_order_relaxed) || place.lent.exchange(true, std::memory_order_acquire)) continue;
    if (place.group == nullptr) place.group = new (std::nothrow) VectoredGroup;
    group_ = place.group;
    if (group_ == nullptr) place.lent.store(false, std::memory_order_release);
    return;
  }
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
