// SPDX-License-Identifier: Apache-2.0
// From the arguments of the C calls to a plan's verbs.
#include "plan/plan_calls.h"

#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "base/failure.h"
#include "base/foreign_enum.h"
#include "plan/stream_wait.h"
#include "process/in_flight.h"

namespace sluice::plan {

using base::Failure;

namespace {

PlanOptions options_of(const sluice_plan_options_t* options) {
  if (options == nullptr) return {};
  if (options->size < sizeof *options) {
    throw Failure(CU_FILE_INVALID_VALUE, "the options' size is not set: options.size = sizeof options");
  }
  const int opcode = base::number_of(options->opcode);
  if (opcode != CUFILE_READ && opcode != CUFILE_WRITE) throw Failure(CU_FILE_INVALID_VALUE, "there is no such opcode");
  if ((options->flags & ~SLUICE_PLAN_FOR_STREAMS) != 0) {
    throw Failure(CU_FILE_INVALID_VALUE,
                  "a flag of the options has no meaning: SLUICE_PLAN_FOR_STREAMS is the only one");
  }
  return {opcode == CUFILE_READ ? base::Direction::read : base::Direction::write, options->at_a_time,
          (options->flags & SLUICE_PLAN_FOR_STREAMS) != 0};
}

// Why a range cannot be one of a plan; null when it can.
const char* objection(const sluice_range_t& range, const process::File& file, const request::Call& call) {
  if (range.memory == nullptr) return "its memory is a null pointer";
  if (range.file_offset < 0) return "it has a negative offset";
  if (range.size > static_cast<std::size_t>(std::numeric_limits<off_t>::max()))
    return "its size is larger than any file";
  const base::Outcome refusal = request::check(file, call);
  // A read through a descriptor of O_PATH fails on its way.
  if (refusal.ok() || refusal.error() == EPERM) return nullptr;
  return refusal.error() == CU_FILE_INVALID_FILE_OPEN_FLAG ? "its file was not opened for this direction"
                                                           : "it ends beyond the largest offset of a file";
}

[[noreturn]] void refuse_range(std::size_t number, const char* why, CUfileOpError code = CU_FILE_INVALID_VALUE) {
  throw Failure(code, "range " + std::to_string(number) + ": " + why + "; no plan was made");
}

void require_sound(process::Process& process, std::span<const sluice_range_t> ranges, base::Direction direction) {
  process::FileTable::Pin file;
  const void* pinned = nullptr;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const sluice_range_t& range = ranges[i];
    if (!file || pinned != range.file) {
      file = process.files().pin(range.file);
      pinned = range.file;
    }
    if (!file) refuse_range(i, "its file handle is not registered", CU_FILE_HANDLE_NOT_REGISTERED);
    const request::Call call{direction, range.file, range.memory, range.size, range.file_offset, 0};
    if (const char* const why = objection(range, *file, call)) {
      const bool of_flags = request::check(*file, call).error() == CU_FILE_INVALID_FILE_OPEN_FLAG;
      refuse_range(i, why, of_flags ? CU_FILE_INVALID_FILE_OPEN_FLAG : CU_FILE_INVALID_VALUE);
    }
  }
}

PlanTable::Pin plan_of(process::Process& process, void* handle) {
  PlanTable::Pin plan = process.plans().pin(handle);
  if (!plan) throw Failure(CU_FILE_INVALID_VALUE, "no such plan: it was destroyed, or the driver was closed");
  return plan;
}

void require_items(const Plan& plan, std::size_t first, std::size_t count) {
  const std::size_t items = plan.ranges().size();
  if (first <= items && count <= items - first) return;
  throw Failure(CU_FILE_INVALID_VALUE, "the plan has " + std::to_string(items) + " items");
}

void require_begun(Plan& plan) {
  if (plan.state() != SLUICE_PLAN_MADE) return;
  throw Failure(CU_FILE_INVALID_VALUE, "the plan was not submitted: nothing of it would ever end");
}

std::optional<timespec> deadline_of(const std::optional<timespec>& timeout) {
  return timeout ? std::optional(base::deadline_after(*timeout)) : std::nullopt;
}

}  // namespace

