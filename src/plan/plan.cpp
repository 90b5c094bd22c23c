// SPDX-License-Identifier: Apache-2.0
// The life of the parts: waiting, under way, ended. A step is taken under the plan's lock; the work of a part is done
// without it.
#include "plan/plan.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <string>
#include <utility>

#include "base/failure.h"
#include "gpu/session.h"
#include "observe/probes.h"
#include "plan/links_turn.h"
#include "plan/range_places.h"
#include "process/broken_pipe.h"
#include "process/in_flight.h"
#include "request/classifier.h"
#include "request/run.h"
#include "workers/work_queue.h"

namespace sluice::plan {

using base::Failure;
using paths::GroupClass;

namespace {

constexpr unsigned usual_at_a_time = 4;
constexpr unsigned most_at_a_time = 16;
// While one group is carried, the next one is read.
constexpr unsigned usual_groups = 2;

PlanOptions bounded(PlanOptions options) noexcept {
  // One worker is left for others: the plan's storage may not answer.
  const unsigned most = std::min(most_at_a_time, workers::background_worker_count() - 1);
  options.at_a_time = std::min(options.at_a_time == 0 ? usual_at_a_time : options.at_a_time, most);
  return options;
}

}  // namespace

Plan::Plan(process::Process& process, std::vector<Range> ranges, const PlanOptions& options)
    : process_(process),
      ranges_(std::move(ranges)),
      order_(order_of(ranges_)),
      options_(bounded(options)),
      items_(ranges_) {}

request::Call Plan::call_of(const Range& range) const noexcept {
  return {options_.direction,
          range.handle,
          reinterpret_cast<const void*>(range.address),
          range.size,
          static_cast<off_t>(range.at),
          0};
}

void Plan::run_helper(RunQueue& queue) noexcept {
  PlanTable& plans = process::Process::instance().plans();
  const PlanTable::Pin plan = queue.next([&](const Plan& next) { return plans.pin(next.handle()); });
  if (!plan) return;
  // Another worker is to come for what is left: this one may have to wait for its storage.
  if (plan->ready() > 1 || queue.has_waiting_besides(*plan)) static_cast<void>(queue.call_workers(1));
  plan->run_some();
  // This worker is to come again, or another one.
  if (plan->has_waiting()) {
    static_cast<void>(queue.schedule(*plan));
  } else if (queue.has_waiting()) {
    static_cast<void>(queue.call_workers(1));
  }
}

// Outside the lock: looking at much memory takes a while.
void Plan::take_hold(Held& held) {
  RangePlaces places(process_, options_.direction);
  const std::vector<Cut> cuts = cut(ranges_, order_, places);
  held.parts = std::make_unique<Part[]>(cuts.size());
  held.count = static_cast<std::uint32_t>(cuts.size());
  held.left.reserve(cuts.size());
  held.units.resize(std::min<std::size_t>(options_.at_a_time, std::max<std::size_t>(cuts.size(), 1)));
  held.units.front() = std::make_unique<Unit>();  // the others are made where there is memory for them
  request::Classifier classifier(process_, cuts.size());
  for (std::uint32_t i = 0; i < held.count; ++i) {
    Part& part = held.parts[i];
    part.cut = cuts[i];
    const std::uint32_t number = order_[part.cut.first];
    const Range& range = ranges_[number];
    part.file = classifier.file_of(range.handle);
    if (!part.file) {
      throw Failure(CU_FILE_HANDLE_NOT_REGISTERED,
                    "range " + std::to_string(number) + ": its file was deregistered; nothing was begun");
    }
    request::Call call = call_of({range.handle, range.at + part.cut.begin, range.address + part.cut.begin, 0});
    call.size = part.cut.size;
    part.item = {call, &*part.file};
    classifier.look_at(part);
    if (part.cut.count == 1 && part.item.known == nullptr) part.lent_to = places.lent_to(range);
  }
}

void Plan::submit() {
  {
    const std::lock_guard lock(mutex_);
    if (stage_ != Stage::made) throw Failure(CU_FILE_INVALID_VALUE, "the plan was submitted before");
    if (cancelled_) throw Failure(CU_FILE_INVALID_VALUE, "the plan was cancelled before");
    stage_ = Stage::submitting;
  }
  Held held;
  try {
    take_hold(held);
  } catch (...) {
    bool cancelled = false;
    {
      const std::lock_guard lock(mutex_);
      stage_ = Stage::made;
      cancelled = cancelled_;
    }
    if (cancelled) cancel();
    throw;
  }
  observe::plan_submit(handle(), ranges_.size(), items_.bytes());
  bool cancelled = false;
  {
    const std::lock_guard lock(mutex_);
    held_ = std::move(held);
    for (std::uint32_t i = 0; i < held_.count; ++i) {
      const Cut& cut = held_.parts[i].cut;
      for (std::uint32_t range = 0; range < cut.count; ++range) items_.expect_part(order_[cut.first + range]);
    }
    queued_ = process::queue_number();
    stage_ = Stage::submitted;
    cancelled = cancelled_;
    items_.begin();
    tell();
  }
  if (cancelled) return cancel();
  if (RunQueue::instance().schedule(*this)) return;
  while (run_some(InLine::no)) {
  }
}

void Plan::ask_again() noexcept {
  if (ask_again_by_workers()) return;
  while (run_some(InLine::no)) {
  }
}

bool Plan::ask_again_by_workers() noexcept {
  {
    const std::lock_guard lock(mutex_);
    will_be_notified_ = false;
    count_ready();
  }
  return !has_waiting() || RunQueue::instance().schedule(*this);
}

sluice_plan_state_t Plan::state() noexcept {
  const std::lock_guard lock(mutex_);
  return state_locked();
}

sluice_plan_state_t Plan::state_locked() const noexcept {
  if (stage_ == Stage::made && !cancelled_) return SLUICE_PLAN_MADE;
  return items_.have_all_ended() ? SLUICE_PLAN_ENDED : SLUICE_PLAN_RUNNING;
}

// What a group has left comes first.
Plan::Part* Plan::next_waiting() noexcept {
  if (!held_.left.empty() && may_begin(held_.parts[held_.left.back()])) return &held_.parts[held_.left.back()];
  if (next_ < held_.count && may_begin(held_.parts[next_])) return &held_.parts[next_];
  return nullptr;
}

// A buffered file has one writer at a time, and a drive as many groups as are good for it.
bool Plan::may_begin(const Part& part) const noexcept {
  if (part.item.known == nullptr) return true;
  const paths::Grouping& grouping = part.known.grouping;
  const bool reads_through_staging =
      grouping.group_class == GroupClass::cached || grouping.group_class == GroupClass::disk;
  const unsigned most = std::max<unsigned>(grouping.max_groups, reads_through_staging ? usual_groups : 1);
  const auto alike = std::count_if(held_.units.begin(), held_.units.end(), [&](const std::unique_ptr<Unit>& unit) {
    return unit && unit->busy && unit->is_group && request::can_go_together(unit->first, part.known);
  });
  return alike < static_cast<std::ptrdiff_t>(most);
}

Plan::Unit* Plan::idle_unit() noexcept {
  for (std::unique_ptr<Unit>& unit : held_.units) {
    if (!unit) unit.reset(new (std::nothrow) Unit);
    if (unit && !unit->busy) return unit.get();
  }
  return nullptr;
}

void Plan::count_ready() noexcept {
  unsigned ready = 0;
  if (!will_be_notified_ && next_waiting() != nullptr) {
    const auto busy = std::count_if(held_.units.begin(), held_.units.end(),
                                    [](const std::unique_ptr<Unit>& unit) { return unit && unit->busy; });
    const std::size_t waiting = held_.left.size() + (held_.count - next_);
    ready = static_cast<unsigned>(std::min(held_.units.size() - static_cast<std::size_t>(busy), waiting));
  }
  ready_.store(ready, std::memory_order_relaxed);
}

// The next part, and those behind it that may go with it.
Plan::Unit* Plan::claim(InLine in_line) noexcept {
  const std::lock_guard lock(mutex_);
  if (will_be_notified_ && in_line == InLine::yes) return nullptr;
  Unit* const unit = idle_unit();
  Part* const first = unit != nullptr ? next_waiting() : nullptr;
  if (first == nullptr) return nullptr;
  LinksLine* const line =
      in_line == InLine::yes && first->lent_to >= 0 ? &process_.plans().line_to(first->lent_to) : nullptr;
  const std::uint64_t number_in_line = line != nullptr ? line->enter(handle_) : LinksLine::none;
  if (line != nullptr && number_in_line == LinksLine::none) {
    will_be_notified_ = true;
    count_ready();
    return nullptr;
  }
  unit->line = line;
  unit->number = number_in_line;
  const bool of_left = !held_.left.empty() && first == &held_.parts[held_.left.back()];
  unit->busy = true;
  unit->count = 0;
  unit->is_group = first->item.known != nullptr;
  if (unit->is_group) unit->first = first->known;
  std::uint64_t bytes = 0;
  const std::size_t most =
      unit->is_group ? std::min(paths::most_in_a_group(unit->first.grouping.group_class), most_in_a_group) : 1;
  while (unit->count < most && (of_left ? !held_.left.empty() : next_ < held_.count)) {
    const std::uint32_t number = of_left ? held_.left.back() : next_;
    const Part& part = held_.parts[number];
    const bool joins = unit->count == 0 || (part.item.known != nullptr && bytes + part.cut.size <= part_bytes &&
                                            request::can_go_together(unit->first, part.known));
    if (!joins) break;
    if (of_left) {
      held_.left.pop_back();
    } else {
      ++next_;
    }
    bytes += part.cut.size;
    unit->parts[unit->count++] = number;
  }
  count_ready();
  return unit;
}

bool Plan::run_some(InLine in_line) noexcept {
  if (!has_waiting()) return false;
  const process::BrokenPipeHeld held;  // its file may have been registered since the caller came in
  const process::InFlight in_flight;   // before the look at what may begin
  Unit* const unit = claim(in_line);
  if (unit == nullptr) return false;
  std::optional<LinksTurn> turn;
  if (unit->line != nullptr) turn.emplace(process_.plans(), *unit->line, unit->number);
  if (turn && process::may_begin(queued_)) turn->wait();
  if (process::may_begin(queued_) && (!turn || !is_cancelled())) {
    const gpu::UrgentCopies urgent(options_.for_streams);
    std::optional<LinksTurn::Moving> moving;
    if (turn) moving.emplace(*turn);
    if (unit->is_group) {
      carry_group(*unit);
    } else {
      carry_alone(held_.parts[unit->parts[0]]);
    }
  } else {
    end_cancelled(std::span(unit->parts).first(unit->count));
  }
  turn.reset();
  bool cancelled = false;
  {
    const std::lock_guard lock(mutex_);
    unit->busy = false;
    cancelled = cancelled_;
    count_ready();
  }
  if (cancelled) cancel();  // what a group has left
  return true;
}

// Parts of a group that are in place while others are on their way.
class Plan::Notifier final : public request::Completion {
 public:
  Notifier(Plan& plan, Unit& unit) noexcept : plan_(plan), unit_(unit) {}
  void ended(std::span<const std::uint16_t> numbers) noexcept override {
    for (const std::uint16_t number : numbers) {
      Part& part = plan_.held_.parts[unit_.parts[unit_.slots[number]]];
      if (part.item.outcome.count() < part.cut.size) continue;  // looked at when the group is through
      unit_.told[number] = true;
      plan_.end_part(part, {part.cut.size, 0, false});
    }
  }

