// Places are filled by io_uring and emptied by the copy engine. Copies are numbered in the order in which they are
// given to the device, which tells by RingWords::copied how many are through.
#include "engine/deep_read.h"

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "engine/pause.h"
#include "gpu/memory.h"
#include "observe/carriers.h"

namespace sluice::engine {

using base::FileOffset;
using base::Outcome;

namespace {

constexpr std::size_t whole_page = 4096;

std::uint64_t whole_blocks(const DiskParcel& wanted) noexcept {
  const std::uint64_t skip = wanted.parcel.at.value % wanted.block;
  return (skip + wanted.parcel.length + wanted.block - 1) / wanted.block * wanted.block;
}

}  // namespace

std::span<std::byte> DeepRead::bytes_of(std::size_t place) const noexcept {
  return ring_->bytes().subspan(place * place_bytes_, place_bytes_);
}

bool DeepRead::is_free(const Place& place) noexcept {
  return !place.reading && static_cast<std::int32_t>(look(ring_->words().copied) - place.copy) >= 0;
}

void DeepRead::run(std::span<DiskParcel> parcels, RingLoan& ring, Uring& disk) noexcept {
  parcels_ = parcels;
  ring_ = &ring;
  disk_ = &disk;
  disk.keep_at_hand(ring.bytes());
  std::uint64_t longest = 0;
  for (const DiskParcel& wanted : parcels) longest = std::max(longest, whole_blocks(wanted));
  place_bytes_ = (longest + whole_page - 1) / whole_page * whole_page;
  place_count_ = std::min(places_.size(), ring_bytes / place_bytes_);
  next_ = 0;
  reading_ = 0;
  copies_ = marked_ = 0;
  failure_ = cuda::success;
  places_.fill({});
  std::atomic_ref(ring.words().copied).store(0, std::memory_order_relaxed);
  while (start_more() || reading_ > 0 || next_ < parcels_.size()) {
    if (reading_ == 0) {
      wait_for_copies();  // every place waits for one
      continue;
    }
    std::array<UringAnswer, Uring::depth> answers;
    const int count = disk_->wait(answers);
    if (count < 0) {
      lose_disk();
      break;
    }
    for (int i = 0; i < count; ++i) settle(answers[static_cast<std::size_t>(i)]);
    mark_copies();
  }
  wait_for_copies();
  if (failure_ != cuda::success) {
    for (DiskParcel& wanted : parcels_) {
      wanted.parcel.outcome = gpu::as_outcome(failure_);
      wanted.parcel.left_over = true;
    }
  }
  observe::count_carrier(observe::CarriedBy::copy_engine, copies_);
}

bool DeepRead::start_more() noexcept {
  bool any = false;
  for (std::size_t i = 0; i < place_count_ && next_ < parcels_.size(); ++i) {
    Place& place = places_[i];
    if (!is_free(place)) continue;
    DiskParcel& wanted = parcels_[next_];
    const std::uint64_t skip = wanted.parcel.at.value % wanted.block;
    place = {next_++, wanted.parcel.at.value - skip, skip, whole_blocks(wanted), 0, 0, 0, true, place.copy};
    wanted.parcel.outcome = Outcome::bytes(0);
    wanted.parcel.left_over = false;
    ++reading_;
    submit(i);
    any = true;
  }
  return any;
}

// From the start of the block that the last answer stopped in: O_DIRECT knows whole blocks only.
void DeepRead::submit(std::size_t index) noexcept {
  Place& place = places_[index];
  const DiskParcel& wanted = parcels_[place.parcel];
  place.from = place.done - place.done % wanted.block;
  disk_->add({base::Direction::read, wanted.parcel.fd, bytes_of(index).data() + place.from,
              static_cast<std::uint32_t>(place.whole - place.from), FileOffset{place.begin + place.from}, index});
}

void DeepRead::settle(const UringAnswer& answer) noexcept {
  const auto index = static_cast<std::size_t>(answer.tag);
  Place& place = places_[index];
  if (answer.result < 0) {
    const int error = -answer.result;
    const bool again = error == EINTR || (error == EAGAIN && ++place.refusals < most_refusals_in_a_row);
    return again ? submit(index) : end(place, error);
  }
  place.refusals = 0;
  const std::uint64_t reached = place.from + static_cast<std::uint64_t>(answer.result);
  if (reached <= place.done) return end(place, 0);  // the file ends here
  place.done = std::min(reached, place.whole);
  const bool at_end = place.begin + place.done >= parcels_[place.parcel].parcel.file_size;
  if (place.done < place.whole && !at_end) return submit(index);
  end(place, 0);
}

void DeepRead::end(Place& place, int error) noexcept {
  place.reading = false;
  --reading_;
  Parcel& parcel = parcels_[place.parcel].parcel;
  const std::uint64_t count = std::min(place.done - std::min(place.done, place.skip), parcel.length);
  // What a descriptor or this kernel refuses in principle, another way may do.
  parcel.left_over = error == EINVAL || error == EOPNOTSUPP || error == ENOSYS || was_not_tried(error);
  parcel.outcome = count == 0 && error != 0 ? Outcome::system_error(error) : Outcome::bytes(count);
  if (count > 0 && !parcel.left_over && failure_ == cuda::success) copy(place, count);
}

void DeepRead::copy(Place& place, std::uint64_t count) noexcept {
  const auto index = static_cast<std::size_t>(&place - places_.data());
  const int result =
      ring_->device().copy_to_device(parcels_[place.parcel].parcel.to, bytes_of(index).subspan(place.skip, count));
  if (result == cuda::success) {
    place.copy = ++copies_;
  } else {
    failure_ = result;
  }
}

void DeepRead::mark_copies() noexcept {
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

// The kernel takes nothing more, and has nothing of ours any more.
void DeepRead::lose_disk() noexcept {
  for (Place& place : places_) {
    if (place.reading) parcels_[place.parcel].parcel.left_over = true;
  }
  for (DiskParcel& wanted : parcels_.subspan(next_)) wanted.parcel.left_over = true;
  next_ = parcels_.size();
  reading_ = 0;
}

}  // namespace sluice::engine
