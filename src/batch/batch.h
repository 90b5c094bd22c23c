// SPDX-License-Identifier: Apache-2.0
// A batch: entries that wait, entries that a thread is at, events that wait to be collected, each once. All its memory
// is there from the start, but for what groups travel with (class_queue.h), which is made with its first use and kept.
// Any number of threads may use it at a time.
#pragma once

#include <time.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/event_count.h"
#include "batch/class_queue.h"
#include "batch/entry.h"
#include "cufile.h"
#include "process/process.h"
#include "process/run_queue.h"
#include "process/slot_table.h"
#include "workers/work_queue.h"

namespace sluice::batch {

class Batch {
 public:
  static constexpr unsigned most_entries = 65535;  // slots are numbers of 16 bits

  // Which entries have an event. One that a cancel came before has none, as with NVIDIA's library, unless a program
  // asks for all: `sluice.batch_all_events`.
  enum class Events : std::uint8_t { of_what_ended_by_itself, of_all };

  Batch(process::Process& process, unsigned capacity, Events events);

  // The batch's own handle; set by its table before another thread knows it.
  void set_handle(void* handle) noexcept { handle_ = handle; }
  void* handle() const noexcept { return handle_; }
  Events tells() const noexcept { return tells_; }
  std::size_t capacity() const noexcept { return capacity_; }

  // Room for a submission: free entries, to be filled. They go back unless enqueue() takes them.
  class Room {
   public:
    Room(Batch& batch, std::size_t count) noexcept;
    ~Room();
    Room(const Room&) = delete;
    Room& operator=(const Room&) = delete;
    explicit operator bool() const noexcept { return there_; }
    std::size_t count() const noexcept { return count_; }
    Entry& entry(std::size_t number) noexcept { return batch_.entries_[slots()[number]]; }
    // False: the batch is being destroyed.
    bool enqueue() noexcept;

   private:
    std::uint16_t* slots() noexcept { return many_ ? many_.get() : few_.data(); }

    Batch& batch_;
    std::size_t count_ = 0;
    bool there_ = false;
    std::array<std::uint16_t, most_in_a_batch> few_;
    std::unique_ptr<std::uint16_t[]> many_;  // where that is too little
  };

  // Begins what has waited longest and carries it to its event, on this thread: those that are coalesced first. False
  // when nothing waits that this thread could begin.
  bool run_some() noexcept {
    return run_cached() || run_group(GroupClass::direct) || run_group(GroupClass::disk) ||
           run_group(GroupClass::write) || run_one();
  }
  // Only entries that wait for no disk.
  bool run_cached() noexcept { return run_group(GroupClass::cached); }
  unsigned ready() const noexcept { return waiting_count_.load(std::memory_order_relaxed); }
  bool has_waiting() const noexcept { return ready() > 0; }

  // Entries that have not been begun end here. None that is outstanding has an event any more, not even where it has
  // ended before; what was begun goes on to its end, and keeps its room until then. False: none is outstanding.
  bool cancel() noexcept;
  // So many entries have ended without an event since they were cancelled.
  unsigned cancelled_count() noexcept;
  // The same, and there are no submissions any more. What was begun may still wait for a thread to go on with it.
  void end() noexcept;

  // Moves up to into.size() events out, after waiting for `least` of them (never for more than are outstanding).
  // `timeout` nullopt waits for ever, and helps meanwhile. The number of events written.
  std::size_t collect(std::size_t least, std::span<CUfileIOEvents_t> into,
                      const std::optional<timespec>& timeout) noexcept;

  // A worker takes entry after entry of the batches that wait, and leaves when there is none left.
  using RunQueue = process::RunQueue<Batch>;
  static constexpr workers::Background background = workers::Background::batches;
  static void run_helper(RunQueue& queue) noexcept;
  process::RunQueueLink<Batch> link;

 private:
  friend class Room;
  struct Waited {
    std::size_t written = 0;
    bool enough = false;
    bool for_all = false;  // nothing that is outstanding would be too much
    unsigned missing = 0;  // events, until it is enough
    std::uint32_t seen = 0;
  };
  bool run_one() noexcept;
  bool run_remainder() noexcept;
  class Notifier;
  bool run_group(GroupClass group_class) noexcept;
  bool carry(Group& group) noexcept;
  ClassQueue& class_queue(GroupClass group_class) noexcept {
    return class_queues_[static_cast<std::size_t>(group_class)];
  }
  void queue(std::span<const std::uint16_t> slots) noexcept;  // with the mutex held
  void count_waiting() noexcept;                              // with the mutex held
  // Entries are through, with their events. Their pins go first: the receiver of the event may deregister.
  void finish(std::span<const std::uint16_t> slots, std::span<const Ending> endings) noexcept;
  bool cancel_waiting(bool and_end) noexcept;
  void drop_events() noexcept;
  bool take_events(std::size_t least, std::span<CUfileIOEvents_t> into, Waited& waited) noexcept;
  bool sleep(const Waited& waited, const std::optional<timespec>& deadline) noexcept;

  process::Process& process_;
  const unsigned capacity_;
  const Events tells_;
  void* handle_ = nullptr;
  std::vector<Entry> entries_;  // a slot each; used by the thread that has taken its number out of free_ or waiting_

  std::mutex mutex_;                 // all below
  std::vector<std::uint16_t> free_;  // a stack
  SlotQueue waiting_;                // each by itself
  std::array<ClassQueue, paths::group_classes> class_queues_;
  std::vector<CUfileIOEvents_t> events_;  // cyclic
  unsigned free_count_;
  unsigned first_event_ = 0;
  unsigned event_count_ = 0;
  unsigned reserved_ = 0;     // taken by submissions that are being checked
  unsigned outstanding_ = 0;  // enqueued, neither ended without an event, nor their events collected
  unsigned cancels_ = 0;      // so far
  unsigned cancelled_ = 0;    // entries
  unsigned sleepers_ = 0;
  unsigned fewest_missing_ = 0;  // of what sleepers wait for: fewer events wake none
  bool ending_ = false;
  std::atomic<unsigned> waiting_count_{0};  // entries that could be begun now; written with the mutex held
  std::atomic<std::uint32_t> posted_{0};    // entries that have ended so far
  base::EventCount event_;
};

class BatchTable : public process::SlotTable<Batch, 0x5d, 4> {};

}  // namespace sluice::batch