void* create_plan(process::Process& process, std::span<const sluice_range_t> ranges,
                  const sluice_plan_options_t* options) {
  const process::PinScope pins;
  const PlanOptions how = options_of(options);
  if (ranges.empty()) throw Failure(CU_FILE_INVALID_VALUE, "a plan needs at least one range");
  if (ranges.size() >= std::numeric_limits<std::uint32_t>::max()) {
    throw Failure(CU_FILE_INVALID_VALUE, "a plan holds less than 2^32 ranges");
  }
  process.session_or_open();
  require_sound(process, ranges, how.direction);
  std::vector<Range> copied;
  copied.reserve(ranges.size());
  for (const sluice_range_t& range : ranges) {
    copied.push_back({range.file, static_cast<std::uint64_t>(range.file_offset),
                      reinterpret_cast<std::uint64_t>(range.memory), range.size});
  }
  return process.plans().insert(std::make_unique<Plan>(process, std::move(copied), how));
}

void submit_plan(process::Process& process, void* handle) {
  const process::InFlight in_flight;  // before the pins, as in transfer()
  plan_of(process, handle)->submit();
}

std::size_t wait_for_plan(process::Process& process, void* handle, std::size_t first,
                          const std::optional<timespec>& timeout) {
  const process::PinScope pins;
  const auto plan = plan_of(process, handle);
  require_items(*plan, 0, first);
  require_begun(*plan);
  plan->front()->wait_for(first, deadline_of(timeout));
  return std::min(first, plan->front()->ended.load(std::memory_order_acquire));
}

bool wait_for_item(process::Process& process, void* handle, std::size_t item, const std::optional<timespec>& timeout) {
  const process::PinScope pins;
  const auto plan = plan_of(process, handle);
  require_items(*plan, item, 1);
  require_begun(*plan);
  return plan->wait_for_item(item, deadline_of(timeout));
}

void wait_in_stream(process::Process& process, void* handle, std::size_t first, cuda::Stream stream) {
  const process::PinScope pins;
  const auto plan = plan_of(process, handle);
  require_items(*plan, 0, first);
  require_begun(*plan);
  if (!plan->options().for_streams) {
    throw Failure(CU_FILE_INVALID_VALUE, "streams wait only for plans that were made with SLUICE_PLAN_FOR_STREAMS");
  }
  wait_in_stream(plan->front(), first, stream);
}

int eventfd_of_plan(process::Process& process, void* handle) {
  const process::PinScope pins;
  return plan_of(process, handle)->eventfd();
}

void cancel_plan(process::Process& process, void* handle) {
  const process::PinScope pins;
  plan_of(process, handle)->cancel();
}

sluice_plan_counts_t progress_of_plan(process::Process& process, void* handle) {
  const process::PinScope pins;
  return plan_of(process, handle)->progress();
}

void results_of_plan(process::Process& process, void* handle, std::size_t first, std::span<sluice_item_result_t> into) {
  const process::PinScope pins;
  const auto plan = plan_of(process, handle);
  require_items(*plan, first, into.size());
  plan->results(first, into);
}

PlannedItem item_of_plan(process::Process& process, void* handle, std::size_t item) {
  const process::PinScope pins;
  const auto plan = plan_of(process, handle);
  require_items(*plan, item, 1);
  return {plan->ranges()[item], plan->options().direction};
}

bool end_plan(PlanTable& plans, void* handle, process::DrainMode drain_mode) {
  if (const auto plan = plans.pin(handle)) {
    plan->cancel();
    Plan::RunQueue::instance().drop(*plan);
  }
  return plans.retire(handle, drain_mode);
}

void destroy_plan(process::Process& process, void* handle) {
  if (!end_plan(process.plans(), handle, process::drain_mode_now()))
    throw Failure(CU_FILE_INVALID_VALUE, "no such plan");
}

}  // namespace sluice::plan
