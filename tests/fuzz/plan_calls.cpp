// SPDX-License-Identifier: Apache-2.0
// Plans: an actor's own, where every item is known, and what is none.
#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "fuzz/enumerators.h"
#include "fuzz/families.h"
#include "sluice.h"

namespace sluice::fuzz {
namespace {

constexpr std::size_t most_items = 6;

Entrance& plannable(Actor& actor) {
  auto& all = actor.world().entrances();
  for (;;) {
    Entrance& drawn = actor.any(all);
    if (drawn.nature == Nature::truth && drawn.operations == nullptr) return drawn;
  }
}

sluice_plan_t garbage_plan(Actor& actor) {
  return actor.one_in(4) ? nullptr : reinterpret_cast<sluice_plan_t>(actor.any_number() | 1U << 31U);
}

// Memory of the world's, for as long as a plan may touch it.
class Cells {
 public:
  explicit Cells(World& world) : world_(world) {}
  ~Cells() {
    for (const auto& [cell, token] : cells_) World::give_back(*cell, token);
  }
  Cells(const Cells&) = delete;
  Cells& operator=(const Cells&) = delete;

  Cell* take(std::uint64_t draw) {
    const auto taken = world_.take_cell(draw);
    if (!taken) return nullptr;
    cells_.push_back(*taken);
    return taken->first;
  }
  const Cell& operator[](std::size_t index) const { return *cells_[index].first; }
  std::size_t count() const { return cells_.size(); }
  // Another actor is closing the driver, and may not be through: as with a batch that is not listed, the cells are free
  // when no actor holds any more.
  void leave_to_the_close(sluice_plan_t plan) {
    for (const auto& [cell, token] : cells_) cell->batch = reinterpret_cast<CUfileBatchHandle_t>(plan);
    cells_.clear();
    world_.reclaim_cells();
  }

