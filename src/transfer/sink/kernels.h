// SPDX-License-Identifier: Apache-2.0
// The kernels that a staging buffer's chunks may go by: what a launch takes, how long it may take to begin, and what
// is counted.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "observe/copy_counters.h"
#include "staging/staging_buffer.h"
#include "transfer/layout.h"
#include "transfer/plan.h"
#include "workers/work_queue.h"

namespace sluice::transfer {

// What all launches take.
struct LaunchArguments {
  staging::StagingLease& lease;
  cuda::DevicePtr slots;       // as the lease's device sees them
  std::uint32_t silent_up_to;  // with so many chunks the kernel does not tell of each
  std::uint32_t first_number;
  std::uint32_t launch_id;
};

struct GatherWay {
  cuda::DevicePtr into;           // where chunk 0 would go if nothing were skipped
  std::uint32_t stride;           // from one slot to the next
  std::uint32_t relay_slots = 0;  // another device reads what is there meanwhile: chunks go round in so many
};

// Chunks of one range.
struct GatherKernel {
  static constexpr std::size_t copies_at_once = 1;  // without the kernel, of one call of the driver
  static cuda::Result launch(const OneRange& range, const ReadPlan& plan, const LaunchArguments& arguments) noexcept {
    return launch({.into = range[0].target - plan.skip, .stride = plan.stride}, plan, arguments);
  }
  static cuda::Result launch(const GatherWay& way, const ReadPlan& plan, const LaunchArguments& arguments) noexcept {
    staging::StagingWords& words = arguments.lease.words();
    return arguments.lease.device().launch(gpu::Gather{.slots = arguments.slots,
                                                       .target = way.into,
                                                       .tickets = words.tickets.data(),
                                                       .completed = words.completed.data(),
                                                       .words = &words.launch,
                                                       .chunk_bytes = plan.chunk_bytes,
                                                       .stride = way.stride,
                                                       .skip = plan.skip,
                                                       .chunks = plan.chunks,
                                                       .silent_up_to = arguments.silent_up_to,
                                                       .first_number = arguments.first_number,
                                                       .launch_id = arguments.launch_id,
                                                       .most_blocks = gather_blocks(plan, workers::active_jobs()),
                                                       .relay_slots = way.relay_slots});
  }
  static std::chrono::microseconds start_timeout(std::uint64_t bytes) noexcept {
    return gather_start_timeout(bytes, workers::active_jobs());
  }
  static void count(const OneRange& /*range*/) noexcept { observe::count_copy(observe::CopyCounter::kernel); }
  static void count_copies(const OneRange& /*range*/, bool /*at_once*/) noexcept {
    observe::count_copy(observe::CopyCounter::copy_engine);
  }
};

// Chunks that have each a target of its own.
struct ScatterKernel {
  static constexpr std::size_t copies_at_once = 64;
  static cuda::Result launch(const ManyTargets& targets, const ReadPlan& plan,
                             const LaunchArguments& arguments) noexcept {
    staging::StagingWords& words = arguments.lease.words();
    targets.write_targets(words.targets);
    return arguments.lease.device().launch(gpu::Scatter{.slots = arguments.slots,
                                                        .targets = words.targets.data(),
                                                        .tickets = words.tickets.data(),
                                                        .completed = words.completed.data(),
                                                        .words = &words.launch,
                                                        .chunk_bytes = plan.chunk_bytes,
                                                        .stride = plan.stride,
                                                        .chunks = plan.chunks,
                                                        .silent_up_to = arguments.silent_up_to,
                                                        .first_number = arguments.first_number,
                                                        .launch_id = arguments.launch_id});
  }
  static std::chrono::microseconds start_timeout(std::uint64_t bytes) noexcept {
    return scatter_start_timeout(bytes, workers::active_jobs());
  }
  static void count(const ManyTargets& targets) noexcept {
    observe::count_copy(observe::CopyCounter::scatter_kernel, targets.transfers());
  }
  static void count_copies(const ManyTargets& targets, bool at_once) noexcept {
    observe::count_copy(at_once ? observe::CopyCounter::many_copies : observe::CopyCounter::copy_engine,
                        targets.transfers());
  }
};

}  // namespace sluice::transfer
