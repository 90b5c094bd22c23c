// SPDX-License-Identifier: Apache-2.0
// The life of the entries: free, waiting, begun, event, free. A step is taken under the batch's lock; the work of an
// entry is done without it.
#include "batch/batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>
#include <numeric>
#include <utility>

#include "base/deadline.h"
#include "base/spin_backoff.h"
#include "observe/log.h"
#include "observe/probes.h"
#include "process/broken_pipe.h"
#include "process/in_flight.h"
#include "request/answer.h"
#include "request/run.h"
#include "workers/work_queue.h"

namespace sluice::batch {

namespace {

// As long as that a waiting thread looks around before it sleeps: small submissions are done by then.
constexpr auto short_while = std::chrono::microseconds(30);

// What an earlier group has put in place of it stays there, and is told.
Ending cancelled(const Entry& entry) noexcept {
  return {CUFILE_CANCELED, static_cast<std::int64_t>(entry.item.progress.there)};
}

// What an event says: the bytes, or why there are none.
std::size_t told(const Entry& entry, const Ending& ending) noexcept {
  if (ending.status != CUFILE_FAILED) return static_cast<std::size_t>(ending.result);
  return static_cast<std::size_t>(-std::int64_t{request::answer_to(entry.item.call, static_cast<int>(-ending.result))});
}

// Some programs never look at an event's status: the log has the cause, too.
void log_failure(const Entry& entry, const Ending& ending) noexcept {
  if (!observe::log_enabled(config::LogLevel::error)) return;
  try {
    const int error = static_cast<int>(-ending.result);
    const char* const system = error < CUFILEOP_BASE_ERR ? ::strerrordesc_np(error) : nullptr;
    observe::log(config::LogLevel::error, "batch",
                 fmt::format("entry {} of a submission failed: {} ({})", entry.number,
                             system != nullptr ? system : CUFILE_ERRSTR(error), error));
  } catch (...) {  // NOLINT(bugprone-empty-catch): no memory for a log line is no reason to lose the event
  }
}
inline void log_if_failed(const Entry& entry, const Ending& ending) noexcept {
  if (ending.status == CUFILE_FAILED) [[unlikely]]
    log_failure(entry, ending);
}

}  // namespace

Batch::Batch(process::Process& process, unsigned capacity, Events events)
    : process_(process),
      capacity_(std::min(capacity, most_entries)),
      tells_(events),
      entries_(capacity_),
      free_(capacity_),
      waiting_(capacity_),
      class_queues_{
          ClassQueue(entries_, capacity_, GroupClass::cached), ClassQueue(entries_, capacity_, GroupClass::direct),
          ClassQueue(entries_, capacity_, GroupClass::disk), ClassQueue(entries_, capacity_, GroupClass::write)},
      events_(capacity_),
      free_count_(capacity_) {
  // The slots that were used last come first: their memory is in a cache.
  std::iota(free_.rbegin(), free_.rend(), std::uint16_t{0});
}

void Batch::queue(std::span<const std::uint16_t> slots) noexcept {
  for (const std::uint16_t slot : slots) {
    request::Item& item = entries_[slot].item;
    const GroupClass group_class = entries_[slot].group_class();
    if (group_class != GroupClass::none && class_queue(group_class).has_a_group()) {
      class_queue(group_class).push(slot);
    } else {
      item.known = nullptr;
      waiting_.push(slot);
    }
  }
}

// What waits for others is not counted: a look for work would be in vain, again and again.
void Batch::count_waiting() noexcept {
  unsigned count = waiting_.count();
  for (ClassQueue& class_queue : class_queues_) count += class_queue.ready();
  waiting_count_.store(count, std::memory_order_relaxed);
}

void Batch::run_helper(RunQueue& queue) noexcept {
  BatchTable& batches = process::Process::instance().batches();
  const auto next = [&] { return queue.next([&](const Batch& batch) { return batches.pin(batch.handle()); }); };
  for (BatchTable::Pin batch = next(); batch; batch = next()) {
    // This worker may have to wait for the batch's storage, and one that is still to come counts for all batches that
    // are submitted until then: another one is to come for them.
    if (queue.has_waiting_besides(*batch)) static_cast<void>(queue.call_workers(1));
    while (batch->run_some()) {
    }
  }
}

Batch::Room::Room(Batch& batch, std::size_t count) noexcept : batch_(batch) {
  if (count > few_.size()) {
    if (count > batch.capacity_) return;
    many_.reset(new (std::nothrow) std::uint16_t[count]);
    if (!many_) return;
  }
  const std::lock_guard lock(batch.mutex_);
  if (count > batch.capacity_ - batch.outstanding_ - batch.reserved_) return;
  there_ = true;
  count_ = count;
  batch.reserved_ += static_cast<unsigned>(count);
  for (std::size_t i = 0; i < count; ++i) slots()[i] = batch.free_[--batch.free_count_];
}

Batch::Room::~Room() {
  if (count_ == 0) return;
  for (std::size_t i = 0; i < count_; ++i) entry(i) = {};
  const std::lock_guard lock(batch_.mutex_);
  batch_.reserved_ -= static_cast<unsigned>(count_);
  for (std::size_t i = count_; i > 0; --i) batch_.free_[batch_.free_count_++] = slots()[i - 1];
}

bool Batch::Room::enqueue() noexcept {
  const std::lock_guard lock(batch_.mutex_);
  if (batch_.ending_) return false;
  for (std::size_t i = 0; i < count_; ++i) entry(i).cancels = batch_.cancels_;
  batch_.queue({slots(), count_});
  batch_.count_waiting();
  batch_.reserved_ -= static_cast<unsigned>(count_);
  batch_.outstanding_ += static_cast<unsigned>(count_);
  count_ = 0;
  return true;
}

void Batch::finish(std::span<const std::uint16_t> slots, std::span<const Ending> endings) noexcept {
  observe::batch_done(handle(), slots.size());
  {
    process::FileTable::Pin files;
    process::BufferTable::Pin registrations;
    for (const std::uint16_t slot : slots) {
      files.join(std::move(entries_[slot].file));
      registrations.join(std::move(entries_[slot].registration));
    }
  }
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < slots.size(); ++i) {
      free_[free_count_++] = slots[i];
      if (tells_ == Events::of_what_ended_by_itself && entries_[slots[i]].cancels != cancels_) {
        ++cancelled_;
        --outstanding_;
        continue;
      }
      const unsigned place = first_event_ + event_count_++;
      events_[place < capacity_ ? place : place - capacity_] = {entries_[slots[i]].cookie, endings[i].status,
                                                                told(entries_[slots[i]], endings[i])};
    }
    posted_.fetch_add(static_cast<std::uint32_t>(slots.size()), std::memory_order_release);
    wake = sleepers_ > 0 && (event_count_ >= fewest_missing_ || event_count_ == outstanding_);
  }
  if (wake) event_.advance();
}

