// SPDX-License-Identifier: Apache-2.0
#include "support/planned.h"

#include <stdexcept>
#include <string>

namespace sluice::support {

namespace {

void require(CUfileError_t error, const char* what) {
  if (code(error) != CU_FILE_SUCCESS) {
    throw std::runtime_error(std::string(what) + ": " + std::to_string(code(error)) + ", " + sluice_last_error());
  }
}

}  // namespace

std::size_t Planned::add(CUfileHandle_t handle, void* memory, std::size_t size, std::size_t file_offset) {
  ranges_.push_back({handle, static_cast<off_t>(file_offset), memory, size});
  return ranges_.size() - 1;
}

void Planned::make() {
  require(sluice_plan_create(ranges_.data(), ranges_.size(), &options_, &plan_), "sluice_plan_create");
}

void Planned::submit() {
  if (plan_ == nullptr) make();
  require(sluice_plan_submit(plan_), "sluice_plan_submit");
}

std::vector<sluice_item_result_t> Planned::collect() const {
  EXPECT_EQ(sluice_plan_wait(plan_, count(), nullptr), static_cast<long>(count()));
  const sluice_plan_counts_t now = counts();
  EXPECT_EQ(now.state, SLUICE_PLAN_ENDED);
  EXPECT_EQ(now.items, count());
  EXPECT_EQ(now.items_ended, count());
  return results();
}

std::vector<sluice_item_result_t> Planned::results() const {
  std::vector<sluice_item_result_t> all(count());
  EXPECT_EQ(code(sluice_plan_results(plan_, 0, all.size(), all.data())), CU_FILE_SUCCESS);
  return all;
}

sluice_plan_counts_t Planned::counts() const {
  sluice_plan_counts_t counts{};
  counts.size = sizeof counts;
  EXPECT_EQ(code(sluice_plan_progress(plan_, &counts)), CU_FILE_SUCCESS);
  return counts;
}

ssize_t answer_of(const sluice_item_result_t& result) {
  if (result.bytes == 0 && result.error != 0) return -result.error;
  return static_cast<ssize_t>(result.bytes);
}

}  // namespace sluice::support
