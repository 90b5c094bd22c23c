// SPDX-License-Identifier: Apache-2.0
#include "staging/mailbox_lease.h"

#include "observe/copy_counters.h"
#include "observe/probes.h"
#include "stream/channel/stream_channel.h"
#include "workers/work_queue.h"

namespace sluice::staging {

namespace {

using std::chrono::steady_clock;

// A device-wide synchronise waits for a kernel that stays: well below a millisecond.
constexpr gpu::Stay resident_stay{.idle = std::chrono::microseconds(200), .life = std::chrono::microseconds(500)};
// Requests that are further apart than that would launch it each time, which takes longer than a copy.
constexpr std::chrono::nanoseconds soon = resident_stay.idle;

base::WaitMode how_to_wait() noexcept {
  static const unsigned processors = workers::worker_count() + 1;
  return workers::active_counts::small_reads.now() > processors ? base::WaitMode::yield : base::WaitMode::spin;
}

}  // namespace

MailboxLease::~MailboxLease() {
  if (box_ != nullptr) give_back(*box_);
}

// Memory may have gone since it was looked up, as reading the file can take any time: the copy will tell.
bool MailboxLease::can_post(cuda::DevicePtr to, std::size_t length) const noexcept {
  const gpu::Mailboxes& device = box_->row->device;
  if (!device.can_serve()) {
    stream::load_unless_streams_wait(device.kernels());
    return false;
  }
  if (to >= gpu::end_of_targets - gpu::mailbox_bytes || !session_.still_there(to)) return false;
  // A kernel that touches what is not there ends the program's context, and what was mapped piece by piece may have
  // gone piece by piece.
  constexpr std::uint64_t smallest_mapping = std::uint64_t{2} << 20U;
  const bool in_one = to / smallest_mapping == (to + length - 1) / smallest_mapping;
  return in_one || gpu::contiguous_bytes(to, length) == length;
}

cuda::Result MailboxLease::by_copy(cuda::DevicePtr to, std::size_t length) noexcept {
  observe::count_copy(observe::CopyCounter::bounce_buffer);
  return session_.copy_to_device(to, bytes(to, length));
}

cuda::Result MailboxLease::by_resident(cuda::DevicePtr to, std::size_t length, OverlapWork overlap) noexcept {
  const observe::PhaseProbe phase(SLUICE_TRACE_COPY, length);
  if (!is_served_by_resident(to, length, overlap)) {
    box_->used = steady_clock::now();
    return by_copy(to, length);
  }
  box_->used = steady_clock::now();
  observe::count_copy(observe::CopyCounter::resident_kernel);
  return cuda::success;
}

bool MailboxLease::is_served_by_resident(cuda::DevicePtr to, std::size_t length, OverlapWork& overlap) noexcept {
  if (box_->is_cooling_down() || !can_post(to, length)) return false;
  if (!box_->is_free()) {
    // Launched, and still waiting for its turn.
    if (!box_->has_begun()) return false;
    box_->post(to, length);
    if (box_->await(session_, to, how_to_wait(), overlap)) return true;
    if (!box_->is_free()) return false;
  } else if (steady_clock::now() - box_->used > soon) {
    return false;
  }
  // It has left, perhaps just now and without having seen what was posted.
  box_->post(to, length);
  box_->launch_id = box_->row->next_launch_id();
  if (box_->row->device.launch({&box_->index, 1}, box_->launch_id, resident_stay, box_->stream) != cuda::success) {
    box_->launch_id = 0;
    return false;
  }
  box_->launched = steady_clock::now();
  box_->is_slow = false;
  if (!box_->await(session_, to, how_to_wait(), overlap)) return false;
  box_->has_served();
  return true;
}

}  // namespace sluice::staging