bool Batch::run_one() noexcept {
  if (!has_waiting()) return false;
  const process::BrokenPipeHeld held;  // its file may have been registered since the caller came in
  const process::InFlight in_flight;   // before the look at what may begin
  std::uint16_t slot = 0;
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.count() == 0) return false;
    slot = waiting_.pop();
    count_waiting();
  }
  Entry& entry = entries_[slot];
  Ending ending = cancelled(entry);
  if (process::may_begin(entry.queued)) {
    static_cast<void>(request::run(process_, entry.item, {.caller = request::Caller::batch}));
    ending = ending_of(entry);
    log_if_failed(entry, ending);
  }
  finish({&slot, 1}, {&ending, 1});
  return true;
}

// Gives entries of a group their events while the others are on their way.
class Batch::Notifier final : public request::Completion {
 public:
  Notifier(Batch& batch, Group& group) noexcept : batch_(batch), group_(group) {}
  void ended(std::span<const std::uint16_t> numbers) noexcept override {
    std::array<std::uint16_t, most_in_a_batch> slots;
    std::array<Ending, most_in_a_batch> endings;
    std::size_t count = 0;
    for (const std::uint16_t number : numbers) {
      const Entry& entry = batch_.entries_[group_.slots[number]];
      group_.notified[number] = true;
      slots[count] = group_.slots[number];
      endings[count] = ending_of(entry);
      log_if_failed(entry, endings[count++]);
    }
    batch_.finish(std::span(slots).first(count), std::span(endings).first(count));
  }

