// SPDX-License-Identifier: Apache-2.0
// sluice_plan_*.
#include <algorithm>
#include <cstring>

#include "api/funnel.h"
#include "plan/plan_calls.h"
#include "process/process.h"
#include "sluice.h"

using sluice::api::guarded;
using sluice::base::Failure;
using sluice::process::Process;

namespace {

std::optional<timespec> limit_of(const timespec* timeout) {
  return timeout == nullptr ? std::nullopt : std::optional<timespec>(*timeout);
}

}  // namespace

extern "C" {

CUfileError_t sluice_plan_create(const sluice_range_t* ranges, size_t count, const sluice_plan_options_t* options,
                                 sluice_plan_t* plan) {
  return guarded("sluice_plan_create", [&] {
    if (plan == nullptr) throw Failure(CU_FILE_INVALID_VALUE, "the pointer for the plan is null");
    if (ranges == nullptr) throw Failure(CU_FILE_INVALID_VALUE, "the ranges are a null pointer");
    *plan = static_cast<sluice_plan_t>(sluice::plan::create_plan(Process::instance(), {ranges, count}, options));
  });
}

CUfileError_t sluice_plan_submit(sluice_plan_t plan) {
  return guarded("sluice_plan_submit", [&] { sluice::plan::submit_plan(Process::instance(), plan); });
}

long sluice_plan_wait(sluice_plan_t plan, size_t first, const struct timespec* timeout) {
  long ended = -1;
  guarded("sluice_plan_wait", [&] {
    ended = static_cast<long>(sluice::plan::wait_for_plan(Process::instance(), plan, first, limit_of(timeout)));
  });
  return ended;
}

int sluice_plan_wait_item(sluice_plan_t plan, size_t item, const struct timespec* timeout) {
  int ended = -1;
  guarded("sluice_plan_wait_item",
          [&] { ended = sluice::plan::wait_for_item(Process::instance(), plan, item, limit_of(timeout)) ? 1 : 0; });
  return ended;
}

CUfileError_t sluice_plan_wait_in_stream(sluice_plan_t plan, size_t first, CUstream stream) {
  return guarded("sluice_plan_wait_in_stream",
                 [&] { sluice::plan::wait_in_stream(Process::instance(), plan, first, stream); });
}

int sluice_plan_eventfd(sluice_plan_t plan) {
  int descriptor = -1;
  guarded("sluice_plan_eventfd", [&] { descriptor = sluice::plan::eventfd_of_plan(Process::instance(), plan); });
  return descriptor;
}

CUfileError_t sluice_plan_cancel(sluice_plan_t plan) {
  return guarded("sluice_plan_cancel", [&] { sluice::plan::cancel_plan(Process::instance(), plan); });
}

CUfileError_t sluice_plan_progress(sluice_plan_t plan, sluice_plan_counts_t* counts) {
  return guarded("sluice_plan_progress", [&] {
    if (counts == nullptr) throw Failure(CU_FILE_INVALID_VALUE, "nowhere to write the counts");
    const size_t size = counts->size;
    if (size < sizeof *counts) {
      throw Failure(CU_FILE_INVALID_VALUE, "the size is not set: counts.size = sizeof counts");
    }
    *counts = sluice::plan::progress_of_plan(Process::instance(), plan);
    counts->size = size;
  });
}

CUfileError_t sluice_plan_results(sluice_plan_t plan, size_t first, size_t count, sluice_item_result_t* results) {
  return guarded("sluice_plan_results", [&] {
    if (results == nullptr) throw Failure(CU_FILE_INVALID_VALUE, "nowhere to write the results");
    sluice::plan::results_of_plan(Process::instance(), plan, first, {results, count});
  });
}

CUfileError_t sluice_plan_explain(sluice_plan_t plan, size_t item, sluice_explanation_t* out) {
  sluice::plan::PlannedItem planned{};
  const CUfileError_t found =
      guarded("sluice_plan_explain", [&] { planned = sluice::plan::item_of_plan(Process::instance(), plan, item); });
  if (found.err != CU_FILE_SUCCESS) return found;
  return sluice_explain(planned.range.handle, reinterpret_cast<const void*>(planned.range.address), 0,
                        planned.direction == sluice::base::Direction::read ? CUFILE_READ : CUFILE_WRITE,
                        planned.range.size, static_cast<off_t>(planned.range.at), out);
}

CUfileError_t sluice_plan_destroy(sluice_plan_t plan) {
  return guarded("sluice_plan_destroy", [&] { sluice::plan::destroy_plan(Process::instance(), plan); });
}

}  // extern "C"
