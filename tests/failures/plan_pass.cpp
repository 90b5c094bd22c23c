// SPDX-License-Identifier: Apache-2.0
// The part of a pass that is made by plans: reads that a stream waits for, writes, and a plan that is cancelled.
#include <array>
#include <cerrno>

#include "failures/pass.h"

namespace sluice::failures {

using namespace support;

namespace {

// As the entries of the batch: no two touch the same bytes, or those beside them.
constexpr std::array plan_reads{
    Entry{CUFILE_READ, registered_memory, {131'072, 0, 0}},
    Entry{CUFILE_READ, registered_memory, {131'072, 131'072, 200'000}},
    Entry{CUFILE_READ, device_memory, {1'000'000, 262'144, 0}},
    Entry{CUFILE_READ, device_memory, {70'001, 2'000'003, 1'200'005}},
    Entry{CUFILE_READ, pinned_memory, {65'536, 2'097'152, 0}},
    Entry{CUFILE_READ, plain_memory, {10'000, 2'200'001, 1}},
};
constexpr std::array plan_writes{
    Entry{CUFILE_WRITE, device_memory, {131'072, 1'048'576, 1'048'576}},
    Entry{CUFILE_WRITE, registered_memory, {70'000, 1'300'001, 1'200'000}},
    Entry{CUFILE_WRITE, plain_memory, {4096, 1'433'600, 1'300'000}},
};
constexpr std::size_t most_items = plan_reads.size();

std::array<sluice_range_t, most_items> ranges_for(const World& world, CUfileHandle_t handle,
                                                  std::span<const Entry> entries) {
  std::array<sluice_range_t, most_items> ranges{};
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const Entry& entry = entries[i];
    ranges[i] = {handle, static_cast<off_t>(entry.range.file_at), world.memory(entry.memory).at(entry.range.memory_at),
                 entry.range.size};
  }
  return ranges;
}

// What came of an item, as a call would have answered.
ssize_t count_of(const sluice_item_result_t& result) {
  if (result.state == SLUICE_ITEM_CANCELLED) return -ECANCELED;
  const bool nothing = result.state == SLUICE_ITEM_FAILED && result.bytes == 0;
  return nothing ? -result.error : static_cast<ssize_t>(result.bytes);
}

}  // namespace

// To its end, waited for in every way.
void Pass::run_plan(sluice_plan_t plan, std::size_t items, bool for_streams) {
  if (for_streams) {
    call("sluice_plan_wait_in_stream", [&] { return sluice_plan_wait_in_stream(plan, items, world_.stream()); });
    if (cuda()->stream_synchronize(world_.stream()) != 0) world_.complain("a plan", {}, 0, "the stream has an error");
  }
  static_cast<void>(sluice_plan_eventfd(plan));  // one that cannot be had is no failure
  World::allow_a_minute();
  if (sluice_plan_wait_item(plan, items - 1, nullptr) != 1) world_.complain("a plan", {}, 0, "an item does not end");
  if (sluice_plan_wait(plan, items, nullptr) != static_cast<long>(items)) {
    world_.complain("a plan", {}, 0, "it does not end");
  }
  sluice_explanation_t explanation{};
  call("sluice_plan_explain", [&] { return sluice_plan_explain(plan, 0, &explanation); });
}

void Pass::plan(CUfileHandle_t handle, CUfileOpcode_t opcode, unsigned flags) {
  const std::span<const Entry> entries =
      opcode == CUFILE_READ ? std::span<const Entry>(plan_reads) : std::span<const Entry>(plan_writes);
  prepare(entries);
  const auto ranges = ranges_for(world_, handle, entries);
  const sluice_plan_options_t options{sizeof options, opcode, flags, 0};
  sluice_plan_t made = nullptr;
  if (!call("sluice_plan_create", [&] { return sluice_plan_create(ranges.data(), entries.size(), &options, &made); })) {
    return;
  }
  std::array<ssize_t, most_items> counts;
  counts.fill(-ENOMEM);
  if (call("sluice_plan_submit", [&] { return sluice_plan_submit(made); })) {
    run_plan(made, entries.size(), (flags & SLUICE_PLAN_FOR_STREAMS) != 0);
    counts.fill(kNoEvent);
    std::array<sluice_item_result_t, most_items> results{};
    const bool told =
        call("sluice_plan_results", [&] { return sluice_plan_results(made, 0, entries.size(), results.data()); });
    for (std::size_t i = 0; told && i < entries.size(); ++i) {
      if (results[i].state == SLUICE_ITEM_WAITING) world_.complain("a plan", {}, 0, "an ended plan has waiting items");
      counts[i] = count_of(results[i]);
    }
  }
  call("sluice_plan_destroy", [&] { return sluice_plan_destroy(made); });
  settle("a plan's read", "a plan's write", handle, entries, counts);
}

// What has begun by then comes to its end, the rest was never begun: either is whole.
void Pass::cancelled_plan(CUfileHandle_t handle) {
  prepare(plan_reads);
  const auto ranges = ranges_for(world_, handle, plan_reads);
  sluice_plan_t made = nullptr;
  if (!call("sluice_plan_create",
            [&] { return sluice_plan_create(ranges.data(), plan_reads.size(), nullptr, &made); })) {
    return;
  }
  const bool submitted = call("sluice_plan_submit", [&] { return sluice_plan_submit(made); });
  call("sluice_plan_cancel", [&] { return sluice_plan_cancel(made); });
  World::allow_a_minute();
  sluice_plan_counts_t counts{};
  counts.size = sizeof counts;
  if (submitted && sluice_plan_wait(made, plan_reads.size(), nullptr) != static_cast<long>(plan_reads.size())) {
    world_.complain("a cancelled plan", {}, 0, "it does not end");
  }
  call("sluice_plan_progress", [&] { return sluice_plan_progress(made, &counts); });
  if (counts.state != SLUICE_PLAN_ENDED) world_.complain("a cancelled plan", {}, 0, "it has not ended");
  call("sluice_plan_destroy", [&] { return sluice_plan_destroy(made); });
}

void Pass::plans(CUfileHandle_t handle) {
  plan(handle, CUFILE_READ, SLUICE_PLAN_FOR_STREAMS);
  plan(handle, CUFILE_READ, 0);
  plan(handle, CUFILE_WRITE, 0);
  cancelled_plan(handle);
}

}  // namespace sluice::failures