 private:
  Batch& batch_;
  Group& group_;
};

// False: it is too late to begin anything.
bool Batch::carry(Group& group) noexcept {
  const std::span items(group.items.data(), group.count);
  bool begins = true;
  std::uint64_t queued = 0;  // a submission's entries have one number: asking costs a fence
  for (std::size_t i = 0; i < items.size(); ++i) {
    Entry& entry = entries_[group.slots[i]];
    items[i] = &entry.item;
    group.notified[i] = false;
    if (entry.queued != queued) begins = begins && process::may_begin(entry.queued);
    queued = entry.queued;
  }
  if (!begins) return false;
  if (!group.carrier) group.carrier.reset(new (std::nothrow) request::Group);
  if (!group.carrier) {
    for (request::Item* const item : items) item->known = nullptr;
    return true;
  }
  const std::size_t fit = group.carrier->part_as_submitted(items, std::span(group.slots).first(group.count));
  Notifier notifier(*this, group);
  if (fit > 0) {
    request::run(process_, items.first(fit), {.caller = request::Caller::batch, .group = group.carrier.get()},
                 notifier);
  }
  return true;
}

bool Batch::run_group(GroupClass group_class) noexcept {
  if (!has_waiting()) return false;
  const process::BrokenPipeHeld held;  // likewise
  const process::InFlight in_flight;   // before the look at what may begin
  Group* group = nullptr;
  {
    const std::lock_guard lock(mutex_);
    group = class_queue(group_class).claim();
    if (group == nullptr) return false;
    count_waiting();
  }
  const bool begun = carry(*group);
  // Those that were not carried come to the end of a queue, from where they go on in another class.
  std::array<std::uint16_t, most_in_a_batch> left;
  std::array<Ending, most_in_a_batch> endings;
  std::size_t left_count = 0;
  std::size_t carried = 0;
  for (std::size_t i = 0; i < group->count; ++i) {
    if (group->notified[i]) continue;
    const std::uint16_t slot = group->slots[i];
    const Entry& entry = entries_[slot];
    if (begun && !entry.item.ended) {
      left[left_count++] = slot;
      continue;
    }
    endings[carried] = begun ? ending_of(entry) : cancelled(entry);
    if (begun) log_if_failed(entry, endings[carried]);
    group->slots[carried++] = slot;
  }
  finish(std::span(group->slots).first(carried), std::span(endings).first(carried));
  bool ends = false;
  {
    const std::lock_guard lock(mutex_);
    queue(std::span(left).first(left_count));
    class_queue(group_class).give_back(*group);
    count_waiting();
    ends = ending_;
  }
  if (ends) end();
  if (has_waiting()) static_cast<void>(RunQueue::instance().schedule(*this));
  return true;
}

