// SPDX-License-Identifier: Apache-2.0
// What is known of the read gives its plan; a pipeline carries it.
#include "transfer/device_read.h"

#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "gpu/memory.h"
#include "io/sentinel.h"
#include "transfer/disk_read.h"
#include "transfer/hand_on.h"
#include "transfer/lent_read.h"
#include "transfer/pipeline.h"
#include "transfer/plan.h"
#include "transfer/sink/kernels.h"
#include "transfer/sink/staged.h"
#include "transfer/source/page_cache.h"
#include "workers/work_queue.h"

namespace sluice::transfer {

using base::Outcome;

bool is_cached_at(int fd, std::uint64_t position) noexcept {
  std::byte byte{};
  const iovec one{&byte, 1};
  return ::preadv2(fd, &one, 1, static_cast<off_t>(position), RWF_NOWAIT) >= 0 || errno != EAGAIN;
}

bool seems_cached(const FileRange& range) noexcept {
  if (range.block > 1 || !is_cached_at(range.fd, range.at.value)) return false;
  const std::uint64_t end = range.at.value + range.length;
  const std::uint64_t known_end = std::min(end, range.file_size);
  if (known_end <= range.at.value || is_cached_at(range.fd, known_end - 1)) return true;
  // Some kernels have nothing behind the end of a file, either, and say so. Where the file's end was not asked for,
  // this does.
  const std::uint64_t there = std::min(end, range.now.size());
  return there < known_end && (there <= range.at.value || is_cached_at(range.fd, there - 1));
}

Outcome read_to_device(const FileRange& range, staging::StagingLease& lease, const Target& target,
                       CopyEngine engine) noexcept {
  const cuda::DevicePtr to = target.at;
  const staging::LinkInUse in_use(target.lending != nullptr ? target.device : -1);
  if (target.lending != nullptr && is_worth_lending(range.length, 1, target.lending->least_bytes) &&
      (range.block > 1 || seems_cached(range))) {
    if (const auto read = read_by_links(range, lease, target, engine, workers::active_jobs())) return *read;
  }
  if (target.lending != nullptr) HandOn::tell();  // it has no links to itself
  if (range.block > 1 && engine != CopyEngine::kernel) {
    if (const std::optional<Outcome> read = read_from_disk(range, lease, target)) return *read;
  }
  ReadShape shape{.at = range.at,
                  .length = range.length,
                  .block = range.block,
                  .unit = static_cast<std::uint32_t>(range.unit()),
                  .to = to,
                  .cached = seems_cached(range),
                  .by_kernel = false,
                  .others = workers::active_jobs(),
                  .workers_suffice = workers::workers_suffice(workers::active_jobs() + 1),
                  .workers = workers::worker_count(),
                  .extra_helpers = lease.tuner_for(range.length).extra_helpers()};
  // Memory of several allocations, of which one went under its registration: the copy engine's answer is an error, a
  // kernel's the end of the context.
  shape.by_kernel = kernel_may_carry({.wanted = engine,
                                      .has_sentinel = engine != CopyEngine::engine && io::Sentinel::is_there(),
                                      .cached = shape.cached,
                                      .alike_aligned = can_be_gathered(range, to),
                                      .is_loaded = lease.device().can_gather()}) &&
                    lease.kernel_worth_trying(range.length) &&
                    (!shape.in_crowd() || lease.kernel_worth_trying_in_crowd()) &&
                    (target.is_one_allocation || gpu::contiguous_bytes(to, range.length) == range.length);
  const ReadPlan plan = plan_read(shape);
  OneRange chunks(range, plan, to);
  Pipeline<OneRange, WholeFile, StagedSink<OneRange, GatherKernel>> pipeline(chunks, WholeFile(range));
  pipeline.run(plan, lease.numbers(plan.chunks), lease, shape.by_kernel);
  return pipeline.failure() != cuda::success ? gpu::as_outcome(pipeline.failure()) : chunks.answer();
}

}  // namespace sluice::transfer
