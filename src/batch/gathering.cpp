// One place a thread in the usual case; the first user of a place makes what is lent there.
#include "batch/gathering.h"

#include <atomic>
#include <new>

#include "base/thread_number.h"

namespace sluice::batch {

namespace {

struct Place {
  std::atomic<bool> lent{false};
  Gathering* gathering = nullptr;  // of the borrower
};

constexpr std::size_t places = 32;
constexpr std::size_t tries = 4;

// Its gatherings are never destroyed: threads may be at it until the process has ended.
constinit std::array<Place, places> all;

}  // namespace

GatheringLoan::GatheringLoan() noexcept {
  for (std::size_t i = 0; i < tries; ++i) {
    place_ = (base::thread_number() + i) % places;
    Place& place = all[place_];
    if (place.lent.load(std::memory_order_relaxed) || place.lent.exchange(true, std::memory_order_acquire)) continue;
    if (place.gathering == nullptr) place.gathering = new (std::nothrow) Gathering;
    gathering_ = place.gathering;
    if (gathering_ == nullptr) place.lent.store(false, std::memory_order_release);
    return;
  }
}

GatheringLoan::~GatheringLoan() {
  if (gathering_ == nullptr) return;
  clear();
  all[place_].lent.store(false, std::memory_order_release);
}

void GatheringLoan::clear() noexcept {
  while (count_ > 0) drop_last();
}

}  // namespace sluice::batch
