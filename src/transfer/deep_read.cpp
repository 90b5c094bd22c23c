// SPDX-License-Identifier: Apache-2.0
// Places are filled by io_uring and emptied by the copy engine. Copies are numbered in the order in which they are
// given to the device, which tells by StagingWords::copied how many are through; those of answers that come together
// are given with one call. There are more places than requests on their way, so that the disk has work while the device
// copies.
#include "transfer/deep_read.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <utility>

#include "base/spin_backoff.h"
#include "gpu/memory.h"
#include "observe/copy_counters.h"

namespace sluice::transfer {

using base::FileOffset;
using base::Outcome;

namespace {

std::uint64_t whole_blocks(std::uint64_t bytes, std::uint32_t block) noexcept {
  return (bytes + block - 1) / block * block;
}

// What is read for an item when it is read at once.
std::uint64_t whole_blocks(const DiskReadItem& wanted) noexcept {
  return whole_blocks(wanted.item.at.value % wanted.block + wanted.item.length, wanted.block);
}

}  // namespace

std::span<std::byte> DeepRead::bytes_of(std::size_t slot) const noexcept {
  return lease_->bytes().subspan(slot * slot_bytes_, slot_bytes_);
}

bool DeepRead::has_been_copied(std::uint32_t number) const noexcept {
  return static_cast<std::int32_t>(base::load_acquire(lease_->words().copied) - number) >= 0;
}

void DeepRead::begin(std::span<DiskReadItem> items, staging::StagingLease& lease, io::Uring& disk) noexcept {
  items_ = items;
  lease_ = &lease;
  disk_ = &disk;
  disk.register_buffer(lease.bytes());
  std::uint64_t longest = 0;
  for (DiskReadItem& wanted : items) {
    longest = std::max(longest, whole_blocks(wanted));
    wanted.item.outcome = Outcome::bytes(0);
    wanted.item.remains = false;
  }
  slot_bytes_ = std::min<std::size_t>(whole_blocks(longest, largest_disk_block), largest_slot);
  slot_count_ = std::min(most_disk_slots, staging::staging_bytes / slot_bytes_);
  next_ = first_free_ = notified_before_ = 0;
  reading_ = 0;
  quiet_ = false;
  copies_ = marked_ = 0;
  waiting_count_ = 0;
  failure_ = cuda::success;
  progress_.fill({});
  slots_.fill({});
  std::atomic_ref(lease.words().copied).store(0, std::memory_order_relaxed);
}

void DeepRead::run(std::span<DiskReadItem> items, staging::StagingLease& lease, io::Uring& disk, Listener& listener,
                   Bond bond) noexcept {
  bond_ = bond;
  turn_ = 0;
  counted_ = false;
  begin(items, lease, disk);
  while (has_more() || reading_ > 0) {
    start_more();
    if (reading_ == 0) {
      wait_for_copies();  // every place waits for one
      continue;
    }
    std::array<io::UringCompletion, io::Uring::depth> answers;
    const int count = await_completions(answers);
    if (count < 0) {
      lose_disk();
      break;
    }
    for (int i = 0; i < count; ++i) settle(answers[static_cast<std::size_t>(i)]);
    mark_copies();
    notify(listener);
    quiet_ = count == 0 && (failure_ != cuda::success || has_been_copied(copies_));
  }
  wait_for_copies();
  notify(listener);
  for (std::size_t i = notified_before_; i < items_.size(); ++i) {
    if (progress_[i].notified) continue;
    items_[i].item.remains = true;
    if (failure_ != cuda::success) items_[i].item.outcome = gpu::as_outcome(failure_);
  }
}

int DeepRead::await_completions(std::span<io::UringCompletion, io::Uring::depth> answers) noexcept {
  if (quiet_) return disk_->wait(answers);
  return disk_->wait_a_while(answers, std::max(1U, reading_ / part_awaited), longest_gathering);
}

bool DeepRead::has_more() noexcept {
  for (; next_ < items_.size(); ++next_) {
    const Progress& progress = progress_[next_];
    if (!progress.over && progress.asked < items_[next_].item.length) return failure_ == cuda::success;
  }
  return false;
}

void DeepRead::start_more() noexcept {
  for (std::size_t tried = 0; tried < slot_count_ && reading_ < io::Uring::depth && has_more(); ++tried) {
    const std::size_t index = first_free_;
    first_free_ = first_free_ + 1 == slot_count_ ? 0 : first_free_ + 1;
    const Slot& slot = slots_[index];
    if (slot.state == State::free && has_been_copied(slot.copy)) start(index);
  }
}

void DeepRead::start(std::size_t index) noexcept {
  const DiskReadItem& wanted = items_[next_];
  Progress& progress = progress_[next_];
  const std::uint64_t at = wanted.item.at.value + progress.asked;
  const std::uint64_t skip = at % wanted.block;
  const std::uint64_t length = std::min<std::uint64_t>(slot_bytes_ - skip, wanted.item.length - progress.asked);
  slots_[index] = {.state = State::reading,
                   .item = static_cast<std::uint16_t>(next_),
                   .copy = slots_[index].copy,
                   .offset = progress.asked,
                   .length = length,
                   .begin = at - skip,
                   .skip = skip,
                   .whole = whole_blocks(skip + length, wanted.block)};
  progress.asked += length;
  ++progress.pieces;
  ++reading_;
  submit(index);
}

// From the start of the block that the last answer stopped in: O_DIRECT knows whole blocks only.
void DeepRead::submit(std::size_t index) noexcept {
  Slot& slot = slots_[index];
  const DiskReadItem& wanted = items_[slot.item];
  slot.from = slot.done - slot.done % wanted.block;
  disk_->add({.fd = wanted.item.fd,
              .address = bytes_of(index).data() + slot.from,
              .length = static_cast<std::uint32_t>(slot.whole - slot.from),
              .at = FileOffset{slot.begin + slot.from},
              .tag = index});
}

void DeepRead::settle(const io::UringCompletion& answer) noexcept {
  const auto index = static_cast<std::size_t>(answer.tag);
  Slot& slot = slots_[index];
  if (answer.result < 0) {
    const int error = -answer.result;
    const bool again = error == EINTR || (error == EAGAIN && ++slot.refusals < base::most_refusals_in_a_row);
    return again ? submit(index) : arrive(index, error);
  }
  slot.refusals = 0;
  const std::uint64_t reached = slot.from + static_cast<std::uint64_t>(answer.result);
  if (reached <= slot.done) return arrive(index, 0);  // the file ends here
  slot.done = std::min(reached, slot.whole);
  const bool at_end = slot.begin + slot.done >= items_[slot.item].item.file_size;
  if (slot.done < slot.whole && !at_end) return submit(index);
  arrive(index, 0);
}

void DeepRead::arrive(std::size_t index, int error) noexcept {
  Slot& slot = slots_[index];
  slot.error = error;
  slot.state = State::arrived;
  --reading_;
  if (bond_ == Bond::one_transfer && !progress_[slot.item].over) return pass_on_in_order();
  pass_on(slot.item);
}

// Of one transfer: what has arrived of the first item that is not whole, and of the next ones when it is.
void DeepRead::pass_on_in_order() noexcept {
  while (turn_ < items_.size()) {
    pass_on(turn_);
    const Progress& progress = progress_[turn_];
    if (progress.over) return end_behind(turn_);
    if (progress.copied < items_[turn_].item.length) return;
    ++turn_;
  }
}

// It has come short: nothing is wanted any more of those behind it.
void DeepRead::end_behind(std::uint16_t item) noexcept {
  for (std::size_t i = item + std::size_t{1}; i < items_.size(); ++i) {
    progress_[i].over = true;
    items_[i].item.remains = items_[item].item.remains;
    pass_on(static_cast<std::uint16_t>(i));
  }
}

DeepRead::Slot* DeepRead::next_of(std::uint16_t item) noexcept {
  const Progress& progress = progress_[item];
  const auto end = slots_.begin() + static_cast<std::ptrdiff_t>(slot_count_);
  const auto next = std::find_if(slots_.begin(), end, [&](const Slot& slot) {
    return slot.state == State::arrived && slot.item == item && (progress.over || slot.offset == progress.copied);
  });
  return next != end ? &*next : nullptr;
}

void DeepRead::pass_on(std::uint16_t item) noexcept {
  while (Slot* const slot = next_of(item)) {
    slot->state = State::free;
    --progress_[item].pieces;
    if (!progress_[item].over) pass_on(*slot);
  }
}

void DeepRead::pass_on(Slot& slot) noexcept {
  ReadItem& item = items_[slot.item].item;
  Progress& progress = progress_[slot.item];
  const std::uint64_t count = std::min(slot.done - std::min(slot.done, slot.skip), slot.length);
  // What a descriptor or this kernel refuses in principle, another way may do. EIO, and an end where the file has none,
  // may be nobody's: a read by itself finds out.
  const int error = slot.error;
  const bool stops_early = error == 0 && count < slot.length && item.file_size != ~std::uint64_t{0} &&
                           item.at.value + slot.offset + count < item.file_size;
  item.remains = error == EINVAL || error == EOPNOTSUPP || error == ENOSYS || error == EIO || stops_early ||
                 io::was_not_tried(error);
  progress.over = item.remains || count < slot.length;
  if (count > 0 && !item.remains && failure_ == cuda::success) copy(slot, count);
  const std::uint64_t total = progress.copied;
  item.outcome = total == 0 && error != 0 ? Outcome::system_error(error) : Outcome::bytes(total);
}

void DeepRead::copy(Slot& slot, std::uint64_t count) noexcept {
  const auto index = static_cast<std::size_t>(&slot - slots_.data());
  Progress& progress = progress_[slot.item];
  waiting_[waiting_count_++] = {items_[slot.item].item.to + slot.offset, bytes_of(index).data() + slot.skip, count};
  progress.copied += count;
  progress.copy = slot.copy = ++copies_;
}

void DeepRead::give_copies() noexcept {
  const auto copies = std::span(waiting_).first(std::exchange(waiting_count_, 0));
  if (failure_ != cuda::success || copies.empty()) return;
  const int result = lease_->device().copy_to_device(copies);
  if (result != cuda::success) failure_ = result;
}

void DeepRead::mark_copies() noexcept {
  give_copies();
  if (marked_ == copies_ || failure_ != cuda::success) return;
  const int result = lease_->device().mark(&lease_->words().copied, copies_);
  if (result != cuda::success) failure_ = result;
  marked_ = copies_;
}

// After a failure nothing is waited for but the device's own end of our copies.
void DeepRead::wait_for_copies() noexcept {
  mark_copies();
  if (failure_ == cuda::success) failure_ = lease_->await_copied(copies_);
  if (failure_ == cuda::success) return;
  lease_->give_up();
  for (Slot& slot : slots_) slot.copy = 0;
  std::atomic_ref(lease_->words().copied).store(0, std::memory_order_relaxed);
}

bool DeepRead::is_through(std::size_t index) const noexcept {
  const Progress& progress = progress_[index];
  const bool all = progress.over || progress.copied == items_[index].item.length;
  return all && progress.pieces == 0 && has_been_copied(progress.copy);
}

void DeepRead::notify(Listener& listener) noexcept {
  if (failure_ != cuda::success) return;
  std::array<std::uint16_t, most_disk_items> ended;
  std::size_t count = 0;
  std::size_t carried = 0;
  for (std::size_t i = notified_before_; i < std::min(next_ + 1, items_.size()); ++i) {
    Progress& progress = progress_[i];
    if (progress.notified || items_[i].item.remains || !is_through(i)) continue;
    progress.notified = true;
    if (progress.copied > 0) ++carried;
    ended[count++] = static_cast<std::uint16_t>(i);
  }
  while (notified_before_ < items_.size() &&
         (progress_[notified_before_].notified || items_[notified_before_].item.remains)) {
    ++notified_before_;
  }
  if (count == 0) return;
  // Before anybody hears of them, and may look at the counters.
  const bool at_once = lease_->device().can_copy_many();
  observe::count_copy(at_once ? observe::CopyCounter::many_copies : observe::CopyCounter::copy_engine,
                      bond_ == Bond::none ? carried : std::size_t{carried > 0 && !std::exchange(counted_, true)});
  listener.through(std::span(ended).first(count));
}

// The kernel takes nothing more, and has nothing of ours any more. What has arrived in front is in place all the same.
void DeepRead::lose_disk() noexcept {
  reading_ = 0;
  for (std::size_t i = 0; i < items_.size(); ++i) {
    const Progress& progress = progress_[i];
    const bool all = progress.over || progress.copied == items_[i].item.length;
    if (!all || progress.pieces > 0) items_[i].item.remains = true;
  }
}

}  // namespace sluice::transfer
