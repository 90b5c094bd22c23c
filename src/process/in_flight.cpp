// SPDX-License-Identifier: Apache-2.0
// A record a thread, in a list that only grows; records of ended threads serve new ones. A record's number of turns is
// odd while its thread is inside a transfer, and no number comes twice: so a thread that remembers an odd one sees that
// very transfer end, whatever the thread begins next.
#include "process/in_flight.h"

#include <fmt/format.h>
#include <pthread.h>
#include <time.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <string>

#include "base/processor.h"
#include "base/thread_end.h"
#include "gpu/loading.h"
#include "observe/log.h"
#include "workers/aside.h"

namespace sluice::process {

namespace {

constexpr std::int64_t most_milliseconds = 5000;

struct alignas(base::line_bytes) Record {
  std::atomic<std::uint64_t> turns{0};  // written by the record's thread only
  std::atomic<bool> taken{true};
  std::uint64_t awaited = 0;  // the thread that ends the process only: the odd number that it saw; 0: nothing
  Record* next = nullptr;     // written before the record is published

  bool busy() const noexcept { return (turns.load(std::memory_order_relaxed) & 1) != 0; }
  // Release: a thread that sees the turn end sees the bytes in place.
  void turn() noexcept { turns.store(turns.load(std::memory_order_relaxed) + 1, std::memory_order_release); }
};

std::atomic<Record*> all_records{nullptr};
std::atomic<bool> given_up{false};
std::atomic<std::uint64_t> last_queued{0};
std::atomic<std::uint64_t> ended_up_to{0};  // what was queued until then does not begin any more

// What a thread has. A thread that is ending gives the record back after each transfer.
struct Mine {
  Record* record;  // null: none yet, or there was no memory for one
  unsigned depth;
  unsigned pins;
  bool ending;
};
constinit thread_local Mine mine{};

void give_record_back() noexcept {
  if (mine.record != nullptr) mine.record->taken.store(false, std::memory_order_release);
  mine.record = nullptr;
}

constinit base::ThreadEnd thread_end{[](void*) {
  mine.ending = true;
  if (mine.depth == 0) give_record_back();
}};

Record* take_record() noexcept {
  for (Record* record = all_records.load(std::memory_order_acquire); record != nullptr; record = record->next) {
    bool taken = false;
    if (record->taken.compare_exchange_strong(taken, true, std::memory_order_acquire)) return record;
  }
  auto* const record = new (std::nothrow) Record;
  if (record == nullptr) return nullptr;
  record->next = all_records.load(std::memory_order_relaxed);
  // Release: the record is whole when it is found in the list.
  while (!all_records.compare_exchange_weak(record->next, record, std::memory_order_release)) {
  }
  return record;
}

std::int64_t milliseconds_now() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1000000;
}

// How many of the transfers that were seen first are still going on.
int still_in_flight() noexcept {
  int count = 0;
  for (Record* record = all_records.load(std::memory_order_acquire); record != nullptr; record = record->next) {
    if (record->awaited == 0) continue;
    if (record->turns.load(std::memory_order_acquire) == record->awaited) {
      ++count;
    } else {
      record->awaited = 0;
    }
  }
  return count;
}

// A thread of ours that no transfer waits for is in a call of the driver's.
bool is_in_the_driver() noexcept {
  return gpu::is_loading() || workers::is_aside();
}

void report(int left) noexcept {
  try {
    const std::string what =
        left != 0 ? fmt::format("{} transfer(s) in flight", left) : std::string("a call of the driver's under way");
    observe::log(config::LogLevel::error, "process",
                 fmt::format("the process ends with {}, given {} s to end: its memory is left alone", what,
                             most_milliseconds / 1000));
  } catch (...) {  // NOLINT(bugprone-empty-catch): no memory for a log line is no reason not to end
  }
}

void wait_at_exit() {
  if (given_up.load()) return;
  int before = PTHREAD_CANCEL_ENABLE;
  ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
  // A thread that begins something queued shows itself first and then looks here; this looks for it afterwards. So one
  // of them sees the other.
  ended_up_to.store(last_queued.load(std::memory_order_relaxed), std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (Record* record = all_records.load(std::memory_order_acquire); record != nullptr; record = record->next) {
    const std::uint64_t turns = record->turns.load(std::memory_order_acquire);
    record->awaited = record != mine.record && (turns & 1) != 0 ? turns : 0;
  }
  const std::int64_t deadline = milliseconds_now() + most_milliseconds;
  int left = still_in_flight();
  while ((left != 0 || is_in_the_driver()) && milliseconds_now() < deadline) {
    constexpr timespec moment{0, 200'000};
    ::nanosleep(&moment, nullptr);
    left = still_in_flight();
  }
  if (left != 0 || is_in_the_driver()) {
    given_up.store(true);
    report(left);
  }
  ::pthread_setcancelstate(before, nullptr);
}

}  // namespace

InFlight::InFlight() noexcept {
  if (mine.depth++ != 0) return;
  if (mine.record == nullptr) {
    if (!mine.ending) thread_end.arm();
    mine.record = take_record();
  }
  if (mine.record != nullptr) mine.record->turn();
}

InFlight::~InFlight() {
  if (--mine.depth != 0) return;
  if (mine.record != nullptr) mine.record->turn();
  if (mine.ending) give_record_back();
}

PinScope::PinScope() noexcept {
  ++mine.pins;
}

PinScope::~PinScope() {
  --mine.pins;
}

void wait_for_transfers_at_exit() noexcept {
  // Without room for a handler there is no waiting.
  [[maybe_unused]] const int refused = std::atexit(wait_at_exit);
}

std::uint64_t queue_number() noexcept {
  return last_queued.fetch_add(1, std::memory_order_relaxed) + 1;
}

bool may_begin(std::uint64_t queued) noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return queued > ended_up_to.load(std::memory_order_relaxed);
}

bool waiting_can_end() noexcept {
  return mine.depth == 0 && mine.pins == 0 && !given_up.load(std::memory_order_relaxed);
}

void transfers_after_fork_in_child() noexcept {
  for (Record* record = all_records.load(std::memory_order_acquire); record != nullptr; record = record->next) {
    if (record == mine.record) continue;
    if (record->busy()) record->turn();
    record->taken.store(false, std::memory_order_relaxed);
  }
  gpu::loading_after_fork_in_child();
}

}  // namespace sluice::process
