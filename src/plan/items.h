// SPDX-License-Identifier: Apache-2.0
// What has come of the items of a plan. Under the plan's lock, but for what others wait by.
#pragma once

#include <time.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/event_count.h"
#include "plan/cut.h"
#include "sluice.h"

namespace sluice::plan {

// So many of the first items have ended. Streams that wait may outlive the plan.
struct Front {
  std::atomic<std::size_t> ended{0};
  base::EventCount event;

  bool has_reached(std::size_t first) const noexcept { return ended.load(std::memory_order_acquire) >= first; }
  // False: the deadline came first.
  bool wait_for(std::size_t first, const std::optional<timespec>& deadline) const noexcept;
};

// What came of a part of an item: from `begin` on, so many bytes were wanted.
struct PartOfItem {
  std::uint64_t begin = 0;
  std::uint64_t wanted = 0;
  std::uint64_t there = 0;  // of these
  int error = 0;            // that ends it there
  sluice_path_t path = SLUICE_PATH_POSIX;
  sluice_reason_t reason = SLUICE_REASON_HOST_MEMORY;
  bool cancelled = false;  // not begun, or not gone on with
};

class Items {
 public:
  explicit Items(std::span<const Range> ranges);

  // Each item that has bytes comes in parts.
  void expect_part(std::uint32_t item) noexcept { ++states_[item].parts_left; }
  // From now on those that expect no part have ended.
  void begin() noexcept;
  void has_come(std::uint32_t item, const PartOfItem& part) noexcept;
  // Tells those that wait for the front.
  void tell() noexcept;

  std::size_t count() const noexcept { return states_.size(); }
  std::size_t ended() const noexcept { return ended_; }
  bool has_ended(std::size_t item) const noexcept { return states_[item].state != SLUICE_ITEM_WAITING; }
  bool have_all_ended() const noexcept { return ended_ == states_.size(); }
  sluice_item_result_t result_of(std::size_t item) const noexcept;
  void fill(sluice_plan_counts_t& progress) const noexcept;
  std::uint64_t bytes() const noexcept { return bytes_; }
  std::uint64_t bytes_in_place() const noexcept { return in_place_; }
  const std::shared_ptr<Front>& front() const noexcept { return front_; }

 private:
  struct State {
    std::uint64_t size = 0;
    std::uint64_t there = 0;  // until where no part of it has come short
    std::uint32_t parts_left = 0;
    int error = 0;  // of the part that ends there
    sluice_item_state_t state = SLUICE_ITEM_WAITING;
    bool cancelled = false;  // some part of it
    sluice_path_t path = SLUICE_PATH_POSIX;
    sluice_reason_t reason = SLUICE_REASON_HOST_MEMORY;
  };
  void end(State& state) noexcept;

  std::vector<State> states_;
  std::shared_ptr<Front> front_;
  std::uint64_t bytes_ = 0;
  std::uint64_t in_place_ = 0;
  std::size_t ended_ = 0;
  std::size_t failed_ = 0;
  std::size_t cancelled_ = 0;
  std::size_t in_front_ = 0;
};

}  // namespace sluice::plan
