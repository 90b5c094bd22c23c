// SPDX-License-Identifier: Apache-2.0
// A plan as the tests like it: ranges are put together one by one, and answer by their numbers.
#pragma once

#include <cstddef>
#include <vector>

#include "sluice.h"
#include "support/calls.h"

namespace sluice::support {

class Planned {
 public:
  explicit Planned(CUfileOpcode_t opcode = CUFILE_READ, unsigned flags = 0, unsigned at_a_time = 0)
      : options_{sizeof(sluice_plan_options_t), opcode, flags, at_a_time} {}
  ~Planned() {
    if (plan_ != nullptr) sluice_plan_destroy(plan_);
  }
  Planned(const Planned&) = delete;
  Planned& operator=(const Planned&) = delete;
  sluice_plan_t get() const { return plan_; }
  // It has been ended, or is to be by another thread.
  void forget() { plan_ = nullptr; }

  std::size_t add(CUfileHandle_t handle, void* memory, std::size_t size, std::size_t file_offset);
  std::size_t count() const { return ranges_.size(); }

  // Both throw where the library refuses.
  void make();
  void submit();  // made before, if it is not yet
  // Waits for all; what came of each.
  std::vector<sluice_item_result_t> collect() const;
  std::vector<sluice_item_result_t> run() {
    submit();
    return collect();
  }
  std::vector<sluice_item_result_t> results() const;
  sluice_plan_counts_t counts() const;

 private:
  sluice_plan_options_t options_;
  std::vector<sluice_range_t> ranges_;
  sluice_plan_t plan_ = nullptr;
};

// Bytes, or -errno, as calls answer.
ssize_t answer_of(const sluice_item_result_t& result);

}  // namespace sluice::support
