// Places are filled by io_uring and emptied by the copy engine. Copies are numbered in the order in which they are
// given to the device, which tells by RingWords::copied how many are through; those of answers that come together are
// given with one call. There are more places than requests on their way, so that the disk has work while the device
// copies.
#include "transfer/deep_read.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <utility>

#include "base/pause.h"
#include "gpu/memory.h"
#include "observe/carriers.h"

namespace sluice::transfer {

using base::FileOffset;
using base::Outcome;

namespace {

std::uint64_t whole_blocks(std::uint64_t bytes, std::uint32_t block) noexcept {
  return (bytes + block - 1) / block * block;
}

// What is read for a parcel when it is read at once.
std::uint64_t whole_blocks(const DiskParcel& wanted) noexcept {
  return whole_blocks(wanted.parcel.at.value % wanted.block + wanted.parcel.length, wanted.block);
}

}  // namespace

std::span<std::byte> DeepRead::bytes_of(std::size_t place) const noexcept {
  return ring_->bytes().subspan(place * place_bytes_, place_bytes_);
}

bool DeepRead::has_been_copied(std::uint32_t number) const noexcept {
  return static_cast<std::int32_t>(base::look(ring_->words().copied) - number) >= 0;
}

void DeepRead::begin(std::span<DiskParcel> parcels, staging::RingLoan& ring, io::Uring& disk) noexcept {
  parcels_ = parcels;
  ring_ = &ring;
  disk_ = &disk;
  disk.keep_at_hand(ring.bytes());
  std::uint64_t longest = 0;
  for (DiskParcel& wanted : parcels) {
    longest = std::max(longest, whole_blocks(wanted));
    wanted.parcel.outcome = Outcome::bytes(0);
    wanted.parcel.left_over = false;
  }
  place_bytes_ = std::min<std::size_t>(whole_blocks(longest, largest_disk_block), largest_place);
  place_count_ = std::min(most_disk_places, staging::ring_bytes / place_bytes_);
  next_ = first_free_ = told_before_ = 0;
  reading_ = 0;
  quiet_ = false;
  copies_ = marked_ = 0;
  waiting_count_ = 0;
  failure_ = cuda::success;
  progress_.fill({});
  places_.fill({});
  std::atomic_ref(ring.words().copied).store(0, std::memory_order_relaxed);
}

void DeepRead::run(std::span<DiskParcel> parcels, staging::RingLoan& ring, io::Uring& disk, Listener& listener,
                   Bond bond) noexcept {
  bond_ = bond;
  turn_ = 0;
  counted_ = false;
  begin(parcels, ring, disk);
  while (has_more() || reading_ > 0) {
    start_more();
    if (reading_ == 0) {
      wait_for_copies();  // every place waits for one
      continue;
    }
    std::array<io::UringAnswer, io::Uring::depth> answers;
    const int count = await_answers(answers);
    if (count < 0) {
      lose_disk();
      break;
    }
    for (int i = 0; i < count; ++i) settle(answers[static_cast<std::size_t>(i)]);
    mark_copies();
    tell(listener);
    quiet_ = count == 0 && (failure_ != cuda::success || has_been_copied(copies_));
  }
  wait_for_copies();
  tell(listener);
  for (std::size_t i = told_before_; i < parcels_.size(); ++i) {
    if (progress_[i].told) continue;
    parcels_[i].parcel.left_over = true;
    if (failure_ != cuda::success) parcels_[i].parcel.outcome = gpu::as_outcome(failure_);
  }
}

int DeepRead::await_answers(std::span<io::UringAnswer, io::Uring::depth> answers) noexcept {
  if (quiet_) return disk_->wait(answers);
  return disk_->wait_a_while(answers, std::max(1U, reading_ / part_awaited), longest_company);
}

bool DeepRead::has_more() noexcept {
  for (; next_ < parcels_.size(); ++next_) {
    const Progress& progress = progress_[next_];
    if (!progress.over && progress.asked < parcels_[next_].parcel.length) return failure_ == cuda::success;
  }
  return false;
}

void DeepRead::start_more() noexcept {
  for (std::size_t tried = 0; tried < place_count_ && reading_ < io::Uring::depth && has_more(); ++tried) {
    const std::size_t index = first_free_;
    first_free_ = first_free_ + 1 == place_count_ ? 0 : first_free_ + 1;
    const Place& place = places_[index];
    if (place.state == State::free && has_been_copied(place.copy)) start(index);
  }
}

void DeepRead::start(std::size_t index) noexcept {
  const DiskParcel& wanted = parcels_[next_];
  Progress& progress = progress_[next_];
  const std::uint64_t at = wanted.parcel.at.value + progress.asked;
  const std::uint64_t skip = at % wanted.block;
  const std::uint64_t length = std::min<std::uint64_t>(place_bytes_ - skip, wanted.parcel.length - progress.asked);
  places_[index] = {.state = State::reading,
                    .parcel = static_cast<std::uint16_t>(next_),
                    .copy = places_[index].copy,
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
  Place& place = places_[index];
  const DiskParcel& wanted = parcels_[place.parcel];
  place.from = place.done - place.done % wanted.block;
  disk_->add({.fd = wanted.parcel.fd,
              .address = bytes_of(index).data() + place.from,
              .length = static_cast<std::uint32_t>(place.whole - place.from),
              .at = FileOffset{place.begin + place.from},
              .tag = index});
}

void DeepRead::settle(const io::UringAnswer& answer) noexcept {
  const auto index = static_cast<std::size_t>(answer.tag);
  Place& place = places_[index];
  if (answer.result < 0) {
    const int error = -answer.result;
    const bool again = error == EINTR || (error == EAGAIN && ++place.refusals < base::most_refusals_in_a_row);
    return again ? submit(index) : arrive(index, error);
  }
  place.refusals = 0;
  const std::uint64_t reached = place.from + static_cast<std::uint64_t>(answer.result);
  if (reached <= place.done) return arrive(index, 0);  // the file ends here
  place.done = std::min(reached, place.whole);
  const bool at_end = place.begin + place.done >= parcels_[place.parcel].parcel.file_size;
  if (place.done < place.whole && !at_end) return submit(index);
  arrive(index, 0);
}

void DeepRead::arrive(std::size_t index, int error) noexcept {
  Place& place = places_[index];
  place.error = error;
  place.state = State::arrived;
  --reading_;
  if (bond_ == Bond::one_transfer && !progress_[place.parcel].over) return hand_on_in_turn();
  hand_on(place.parcel);
}

// Of one transfer: what has arrived of the first parcel that is not whole, and of the next ones when it is.
void DeepRead::hand_on_in_turn() noexcept {
  while (turn_ < parcels_.size()) {
    hand_on(turn_);
    const Progress& progress = progress_[turn_];
    if (progress.over) return end_behind(turn_);
    if (progress.copied < parcels_[turn_].parcel.length) return;
    ++turn_;
  }
}

// It has come short: nothing is wanted any more of those behind it.
void DeepRead::end_behind(std::uint16_t parcel) noexcept {
  for (std::size_t i = parcel + std::size_t{1}; i < parcels_.size(); ++i) {
    progress_[i].over = true;
    parcels_[i].parcel.left_over = parcels_[parcel].parcel.left_over;
    hand_on(static_cast<std::uint16_t>(i));
  }
}

DeepRead::Place* DeepRead::next_of(std::uint16_t parcel) noexcept {
  const Progress& progress = progress_[parcel];
  const auto end = places_.begin() + static_cast<std::ptrdiff_t>(place_count_);
  const auto next = std::find_if(places_.begin(), end, [&](const Place& place) {
    return place.state == State::arrived && place.parcel == parcel &&
           (progress.over || place.offset == progress.copied);
  });
  return next != end ? &*next : nullptr;
}

void DeepRead::hand_on(std::uint16_t parcel) noexcept {
  while (Place* const place = next_of(parcel)) {
    place->state = State::free;
    --progress_[parcel].pieces;
    if (!progress_[parcel].over) hand_on(*place);
  }
}

void DeepRead::hand_on(Place& place) noexcept {
  Parcel& parcel = parcels_[place.parcel].parcel;
  Progress& progress = progress_[place.parcel];
  const std::uint64_t count = std::min(place.done - std::min(place.done, place.skip), place.length);
  // What a descriptor or this kernel refuses in principle, another way may do. EIO, and an end where the file has none,
  // may be nobody's: who reads it by itself finds out.
  const int error = place.error;
  const bool stops_early = error == 0 && count < place.length && parcel.file_size != ~std::uint64_t{0} &&
                           parcel.at.value + place.offset + count < parcel.file_size;
  parcel.left_over = error == EINVAL || error == EOPNOTSUPP || error == ENOSYS || error == EIO || stops_early ||
                     io::was_not_tried(error);
  progress.over = parcel.left_over || count < place.length;
  if (count > 0 && !parcel.left_over && failure_ == cuda::success) copy(place, count);
  const std::uint64_t total = progress.copied;
  parcel.outcome = total == 0 && error != 0 ? Outcome::system_error(error) : Outcome::bytes(total);
}

void DeepRead::copy(Place& place, std::uint64_t count) noexcept {
  const auto index = static_cast<std::size_t>(&place - places_.data());
  Progress& progress = progress_[place.parcel];
  waiting_[waiting_count_++] = {parcels_[place.parcel].parcel.to + place.offset, bytes_of(index).data() + place.skip,
                                count};
  progress.copied += count;
  progress.copy = place.copy = ++copies_;
}

void DeepRead::give_copies() noexcept {
  const auto copies = std::span(waiting_).first(std::exchange(waiting_count_, 0));
  if (failure_ != cuda::success || copies.empty()) return;
  const int result = ring_->device().copy_to_device(copies);
  if (result != cuda::success) failure_ = result;
}

void DeepRead::mark_copies() noexcept {
  give_copies();
  if (marked_ == copies_ || failure_ != cuda::success) return;
  const int result = ring_->device().mark(&ring_->words().copied, copies_);
  if (result != cuda::success) failure_ = result;
  marked_ = copies_;
}

// After a failure nothing is waited for but the device's own end of our copies.
void DeepRead::wait_for_copies() noexcept {
  mark_copies();
  if (failure_ == cuda::success) failure_ = ring_->await_copied(copies_);
  if (failure_ == cuda::success) return;
  ring_->give_up();
  for (Place& place : places_) place.copy = 0;
  std::atomic_ref(ring_->words().copied).store(0, std::memory_order_relaxed);
}

bool DeepRead::is_through(std::size_t index) const noexcept {
  const Progress& progress = progress_[index];
  const bool all = progress.over || progress.copied == parcels_[index].parcel.length;
  return all && progress.pieces == 0 && has_been_copied(progress.copy);
}

void DeepRead::tell(Listener& listener) noexcept {
  if (failure_ != cuda::success) return;
  std::array<std::uint16_t, most_disk_parcels> news;
  std::size_t count = 0;
  std::size_t carried = 0;
  for (std::size_t i = told_before_; i < std::min(next_ + 1, parcels_.size()); ++i) {
    Progress& progress = progress_[i];
    if (progress.told || parcels_[i].parcel.left_over || !is_through(i)) continue;
    progress.told = true;
    if (progress.copied > 0) ++carried;
    news[count++] = static_cast<std::uint16_t>(i);
  }
  while (told_before_ < parcels_.size() && (progress_[told_before_].told || parcels_[told_before_].parcel.left_over)) {
    ++told_before_;
  }
  if (count == 0) return;
  // Before anybody hears of them: who has heard may look at the counters.
  const bool at_once = ring_->device().can_copy_many();
  observe::count_carrier(at_once ? observe::CarriedBy::many_copies : observe::CarriedBy::copy_engine,
                         bond_ == Bond::none ? carried : std::size_t{carried > 0 && !std::exchange(counted_, true)});
  listener.through(std::span(news).first(count));
}

// The kernel takes nothing more, and has nothing of ours any more. What has arrived in front is in place all the same.
void DeepRead::lose_disk() noexcept {
  reading_ = 0;
  for (std::size_t i = 0; i < parcels_.size(); ++i) {
    const Progress& progress = progress_[i];
    const bool all = progress.over || progress.copied == parcels_[i].parcel.length;
    if (!all || progress.pieces > 0) parcels_[i].parcel.left_over = true;
  }
}

}  // namespace sluice::transfer
