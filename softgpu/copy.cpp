// SPDX-License-Identifier: Apache-2.0
// Moving bytes.
#include "copy.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

#include "device.h"
#include "machine.h"
#include "refusal.h"

namespace sluice::softgpu {

namespace {

// A real driver stages pageable sources up to this size and returns; beyond it waits for the stream.
constexpr std::uint64_t staged_at_most = std::uint64_t{64} << 10U;

std::uint64_t size_of(const Place& place) {
  std::uint64_t size = 0;
  for (const Place::Piece& piece : place.pieces) size += piece.size;
  return size;
}

// Over the link where one end is the host and the other is not.
void carry_out(const Place& to, const Place& from) {
  const auto work = [&] { move_bytes(to, from); };
  if (to.side == Side::device && from.on_host()) {
    machine().devices[static_cast<std::size_t>(to.device)]->over_the_link(Direction::to_device, size_of(to), work);
  } else if (from.side == Side::device && to.on_host()) {
    machine().devices[static_cast<std::size_t>(from.device)]->over_the_link(Direction::to_host, size_of(to), work);
  } else {
    work();
  }
}

// As an H200's driver sorts them. A batch goes by engines where each of its copies would.
Queue queue_of(const Place& to, const Place& from) {
  constexpr std::uint64_t by_engine = 28000;  // 24,576 bytes go among the kernels, 28,672 by an engine
  if (to.on_host() && from.side == Side::device) return Queue::to_host;
  const bool is_to_device = to.side == Side::device && from.on_host();
  return is_to_device && (to.rows > 1 || size_of(to) >= by_engine) ? Queue::to_device : Queue::of_kernels;
}

bool must_wait(const Place& to, const Place& from, CopyCall call) {
  if (to.side == Side::pageable_host || from.side == Side::pageable_host) return true;
  if (call == CopyCall::asynchronous) return false;
  return to.side != Side::device || from.side != Side::device || to.sync_memops || from.sync_memops;
}

// The place's bytes in a buffer of our own, so that the caller may reuse its own at once.
std::shared_ptr<void> stage(Place& from) {
  auto staged = std::make_shared<std::vector<std::byte>>(from.pieces.front().bytes,
                                                         from.pieces.front().bytes + from.pieces.front().size);
  from.pieces.front().bytes = staged->data();
  return staged;
}

// What drivers do with little out of pageable memory: the call returns when the bytes have been taken, and the device
// has them a little later.
constexpr auto lateness = std::chrono::microseconds(300);

bool may_be_late(const Place& to, const Place& from) {
  return machine().knobs.late_copies && to.side == Side::device && !to.sync_memops &&
         from.side == Side::pageable_host && from.pieces.size() == 1 && from.pieces.front().size <= staged_at_most;
}

class LateCopies {
 public:
  void add(std::shared_ptr<Completion> copy) {
    const std::lock_guard lock(mutex_);
    copies_.push_back(std::move(copy));
  }
  void wait() {
    const std::lock_guard lock(mutex_);  // held while waiting: another thread may ask for the same ones
    for (const auto& copy : copies_) copy->wait();
    copies_.clear();
  }

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<Completion>> copies_;
};

// Never destroyed: streams may still be at work while the process ends.
LateCopies& late_copies() {
  static auto* const copies = new LateCopies;
  return *copies;
}

}  // namespace

void wait_for_late_copies() {
  late_copies().wait();
}

void move_bytes(const Place& to, const Place& from) {
  std::size_t source = 0;
  std::uint64_t taken = 0;
  for (const Place::Piece& target : to.pieces) {
    std::uint64_t filled = 0;
    while (filled < target.size) {
      const Place::Piece& piece = from.pieces[source];
      const std::uint64_t size = std::min(target.size - filled, piece.size - taken);
      std::memmove(target.bytes + filled, piece.bytes + taken, size);
      filled += size;
      taken += size;
      if (taken == piece.size) {
        ++source;
        taken = 0;
      }
    }
  }
}

void copy(const StreamUse& use, Place to, Place from, CopyCall call) {
  if (call == CopyCall::synchronous) use.workspace->streams().require_not_captured(*use.stream);
  if (use.captured()) {  // nothing moves now, and pageable memory is read at the replay
    use.submit([to = std::move(to), from = std::move(from)] { carry_out(to, from); });
    return;
  }
  use.workspace->wait_while_brought_to_rest();
  const bool wait = must_wait(to, from, call);
  if (call == CopyCall::synchronous && may_be_late(to, from) && use.idle()) {
    const std::shared_ptr<void> staged = stage(from);
    late_copies().add(use.submit([to = std::move(to), from = std::move(from), staged] {
      std::this_thread::sleep_for(lateness);
      carry_out(to, from);
    }));
    return;
  }
  if (wait && use.idle()) {  // nothing to wait for: the calling thread does it itself
    carry_out(to, from);
    return;
  }
  if (call == CopyCall::asynchronous && from.side == Side::pageable_host && to.side != Side::pageable_host &&
      from.pieces.size() == 1 && from.pieces.front().size <= staged_at_most) {
    const std::shared_ptr<void> staged = stage(from);
    const Queue queue = queue_of(to, from);
    use.submit([to = std::move(to), from = std::move(from), staged] { carry_out(to, from); }, {}, queue);
    return;
  }
  const Queue queue = queue_of(to, from);
  const auto done = use.submit([to = std::move(to), from = std::move(from)] { carry_out(to, from); }, {}, queue);
  if (wait) use.wait(*done);
}

void copy_batch(const StreamUse& use, std::vector<PlannedCopy> copies) {
  use.workspace->wait_while_brought_to_rest();
  bool wait = false;
  Queue queue = queue_of(copies.front().to, copies.front().from);
  for (const PlannedCopy& planned : copies) {
    if (queue_of(planned.to, planned.from) == Queue::of_kernels) queue = Queue::of_kernels;
    const bool pageable = planned.from.side == Side::pageable_host || planned.to.side == Side::pageable_host;
    wait = wait || (pageable && planned.source == cuda::source_during_call);
  }
  const auto done = use.submit(
      [copies = std::move(copies)] {
        for (const PlannedCopy& planned : copies) carry_out(planned.to, planned.from);
      },
      {}, queue);
  if (wait) use.wait(*done);
}

void fill(const StreamUse& use, std::uint64_t address, Pattern pattern, std::uint64_t count, CopyCall call) {
  if (count == 0) return;
  require(address % pattern.width == 0);
  Place place = device_place(address, count * pattern.width);
  const bool wait = call == CopyCall::synchronous && (place.side != Side::device || place.sync_memops);
  const auto done = use.submit([place = std::move(place), pattern] {
    for (const Place::Piece& piece : place.pieces) {
      if (pattern.width == 1) {
        std::memset(piece.bytes, static_cast<int>(pattern.value & 0xffU), piece.size);
        continue;
      }
      for (std::uint64_t at = 0; at < piece.size; at += pattern.width) {
        std::memcpy(piece.bytes + at, &pattern.value, pattern.width);
      }
    }
  });
  if (wait) use.wait(*done);
}

}  // namespace sluice::softgpu
