// SPDX-License-Identifier: Apache-2.0
// The watch looks once in each span of patience: a call that it finds twice has taken longer than that.
#include "fuzz/watch.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

namespace sluice::fuzz {

Watch::Watch(std::size_t seats, std::chrono::seconds patience) : patience_(patience) {
  for (std::size_t i = 0; i < seats; ++i) seats_.push_back(std::make_unique<Seat>());
  thread_ = std::thread([this] { look_again_and_again(); });
}

Watch::~Watch() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  ended_.notify_all();
  thread_.join();
}

void Watch::enter(std::size_t seat, std::string call) {
  Seat& mine = *seats_[seat];
  const std::lock_guard lock(mine.mutex);
  mine.call = std::move(call);
  ++mine.number;
}

void Watch::leave(std::size_t seat) {
  Seat& mine = *seats_[seat];
  const std::lock_guard lock(mine.mutex);
  mine.call.clear();
}

void Watch::look_again_and_again() {
  std::vector<std::uint64_t> seen(seats_.size(), 0);
  std::unique_lock lock(mutex_);
  while (!ended_.wait_for(lock, patience_, [this] { return over_; })) {
    for (std::size_t i = 0; i < seats_.size(); ++i) {
      bool stuck = false;
      {
        const std::lock_guard seat(seats_[i]->mutex);
        stuck = !seats_[i]->call.empty() && seats_[i]->number == seen[i];
        seen[i] = seats_[i]->number;
      }
      if (stuck) give_up(i);
    }
  }
}

void Watch::give_up(std::size_t stuck) {
  std::fprintf(stderr, "random_calls: a call of actor %zu has not returned for %lld s. The actors are in:\n", stuck,
               static_cast<long long>(patience_.count()));
  for (std::size_t i = 0; i < seats_.size(); ++i) {
    const std::lock_guard seat(seats_[i]->mutex);
    std::fprintf(stderr, "  actor %zu, call %llu: %s\n", i, static_cast<unsigned long long>(seats_[i]->number),
                 seats_[i]->call.empty() ? "(none)" : seats_[i]->call.c_str());
  }
  std::abort();
}

}  // namespace sluice::fuzz
