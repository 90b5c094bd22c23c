// SPDX-License-Identifier: Apache-2.0
// The C API's verbs for plans. All throw base::Failure with the code of the call.
#pragma once

#include <time.h>

#include <cstddef>
#include <optional>
#include <span>

#include "gpu/cuda_abi.h"
#include "plan/plan.h"
#include "sluice.h"

namespace sluice::plan {

void* create_plan(process::Process& process, std::span<const sluice_range_t> ranges,
                  const sluice_plan_options_t* options);
void submit_plan(process::Process& process, void* handle);
// How many of the first ones have ended.
std::size_t wait_for_plan(process::Process& process, void* handle, std::size_t first,
                          const std::optional<timespec>& timeout);
bool wait_for_item(process::Process& process, void* handle, std::size_t item, const std::optional<timespec>& timeout);
void wait_in_stream(process::Process& process, void* handle, std::size_t first, cuda::Stream stream);
int eventfd_of_plan(process::Process& process, void* handle);
void cancel_plan(process::Process& process, void* handle);
sluice_plan_counts_t progress_of_plan(process::Process& process, void* handle);
void results_of_plan(process::Process& process, void* handle, std::size_t first, std::span<sluice_item_result_t> into);

struct PlannedItem {
  Range range;
  base::Direction direction;
};
PlannedItem item_of_plan(process::Process& process, void* handle, std::size_t item);

// Cancels, and waits for what has begun: afterwards nothing touches the memory of any item.
void destroy_plan(process::Process& process, void* handle);
// The same of a handle that may name nothing: then false.
bool end_plan(PlanTable& plans, void* handle, process::DrainMode drain_mode);

}  // namespace sluice::plan
