// SPDX-License-Identifier: Apache-2.0
// Out of a staging buffer into device memory by the copy engine, in the order in which chunks are released, whatever
// row they are of: one that a disk takes long for holds up nothing but its row. Any free place will do for a chunk.
// There are more places than requests on their way, so that the disk has work while the device copies.
//
// Copies are numbered in the order in which they are given to the device, which tells by StagingWords::copied how many
// are through; those of answers that come together are given with one call.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <utility>

#include "base/spin_backoff.h"
#include "gpu/memory.h"
#include "observe/copy_counters.h"
#include "staging/slot_cursor.h"
#include "staging/staging_buffer.h"
#include "transfer/board.h"
#include "transfer/plan.h"

namespace sluice::transfer {

// Of one thread. The listener is told of items that are through while others are not.
template <typename Listener>
class AsTheyCome {
  using Chunks = Board<ManyTargets>;

 public:
  void begin(const Chunks& /*board*/, const ReadPlan& plan, staging::StagingLease& lease, Listener& listener) noexcept {
    plan_ = &plan;
    lease_ = &lease;
    listener_ = &listener;
    std::atomic_ref(lease.words().copied).store(0, std::memory_order_relaxed);
  }

  std::byte* place(std::uint32_t slot) const noexcept {
    return lease_->bytes().data() + std::size_t{slot} * plan_->stride;
  }
  bool is_lost() const noexcept { return failure_ != cuda::success; }
  static void update_room(const Chunks& /*board*/) noexcept {}
  // The chunk whose state would be written over is released, and a place is free.
  bool has_room(Chunks& board, const staging::SlotCursor& /*cursor*/, std::uint32_t chunk) noexcept {
    if (chunk >= board.depth && !board.layout().is_released(chunk - board.depth)) return false;
    for (std::uint32_t tried = 0; tried < plan_->slots.count; ++tried) {
      const Slot& slot = slots_[next_slot_];
      if (!slot.is_taken && has_been_copied(slot.copy)) return true;
      next_slot_ = after(next_slot_);
    }
    return false;
  }
  std::uint32_t slot_for(const staging::SlotCursor& /*cursor*/, std::uint32_t /*chunk*/) noexcept {
    slots_[next_slot_].is_taken = true;
    return std::exchange(next_slot_, after(next_slot_));
  }

  void publish(const Chunks& board, std::uint32_t chunk, const ChunkState& state) noexcept {
    Slot& slot = slots_[state.slot];
    slot.is_taken = false;
    if (state.length == 0 || is_lost()) return;
    const Chunk from = board.layout()[chunk];
    waiting_[waiting_count_++] = {from.target, place(state.slot) + from.lead, state.length};
    last_copy_[board.layout().item_of(chunk)] = slot.copy = ++copies_;
  }

  static base::SpinBackoff backoff() noexcept { return {}; }
  bool gathers() const noexcept { return !quiet_; }
  void has_waited(const Chunks& board, int count) noexcept {
    mark_copies();
    notify(board.layout());
    quiet_ = count == 0 && (is_lost() || has_been_copied(copies_));  // the listener waits for nothing
  }
  void look_after(const Chunks& /*board*/, base::SpinBackoff& /*backoff*/) noexcept { wait_for_copies(); }
  void finish(const Chunks& board) noexcept {
    wait_for_copies();
    notify(board.layout());
  }
  cuda::Result failure() const noexcept { return failure_; }
  bool has_told(std::size_t item) const noexcept { return told_[item]; }

 private:
  struct Slot {
    bool is_taken = false;
    std::uint32_t copy = 0;  // the number of the copy that empties it
  };

  std::uint32_t after(std::uint32_t slot) const noexcept { return slot + 1 == plan_->slots.count ? 0 : slot + 1; }
  bool has_been_copied(std::uint32_t number) const noexcept {
    return static_cast<std::int32_t>(base::load_acquire(lease_->words().copied) - number) >= 0;
  }

  void mark_copies() noexcept {
    const auto copies = std::span(waiting_).first(std::exchange(waiting_count_, 0));
    if (is_lost() || copies.empty()) return;
    failure_ = lease_->device().copy_to_device(copies);
    if (!is_lost()) failure_ = lease_->device().mark(&lease_->words().copied, copies_);
  }

  // After a failure nothing is waited for but the device's own end of our copies.
  void wait_for_copies() noexcept {
    mark_copies();
    if (!is_lost()) failure_ = lease_->await_copied(copies_);
    if (is_lost()) lease_->give_up();
  }

  void notify(ManyTargets& layout) noexcept {
    if (is_lost()) return;
    std::array<std::uint16_t, most_disk_items> ended;
    std::size_t count = 0;
    std::size_t carried = 0;
    const std::size_t items = layout.items().size();
    for (std::size_t i = told_before_; i < items; ++i) {
      if (told_[i] || !layout.is_through(i) || layout.is_left(i) || !has_been_copied(last_copy_[i])) continue;
      told_[i] = true;
      layout.settle(i);
      if (layout.items()[i].outcome.count() > 0) ++carried;
      ended[count++] = static_cast<std::uint16_t>(i);
    }
    while (told_before_ < items && (told_[told_before_] || layout.is_left(told_before_))) ++told_before_;
    if (count == 0) return;
    // Before the listener hears of them, and may look at the counters.
    const bool at_once = lease_->device().can_copy_many();
    if (layout.is_one_transfer()) carried = carried > 0 && !std::exchange(counted_, true) ? 1 : 0;
    observe::count_copy(at_once ? observe::CopyCounter::many_copies : observe::CopyCounter::copy_engine, carried);
    listener_->through(std::span(ended).first(count));
  }

  const ReadPlan* plan_ = nullptr;
  staging::StagingLease* lease_ = nullptr;
  Listener* listener_ = nullptr;
  cuda::Result failure_ = cuda::success;
  bool quiet_ = false;
  bool counted_ = false;         // of one transfer: the carrier
  std::uint32_t next_slot_ = 0;  // the place that is looked at first
  std::uint32_t copies_ = 0;
  std::size_t told_before_ = 0;    // items before it are told of, or left
  std::size_t waiting_count_ = 0;  // copies that the device has not been given yet
  std::array<gpu::Copy, most_disk_slots> waiting_;
  std::array<Slot, most_disk_slots> slots_{};
  std::array<std::uint32_t, most_disk_items> last_copy_{};
  std::array<bool, most_disk_items> told_{};
};

}  // namespace sluice::transfer
