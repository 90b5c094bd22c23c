// SPDX-License-Identifier: Apache-2.0
// A plan: parts that wait, parts that a thread is at, items that have ended. Its memory is there when it has been
// submitted, but for what groups travel with, which is made with its first use. Any number of threads may use it at a
// time.
//
// A part's memory and file are the plan's until the part has ended: cancelling takes away what has not been begun, and
// nothing else.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/unique_fd.h"
#include "plan/cut.h"
#include "plan/items.h"
#include "plan/links_line.h"
#include "process/process.h"
#include "process/run_queue.h"
#include "process/slot_table.h"
#include "request/group.h"
#include "request/queued.h"
#include "workers/work_queue.h"

namespace sluice::plan {

struct PlanOptions {
  base::Direction direction = base::Direction::read;
  unsigned at_a_time = 0;
  bool for_streams = false;
};

class Plan {
 public:
  Plan(process::Process& process, std::vector<Range> ranges, const PlanOptions& options);

  // The plan's own handle; set by its table before another thread knows it.
  void set_handle(void* handle) noexcept { handle_ = handle; }
  void* handle() const noexcept { return handle_; }
  std::span<const Range> ranges() const noexcept { return ranges_; }
  const PlanOptions& options() const noexcept { return options_; }
  request::Call call_of(const Range& range) const noexcept;

  // Takes hold of files and registrations, and begins. Throws base::Failure; then nothing has happened.
  void submit();
  sluice_plan_state_t state() noexcept;

  // Begins what comes next and carries it to its end, on this thread. False when nothing waits that could begin.
  // Without a line nothing waits for others' plans.
  enum class InLine : std::uint8_t { no, yes };
  bool run_some(InLine in_line = InLine::yes) noexcept;
  // It was kept from something by a line, and may ask again. By workers alone: false where none comes for it.
  void ask_again() noexcept;
  bool ask_again_by_workers() noexcept;
  bool has_waiting() const noexcept { return ready() > 0; }
  unsigned ready() const noexcept { return ready_.load(std::memory_order_relaxed); }

  // What has not been begun ends here.
  void cancel() noexcept;

  // What waits by this needs no pin: the plan may go meanwhile.
  const std::shared_ptr<Front>& front() const noexcept { return items_.front(); }
  bool wait_for_item(std::size_t item, const std::optional<timespec>& deadline) noexcept;
  sluice_plan_counts_t progress() noexcept;
  void results(std::size_t first, std::span<sluice_item_result_t> into) noexcept;
  int eventfd();

  // A worker comes for one plan, does one piece of it, and looks for other work before it comes again: a plan may last
  // for seconds.
  using RunQueue = process::RunQueue<Plan>;
  static constexpr workers::Background background = workers::Background::plans;
  static void run_helper(RunQueue& queue) noexcept;
  process::RunQueueLink<Plan> link;

 private:
  struct Part : request::Queued {
    Cut cut;
    int lent_to = -1;  // the device that others may lend their links to for it
  };
  static constexpr std::size_t most_in_a_group = request::most_in_a_batch;
  // Parts that are under way together, or one.
  struct Unit {
    bool busy = false;
    bool is_group = false;
    LinksLine* line = nullptr;  // that it stands in, and as which one
    std::uint64_t number = LinksLine::none;
    request::Known first;  // what all of a group have in common with

    // Of the thread that has claimed it, until it is given back.
    std::unique_ptr<request::Group> carrier;  // made with its first use
    unsigned count = 0;
    std::array<std::uint32_t, most_in_a_group> parts;
    std::array<std::uint16_t, most_in_a_group> slots;
    std::array<request::Item*, most_in_a_group> items;
    std::array<bool, most_in_a_group> told;
  };
  class Notifier;
  // All that a plan needs once it has begun.
  struct Held {
    std::unique_ptr<Part[]> parts;  // each used by the thread that has taken its number
    std::uint32_t count = 0;
    std::vector<std::uint32_t> left;  // of groups that could not carry them to their end; with room for all
    std::vector<std::unique_ptr<Unit>> units;
  };
  // How far a part has come, and why no further.
  struct Arrival {
    std::uint64_t there = 0;
    int error = 0;
    bool cancelled = false;
  };

  void take_hold(Held& held);
  Unit* claim(InLine in_line) noexcept;
  void carry_group(Unit& unit) noexcept;
  void carry_alone(Part& part) noexcept;
  void settle(Part& part) noexcept;
  void go_on(const request::Call& call, const Part& part, Arrival& arrival) noexcept;
  void carry_apart(Part& part) noexcept;
  void end_part(Part& part, const Arrival& arrival) noexcept;
  void end_cancelled(std::span<const std::uint32_t> numbers) noexcept;
  bool is_cancelled() noexcept;

  // With the mutex held:
  Part* next_waiting() noexcept;
  Unit* idle_unit() noexcept;
  bool may_begin(const Part& part) const noexcept;
  void count_ready() noexcept;
  void count_in(const Part& part, const Arrival& arrival) noexcept;
  void tell() noexcept;
  sluice_plan_state_t state_locked() const noexcept;

  process::Process& process_;
  const std::vector<Range> ranges_;
  const std::vector<std::uint32_t> order_;
  const PlanOptions options_;
  void* handle_ = nullptr;
  std::uint64_t queued_ = 0;  // in_flight.h

  std::mutex mutex_;  // all below
  Items items_;
  enum class Stage : std::uint8_t { made, submitting, submitted } stage_ = Stage::made;
  bool cancelled_ = false;
  bool will_be_notified_ = false;  // by a line
  Held held_;
  std::uint32_t next_ = 0;  // the first part that no thread has taken
  base::UniqueFd eventfd_;
  std::uint64_t told_ = 0;          // items, by the descriptor
  std::atomic<unsigned> ready_{0};  // so many units could begin now; written with the mutex held
};

class PlanTable : public process::SlotTable<Plan, 0x5e, 4> {
 public:
  // Into a device.
  LinksLine& line_to(int device) noexcept { return lines_[static_cast<std::size_t>(device)]; }
  void ask_again(const LinksLine::Plans& plans) noexcept {
    for (void* const handle : plans.all()) {
      if (const Pin plan = pin(handle)) plan->ask_again();
    }
  }
  // Within a transfer. Those that no worker comes for are to ask again behind it.
  [[nodiscard]] LinksLine::Plans call_workers(const LinksLine::Plans& plans) noexcept {
    LinksLine::Plans left;
    for (void* const handle : plans.all()) {
      if (const Pin plan = pin(handle); plan && !plan->ask_again_by_workers()) left.add(handle);
    }
    return left;
  }

  void before_fork() {
    SlotTable::before_fork();
    LinksLine::before_fork();
  }
  void after_fork(bool in_child) {
    if (in_child) std::ranges::for_each(lines_, &LinksLine::forget_all);
    LinksLine::after_fork();
    SlotTable::after_fork(in_child);
  }

 private:
  std::array<LinksLine, gpu::max_devices> lines_;
};

}  // namespace sluice::plan