 private:
  Plan& plan_;
  Unit& unit_;
};

void Plan::carry_group(Unit& unit) noexcept {
  if (!unit.carrier) unit.carrier.reset(new (std::nothrow) request::Group);
  if (!unit.carrier) {
    for (unsigned i = 0; i < unit.count; ++i) {
      Part& part = held_.parts[unit.parts[i]];
      part.item.known = nullptr;
      carry_alone(part);
    }
    return;
  }
  for (unsigned i = 0; i < unit.count; ++i) {
    unit.items[i] = &held_.parts[unit.parts[i]].item;
    unit.slots[i] = static_cast<std::uint16_t>(i);
    unit.told[i] = false;
  }
  const std::span items = std::span(unit.items).first(unit.count);
  const std::size_t fit = unit.carrier->part_as_submitted(items, std::span(unit.slots).first(unit.count));
  if (fit > 0) {
    Notifier notifier(*this, unit);
    request::run(process_, items.first(fit), {.caller = request::Caller::plan, .group = unit.carrier.get()}, notifier);
  }
  for (unsigned i = 0; i < unit.count; ++i) {
    if (unit.told[i]) continue;
    const std::uint32_t number = unit.parts[unit.slots[i]];
    Part& part = held_.parts[number];
    if (part.item.ended) {
      settle(part);
      continue;
    }
    const std::lock_guard lock(mutex_);
    held_.left.push_back(number);
  }
}

void Plan::carry_alone(Part& part) noexcept {
  static_cast<void>(request::run(process_, part.item, {.caller = request::Caller::plan}));
  settle(part);
}

// It has ended, as far as it got. What came short is asked for the rest: where there is an error, it is told; and of
// several ranges each has to hear of its own.
void Plan::settle(Part& part) noexcept {
  Arrival arrival{part.item.outcome.count(), part.item.outcome.error(), false};
  if (arrival.there == part.cut.size) return end_part(part, arrival);
  if (part.cut.count > 1) return carry_apart(part);
  if (arrival.there > 0) go_on(part.item.call, part, arrival);
  end_part(part, arrival);
}

// Until nothing more comes.
void Plan::go_on(const request::Call& call, const Part& part, Arrival& arrival) noexcept {
  while (arrival.error == 0 && arrival.there < call.size) {
    request::Item rest{request::rest_of(call, arrival.there), &*part.file};
    const base::Outcome outcome = request::run(process_, rest, {.caller = request::Caller::plan});
    arrival.there += outcome.count();
    arrival.error = outcome.error();
    if (outcome.count() == 0) return;
  }
}

// Ranges of a part by themselves, from where it came short.
void Plan::carry_apart(Part& part) noexcept {
  std::uint64_t in_place = part.item.outcome.count();
  for (std::uint32_t i = 0; i < part.cut.count; ++i) {
    const std::uint32_t number = order_[part.cut.first + i];
    const Range& range = ranges_[number];
    Arrival arrival{std::min(in_place, range.size), 0, false};
    in_place -= arrival.there;
    if (arrival.there < range.size) {
      arrival.cancelled = is_cancelled();
      if (!arrival.cancelled) go_on(call_of(range), part, arrival);
    }
    const std::lock_guard lock(mutex_);
    items_.has_come(number,
                    {0, range.size, arrival.there, arrival.error, part.item.path, part.item.reason, arrival.cancelled});
  }
  part.registration = {};
  part.file = {};
  const std::lock_guard lock(mutex_);
  tell();
}

// Its pins go first: who is told may deregister.
void Plan::end_part(Part& part, const Arrival& arrival) noexcept {
  part.registration = {};
  part.file = {};
  const std::lock_guard lock(mutex_);
  count_in(part, arrival);
  tell();
}

void Plan::count_in(const Part& part, const Arrival& arrival) noexcept {
  std::uint64_t left = arrival.there;
  for (std::uint32_t i = 0; i < part.cut.count; ++i) {
    const std::uint32_t number = order_[part.cut.first + i];
    const std::uint64_t wanted = part.cut.count == 1 ? part.cut.size : ranges_[number].size;
    const std::uint64_t there = std::min(left, wanted);
    left -= there;
    const bool whole = there == wanted;
    items_.has_come(number, {part.cut.begin, wanted, there, whole ? 0 : arrival.error, part.item.path, part.item.reason,
                             arrival.cancelled && !whole});
  }
}

void Plan::end_cancelled(std::span<const std::uint32_t> numbers) noexcept {
  for (const std::uint32_t number : numbers) {
    held_.parts[number].registration = {};
    held_.parts[number].file = {};
  }
  const std::lock_guard lock(mutex_);
  for (const std::uint32_t number : numbers) {
    const Part& part = held_.parts[number];
    count_in(part, {part.item.progress.there, 0, true});
  }
  tell();
}

// With the mutex held.
void Plan::tell() noexcept {
  items_.tell();
  count_ready();
  const std::uint64_t ended = items_.ended();
  const std::uint64_t more = ended - told_;
  if (more == 0) return;
  told_ = ended;
  if (eventfd_) {
    // It cannot fail: the descriptor is ours, and the count never comes near its limit.
    [[maybe_unused]] const ssize_t written = ::write(eventfd_.get(), &more, sizeof more);
  }
  if (items_.have_all_ended()) observe::plan_done(handle(), ended, items_.bytes_in_place());
}

bool Plan::is_cancelled() noexcept {
  const std::lock_guard lock(mutex_);
  return cancelled_;
}

// In portions, so that their numbers need no memory.
void Plan::cancel() noexcept {
  std::array<std::uint32_t, 256> taken;
  for (std::size_t count = taken.size(); count == taken.size();) {
    count = 0;
    {
      const std::lock_guard lock(mutex_);
      cancelled_ = true;
      if (stage_ == Stage::made && !items_.have_all_ended()) {
        for (std::uint32_t i = 0; i < ranges_.size(); ++i) {
          items_.expect_part(i);
          items_.has_come(i, {0, ranges_[i].size, 0, 0, SLUICE_PATH_POSIX, SLUICE_REASON_HOST_MEMORY, true});
        }
        tell();
      }
      for (; count < taken.size() && !held_.left.empty(); held_.left.pop_back()) taken[count++] = held_.left.back();
      while (count < taken.size() && next_ < held_.count) taken[count++] = next_++;
      count_ready();
    }
    if (count > 0) end_cancelled(std::span(taken).first(count));
  }
}

bool Plan::wait_for_item(std::size_t item, const std::optional<timespec>& deadline) noexcept {
  for (bool in_time = true;;) {
    const std::uint32_t seen = items_.front()->event.now();
    {
      const std::lock_guard lock(mutex_);
      if (items_.has_ended(item)) return true;
    }
    if (!in_time) return false;
    in_time = items_.front()->event.wait_beyond(seen, deadline);
  }
}

sluice_plan_counts_t Plan::progress() noexcept {
  const std::lock_guard lock(mutex_);
  sluice_plan_counts_t progress{};
  items_.fill(progress);
  progress.state = state_locked();
  return progress;
}

void Plan::results(std::size_t first, std::span<sluice_item_result_t> into) noexcept {
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < into.size(); ++i) into[i] = items_.result_of(first + i);
}

int Plan::eventfd() {
  const std::lock_guard lock(mutex_);
  if (eventfd_) return eventfd_.get();
  eventfd_ = base::UniqueFd(
      ::eventfd(static_cast<unsigned>(std::min<std::uint64_t>(told_, UINT32_MAX)), EFD_CLOEXEC | EFD_NONBLOCK));
  if (!eventfd_) throw Failure(CU_FILE_INTERNAL_ERROR, "no descriptor for an eventfd is to be had", errno);
  return eventfd_.get();
}

}  // namespace sluice::plan