 private:
  World& world_;
  std::vector<std::pair<Cell*, std::uint64_t>> cells_;
};

void check_item(Actor& actor, const sluice_item_result_t& result, const Cell& cell) {
  if (result.state == SLUICE_ITEM_CANCELLED) return;
  if (result.state == SLUICE_ITEM_FAILED) {
    // Only what others may do to it: a range that they registered and that this leaves.
    actor.require(result.error == CU_FILE_INVALID_MAPPING_RANGE || result.error == CU_FILE_HANDLE_NOT_REGISTERED,
                  joined("an item failed with ", result.error));
    return;
  }
  actor.require(result.state == SLUICE_ITEM_DONE, "an ended plan has an item that is waiting");
  const std::size_t left = cell.content->size() - std::min(cell.content->size(), cell.offset);
  const std::size_t wanted = std::min(left, cell.size);
  actor.require(result.bytes == wanted, joined(result.bytes, " bytes, not ", wanted));
  const Bytes found = cell.memory->get(0, wanted);
  actor.require(std::equal(found.begin(), found.end(),
                           cell.content->begin() + static_cast<std::ptrdiff_t>(cell.content->size() - left)),
                "an item brought wrong bytes");
}

// Waits in one of the ways there are, and in the end for all. False when the plan is gone.
bool wait_for_all(Actor& actor, sluice_plan_t plan, std::size_t items) {
  const bool in_turn = actor.world().is_in_turn();
  const timespec soon{0, static_cast<long>(actor.draw(2'000'000))};
  const timespec* const timeout = in_turn ? nullptr : &soon;
  const std::size_t item = actor.draw(items);
  switch (actor.draw(4)) {
    case 0:
      actor.require(actor.call("sluice_plan_wait_item", joined(item),
                               [&] { return sluice_plan_wait_item(plan, item, timeout); }) <= 1,
                    "more than one item has ended");
      break;
    case 1:
      actor.require(actor.call("sluice_plan_wait", joined("the first ", item),
                               [&] { return sluice_plan_wait(plan, item, timeout); }) <= static_cast<long>(item),
                    "more have ended than were asked for");
      break;
    case 2:
      actor.call_only("sluice_plan_eventfd", "", [&] { sluice_plan_eventfd(plan); });
      break;
    default: {
      sluice_explanation_t explanation{};
      actor.expect(actor.call("sluice_plan_explain", joined(item),
                              [&] { return sluice_plan_explain(plan, item, &explanation); }),
                   {CU_FILE_SUCCESS, CU_FILE_INVALID_VALUE, CU_FILE_HANDLE_NOT_REGISTERED});
    }
  }
  const long ended = actor.call("sluice_plan_wait", "all", [&] { return sluice_plan_wait(plan, items, nullptr); });
  actor.require(ended == -1 || ended == static_cast<long>(items), joined(ended, " of ", items, " have ended"));
  return ended != -1;
}

// As far as the plan lives: it goes when the driver is closed.
void run_plan(Actor& actor, sluice_plan_t plan, const Cells& cells) {
  const CUfileError_t submitted = actor.call("sluice_plan_submit", "own", [&] { return sluice_plan_submit(plan); });
  actor.expect(submitted, {CU_FILE_SUCCESS, CU_FILE_INVALID_VALUE, CU_FILE_HANDLE_NOT_REGISTERED});
  if (submitted.err != CU_FILE_SUCCESS) return;
  if (!actor.world().is_in_turn() && actor.one_in(5)) {
    actor.expect(actor.call("sluice_plan_cancel", "own", [&] { return sluice_plan_cancel(plan); }),
                 {CU_FILE_SUCCESS, CU_FILE_INVALID_VALUE});
  }
  if (!wait_for_all(actor, plan, cells.count())) return;
  std::vector<sluice_item_result_t> results(cells.count());
  const CUfileError_t told = actor.call("sluice_plan_results", "all",
                                        [&] { return sluice_plan_results(plan, 0, results.size(), results.data()); });
  actor.expect(told, {CU_FILE_SUCCESS, CU_FILE_INVALID_VALUE});
  if (told.err != CU_FILE_SUCCESS) return;
  for (std::size_t i = 0; i < results.size(); ++i) check_item(actor, results[i], cells[i]);
}

// One wrong range, or none that is right.
sluice_range_t wrong_range(Actor& actor) {
  static char memory[4096];
  sluice_range_t range{plannable(actor).handle, 0, memory, 16};
  switch (actor.draw(4)) {
    case 0:
      range.file = actor.world().dead_handle(actor.draw(64));
      break;
    case 1:
      range.file_offset = -1 - static_cast<off_t>(actor.draw(1000));
      break;
    case 2:
      range.memory = nullptr;
      break;
    default:
      range.file_offset = std::numeric_limits<off_t>::max() - static_cast<off_t>(actor.draw(16));
      range.size = actor.one_of<std::size_t>({17, 4096, std::numeric_limits<std::size_t>::max()});
  }
  return range;
}

void make_wrong_plan(Actor& actor) {
  const sluice_range_t range = wrong_range(actor);
  sluice_plan_t plan = nullptr;
  actor.expect(
      actor.call("sluice_plan_create", "a wrong range", [&] { return sluice_plan_create(&range, 1, nullptr, &plan); }),
      {CU_FILE_INVALID_VALUE, CU_FILE_HANDLE_NOT_REGISTERED});
  actor.require(plan == nullptr, "a plan of a wrong range");
  sluice_plan_options_t options{sizeof options, CUFILE_READ, 0, 0};
  switch (actor.draw(6)) {
    case 0:
      options.size = actor.draw(sizeof options);
      break;
    case 1:
      options.opcode = number_as<CUfileOpcode_t>(2 + static_cast<int>(actor.draw(1000)));
      break;
    case 2:
      options.flags = 2U << actor.draw(31);
      break;
    default:
      break;
  }
  const sluice_range_t good{plannable(actor).handle, 0, actor.garbage_address(), 1};
  const bool usual = options.size == sizeof options && options.opcode == CUFILE_READ && options.flags == 0;
  const sluice_range_t* const ranges = usual && actor.one_in(2) ? nullptr : &good;
  const std::size_t count = usual && ranges != nullptr && actor.one_in(2) ? 0 : 1;
  sluice_plan_t* const where = usual && ranges != nullptr && count == 1 ? nullptr : &plan;
  actor.expect(actor.call("sluice_plan_create", "wrong options, or no place",
                          [&] { return sluice_plan_create(ranges, count, &options, where); }),
               {CU_FILE_INVALID_VALUE});
  actor.require(plan == nullptr, "a plan of wrong options");
}

}  // namespace

// Made, run, looked at and destroyed by one actor. Others may close the driver in between: then it is gone.
void use_own_plan(Actor& actor) {
  Cells cells(actor.world());
  std::vector<sluice_range_t> ranges;
  const std::size_t count = 1 + actor.draw(most_items);
  for (std::size_t i = 0; i < count; ++i) {
    Cell* const cell = cells.take(actor.draw(1000));
    if (cell == nullptr) break;
    const Entrance& entrance = plannable(actor);
    cell->content = entrance.content;
    cell->offset = actor.draw(310000);
    cell->size = 1 + actor.draw(World::kCellSize);
    ranges.push_back({entrance.handle, static_cast<off_t>(cell->offset), cell->memory->address(), cell->size});
  }
  if (ranges.empty()) return;
  const unsigned flags = actor.one_in(3) ? SLUICE_PLAN_FOR_STREAMS : 0;
  const sluice_plan_options_t options{sizeof options, CUFILE_READ, flags, static_cast<unsigned>(actor.draw(4))};
  sluice_plan_t plan = nullptr;
  const CUfileError_t made = actor.call("sluice_plan_create", joined(ranges.size(), " ranges"), [&] {
    return sluice_plan_create(ranges.data(), ranges.size(), actor.one_in(3) ? nullptr : &options, &plan);
  });
  actor.expect(made, {CU_FILE_SUCCESS, CU_FILE_INVALID_VALUE, CU_FILE_HANDLE_NOT_REGISTERED});
  if (made.err != CU_FILE_SUCCESS) return;
  if (!actor.one_in(8)) run_plan(actor, plan, cells);
  const CUfileError_t destroyed = actor.call("sluice_plan_destroy", "own", [&] { return sluice_plan_destroy(plan); });
  actor.expect(destroyed, {CU_FILE_SUCCESS, CU_FILE_INVALID_VALUE});
  if (destroyed.err != CU_FILE_SUCCESS) cells.leave_to_the_close(plan);
}

void use_wrong_plan(Actor& actor) {
  const sluice_plan_t plan = garbage_plan(actor);
  sluice_plan_counts_t counts{};
  counts.size = sizeof counts;
  sluice_item_result_t result{};
  sluice_explanation_t explanation{};
  switch (actor.draw(9)) {
    case 0:
      actor.expect(actor.call("sluice_plan_submit", "no plan", [&] { return sluice_plan_submit(plan); }),
                   {CU_FILE_INVALID_VALUE});
      break;
    case 1:
      actor.require(actor.call("sluice_plan_wait", "no plan", [&] { return sluice_plan_wait(plan, 0, nullptr); }) == -1,
                    "no plan has ended");
      break;
    case 2:
      actor.require(
          actor.call("sluice_plan_wait_item", "no plan", [&] { return sluice_plan_wait_item(plan, 0, nullptr); }) == -1,
          "an item of no plan has ended");
      break;
    case 3:
      actor.expect(actor.call("sluice_plan_wait_in_stream", "no plan",
                              [&] { return sluice_plan_wait_in_stream(plan, 0, actor.stream()); }),
                   {CU_FILE_INVALID_VALUE});
      break;
    case 4:
      actor.require(actor.call("sluice_plan_eventfd", "no plan", [&] { return sluice_plan_eventfd(plan); }) == -1,
                    "a descriptor of no plan");
      break;
    case 5:
      actor.expect(actor.call("sluice_plan_cancel", "no plan", [&] { return sluice_plan_cancel(plan); }),
                   {CU_FILE_INVALID_VALUE});
      actor.expect(actor.call("sluice_plan_destroy", "no plan", [&] { return sluice_plan_destroy(plan); }),
                   {CU_FILE_INVALID_VALUE});
      break;
    case 6:
      counts.size = actor.one_in(2) ? counts.size : actor.draw(sizeof counts);
      actor.expect(actor.call("sluice_plan_progress", "no plan",
                              [&] { return sluice_plan_progress(plan, actor.one_in(3) ? nullptr : &counts); }),
                   {CU_FILE_INVALID_VALUE});
      break;
    case 7:
      actor.expect(actor.call("sluice_plan_results", "no plan",
                              [&] { return sluice_plan_results(plan, 0, 1, actor.one_in(3) ? nullptr : &result); }),
                   {CU_FILE_INVALID_VALUE});
      actor.expect(
          actor.call("sluice_plan_explain", "no plan", [&] { return sluice_plan_explain(plan, 0, &explanation); }),
          {CU_FILE_INVALID_VALUE});
      break;
    default:
      make_wrong_plan(actor);
  }
}

}  // namespace sluice::fuzz
