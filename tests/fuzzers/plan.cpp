// SPDX-License-Identifier: Apache-2.0
// The ranges and options of a plan, and what is done with it: all but the handle and the memory's base comes from the
// input. What lies beside the memory that ranges name stays as it was, and every item of what was submitted ends.
#include <algorithm>
#include <vector>

#include "sluice.h"
#include "world.h"

using namespace sluice;

namespace {

constexpr std::size_t head_bytes = 8;    // of the input
constexpr std::size_t range_bytes = 16;  // of the input

// Mostly sound: the size of the structure, the opcode and the flags are each wrong by some inputs.
sluice_plan_options_t options_of(const std::uint8_t* data) {
  sluice_plan_options_t options{};
  options.size = data[0] < 250 ? sizeof options : data[0] - 250U;
  const std::uint8_t opcode = data[1] & 3;  // two of the four are none
  std::memcpy(&options.opcode, &opcode, sizeof opcode);
  options.flags = data[2] < 128 ? data[2] & 1 : data[2];
  options.at_a_time = data[3];
  return options;
}

sluice_range_t range_of(fuzz::World& world, const std::uint8_t* data, bool writes) {
  sluice_range_t range{};
  range.file = world.handle();
  const std::uint64_t at = fuzz::number(data, 2);
  range.memory = data[15] == 0xff ? nullptr : world.memory() + at;
  range.file_offset = static_cast<off_t>(fuzz::number(data + 2, 8));
  range.size = std::min<std::uint64_t>(fuzz::number(data + 10, 4), fuzz::memory_bytes - at);
  // A write makes the file longer: by a little, and never near the end of what a file can be.
  if (writes) range.file_offset &= 0xfffff;
  return range;
}

// Ends of plans that were not submitted are asked for, too: nothing waits for ever.
void use(sluice_plan_t plan, std::size_t items, std::uint8_t how, std::size_t item) {
  if ((how & 1) == 0) fuzz::require(sluice_plan_submit(plan).err == CU_FILE_SUCCESS, "a sound plan is refused\n");
  const bool submitted = (how & 1) == 0;
  if ((how & 2) != 0) fuzz::require(sluice_plan_cancel(plan).err == CU_FILE_SUCCESS, "no cancelling\n");
  if ((how & 4) != 0) sluice_plan_eventfd(plan);
  const int ended = sluice_plan_wait_item(plan, item, nullptr);
  fuzz::require(ended == -1 || item < items, "an item that there is not has ended\n");
  const long all = sluice_plan_wait(plan, items, nullptr);
  fuzz::require(!submitted || all == static_cast<long>(items), "a plan that does not end\n");
  fuzz::require(sluice_plan_wait(plan, items + 1 + item, nullptr) == -1, "more items than there are\n");
  std::vector<sluice_item_result_t> results(items);
  fuzz::require(sluice_plan_results(plan, 0, items, results.data()).err == CU_FILE_SUCCESS, "no results\n");
  for (const sluice_item_result_t& result : results) {
    fuzz::require(!submitted || result.state != SLUICE_ITEM_WAITING, "an item that does not end\n");
  }
  sluice_explanation_t explanation{};
  const bool explained = sluice_plan_explain(plan, item, &explanation).err == CU_FILE_SUCCESS;
  fuzz::require(explained == (item < items), "an explanation of no item, or none of one\n");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static fuzz::World world;
  if (size < head_bytes + range_bytes) return -1;
  const sluice_plan_options_t options = options_of(data);
  const bool writes = (data[1] & 3) == CUFILE_WRITE;
  std::vector<sluice_range_t> ranges;
  for (std::size_t at = head_bytes; at + range_bytes <= size && ranges.size() < 64; at += range_bytes) {
    ranges.push_back(range_of(world, data + at, writes));
  }
  sluice_plan_t plan = nullptr;
  if (sluice_plan_create(ranges.data(), ranges.size(), &options, &plan).err == CU_FILE_SUCCESS) {
    use(plan, ranges.size(), data[4], data[5]);
    fuzz::require(sluice_plan_destroy(plan).err == CU_FILE_SUCCESS, "a plan that cannot be destroyed\n");
    fuzz::require(sluice_plan_submit(plan).err == CU_FILE_INVALID_VALUE, "a plan that lives on\n");
  } else {
    fuzz::require(plan == nullptr, "a plan was refused, and is there\n");
  }
  world.require_whole_guards();
  return 0;
}
