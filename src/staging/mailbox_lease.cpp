// A combined launch: a thread puts its box into the row's list of ready ones. The first that finds no combiner becomes
// it, takes the whole list, launches the kernel for it, and combines no more; then it waits for its own box like the
// others. While it launches, the next list grows. So nobody depends on a combiner for longer than a launch, or one
// plain copy.
#include "staging/mailbox_lease.h"

#include "observe/copy_counters.h"
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

int MailboxLease::by_copy(cuda::DevicePtr to, std::size_t length) noexcept {
  observe::count_copy(observe::CopyCounter::bounce_buffer);
  return session_.copy_to_device(to, bytes(to, length));
}

int MailboxLease::by_combined_launch(cuda::DevicePtr to, std::size_t length, OverlapWork overlap) noexcept {
  // A launch that was revoked and has yet to begin makes the box useless to others.
  if (!box_->is_free() || box_->is_cooling_down() || !can_post(to, length)) return by_copy(to, length);
  box_->post(to, length);
  box_->is_slow = false;
  box_->stage.store(Mailbox::Stage::queued, std::memory_order_relaxed);
  std::atomic<Mailbox*>& ready = box_->row->ready;
  box_->next = ready.load(std::memory_order_relaxed);
  // Release: the combiner sees the box as it is now.
  while (!ready.compare_exchange_weak(box_->next, box_, std::memory_order_release, std::memory_order_relaxed)) {
  }
  if (const auto copied = wait_for_combiner(to, length)) return *copied;
  if (box_->stage.load(std::memory_order_relaxed) == Mailbox::Stage::refused ||
      !box_->await(session_, to, how_to_wait(), overlap)) {
    return by_copy(to, length);
  }
  box_->has_served();
  observe::count_copy(observe::CopyCounter::combined_reads);
  return cuda::success;
}

// Until the box has been taken from the list, by this thread or another. With a result where it was the only one.
std::optional<int> MailboxLease::wait_for_combiner(cuda::DevicePtr to, std::size_t length) noexcept {
  std::atomic<bool>& combining = box_->row->combining;
  const auto stage = [&] { return box_->stage.load(std::memory_order_acquire); };
  base::SpinBackoff backoff;
  while (stage() == Mailbox::Stage::queued) {
    if (combining.load(std::memory_order_relaxed) || combining.exchange(true, std::memory_order_acquire)) {
      backoff.wait(how_to_wait());
      continue;
    }
    std::optional<int> copied;
    if (stage() == Mailbox::Stage::queued) {
      combine();
      // Copied while still the combiner: meanwhile others queue up.
      if (stage() == Mailbox::Stage::alone) copied = by_copy(to, length);
    }
    combining.store(false, std::memory_order_release);
    return copied;
  }
  return std::nullopt;
}

void MailboxLease::combine() noexcept {
  MailboxRow& row = *box_->row;
  Mailbox* list = row.ready.exchange(nullptr, std::memory_order_acquire);
  if (list == box_ && box_->next == nullptr) {
    box_->stage.store(Mailbox::Stage::alone, std::memory_order_relaxed);
    return;
  }
  while (list != nullptr) {
    std::array<Mailbox*, gpu::most_served> group{};
    std::array<std::uint8_t, gpu::most_served> indices{};
    std::size_t count = 0;
    for (; list != nullptr && count < group.size(); list = list->next, ++count) {
      group[count] = list;
      indices[count] = list->index;
    }
    const std::uint32_t launch_id = row.next_launch_id();
    const bool launched =
        row.device.launch(std::span(indices).first(count), launch_id, gpu::Stay{}, box_->stream) == cuda::success;
    const auto now = steady_clock::now();
    for (Mailbox* const box : std::span(group).first(count)) {
      box->launch_id = launched ? launch_id : 0;
      box->launched = now;
      // From here on the box is its owner's.
      box->stage.store(launched ? Mailbox::Stage::launched : Mailbox::Stage::refused, std::memory_order_release);
    }
  }
}

int MailboxLease::by_resident(cuda::DevicePtr to, std::size_t length, OverlapWork overlap) noexcept {
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
