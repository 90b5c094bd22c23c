// SPDX-License-Identifier: Apache-2.0
#include "plan/links_line.h"

#include <algorithm>
#include <utility>

namespace sluice::plan {

namespace {

timespec as_timespec(std::chrono::steady_clock::time_point at) noexcept {
  const auto since = std::chrono::duration_cast<std::chrono::nanoseconds>(at.time_since_epoch()).count();
  constexpr std::int64_t second = 1'000'000'000;
  return {.tv_sec = static_cast<time_t>(since / second), .tv_nsec = static_cast<long>(since % second)};
}

}  // namespace

bool LinksLine::Plans::add(void* handle) noexcept {
  if (std::ranges::find(all(), handle) != all().end()) return true;
  if (count_ == handles_.size()) return false;
  handles_[count_++] = handle;
  return true;
}

std::uint64_t LinksLine::enter(void* plan) noexcept {
  const std::lock_guard lock(all_lines);
  const std::uint64_t number = ++entered_;
  if (goes_ == none) {
    goes_ = number;
    since_ = Clock::now();
  } else if (is_ready_ == none) {
    is_ready_ = number;
  } else if (plans_.add(plan)) {
    return none;
  }
  return number;
}

LinksLine::Plans LinksLine::wait(std::uint64_t number) noexcept {
  for (;;) {
    const std::uint32_t seen = moved_.now();
    timespec end{};
    {
      const std::lock_guard lock(all_lines);
      if (is_ready_ != number) return {};
      if (Clock::now() >= since_ + patience_) return next_goes();
      end = as_timespec(since_ + patience_);
    }
    static_cast<void>(moved_.wait_beyond(seen, end));
  }
}

LinksLine::Plans LinksLine::leave(std::uint64_t number) noexcept {
  const std::lock_guard lock(all_lines);
  if (is_ready_ == number) {
    is_ready_ = none;
    return std::exchange(plans_, {});
  }
  return goes_ == number ? next_goes() : Plans();
}

LinksLine::Plans LinksLine::next_goes() noexcept {
  goes_ = std::exchange(is_ready_, none);
  since_ = Clock::now();
  moved_.advance();
  return std::exchange(plans_, {});
}

void LinksLine::forget_all() noexcept {
  goes_ = is_ready_ = none;
  plans_ = {};
}

}  // namespace sluice::plan