bool Batch::cancel_waiting(bool and_end) noexcept {
  std::array<std::uint16_t, most_in_a_batch> slots;
  std::array<Ending, most_in_a_batch> endings;
  std::size_t count = 0;
  bool first = true;
  bool was_busy = false;
  do {
    count = 0;
    {
      const std::lock_guard lock(mutex_);
      if (and_end) ending_ = true;
      was_busy = was_busy || outstanding_ > 0;
      if (std::exchange(first, false) && !and_end) {
        ++cancels_;
        if (tells_ == Events::of_what_ended_by_itself) drop_events();
      }
      const auto sift = [&](auto& waiting) {
        for (unsigned left = waiting.count(); left > 0 && count < slots.size(); --left) {
          const std::uint16_t slot = waiting.pop();
          if (entries_[slot].item.progress.begun()) {
            waiting.push(slot);  // begun, and left by a group that could not end it
          } else {
            endings[count] = cancelled(entries_[slot]);
            slots[count++] = slot;
          }
        }
      };
      for (ClassQueue& class_queue : class_queues_) sift(class_queue);
      sift(waiting_);
      count_waiting();
    }
    finish(std::span(slots).first(count), std::span(endings).first(count));
  } while (count == slots.size());
  return was_busy;
}

// With the mutex held: also what had ended before is told no more.
void Batch::drop_events() noexcept {
  cancelled_ += event_count_;
  outstanding_ -= event_count_;
  event_count_ = 0;
}

bool Batch::cancel() noexcept {
  return cancel_waiting(false);
}

unsigned Batch::cancelled_count() noexcept {
  const std::lock_guard lock(mutex_);
  return cancelled_;
}

void Batch::end() noexcept {
  cancel_waiting(true);
}

bool Batch::take_events(std::size_t least, std::span<CUfileIOEvents_t> into, Waited& waited) noexcept {
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    const bool any = event_count_ > 0;
    while (waited.written < into.size() && event_count_ > 0) {
      into[waited.written++] = events_[first_event_];
      if (++first_event_ == capacity_) first_event_ = 0;
      --event_count_;
      --outstanding_;
    }
    // Others may wait for more than there is now.
    wake = any && sleepers_ > 0;
    waited.enough = waited.written >= least || outstanding_ == 0;
    waited.missing = static_cast<unsigned>(least - std::min(least, waited.written));
    waited.for_all = waited.missing >= outstanding_;
    waited.seen = posted_.load(std::memory_order_relaxed);
  }
  if (wake) event_.advance();
  return waited.enough;
}

bool Batch::sleep(const Waited& waited, const std::optional<timespec>& deadline) noexcept {
  std::uint32_t news = 0;
  {
    const std::lock_guard lock(mutex_);
    if (posted_.load(std::memory_order_relaxed) != waited.seen || outstanding_ == 0) return true;
    fewest_missing_ = sleepers_ == 0 ? waited.missing : std::min(fewest_missing_, waited.missing);
    ++sleepers_;
    news = event_.now();
  }
  const bool woken = event_.wait_beyond(news, deadline);
  const std::lock_guard lock(mutex_);
  --sleepers_;
  return woken;
}

// What a group of this thread has left may be for this thread to begin: the batch ends, or there are no workers.
bool Batch::run_remainder() noexcept {
  return has_waiting() && !RunQueue::instance().schedule(*this) && run_some();
}

// A thread that waits for all, and for ever, loses nothing by doing some of it.
std::size_t Batch::collect(std::size_t least, std::span<CUfileIOEvents_t> into,
                           const std::optional<timespec>& timeout) noexcept {
  Waited waited;
  if (take_events(least, into, waited) || (timeout && base::is_nothing(*timeout))) return waited.written;
  const std::optional<timespec> deadline = timeout ? std::optional(base::deadline_after(*timeout)) : std::nullopt;
  bool helped = false;
  for (bool in_time = true; in_time;) {
    if (!timeout && (waited.for_all ? run_some() : run_cached() || (helped && run_remainder()))) {
      helped = true;
      if (take_events(least, into, waited)) break;
      continue;
    }
    const auto until = std::chrono::steady_clock::now() + short_while;
    while (workers::worker_count() > 0 && posted_.load(std::memory_order_acquire) == waited.seen &&
           std::chrono::steady_clock::now() < until) {
      base::pause(16);
    }
    in_time = sleep(waited, deadline);
    if (take_events(least, into, waited)) break;
  }
  while (helped && run_remainder()) {
  }
  return waited.written;
}

}  // namespace sluice::batch
