// SPDX-License-Identifier: Apache-2.0
// Where a ring is to be had, a pipeline of one thread.
#include "transfer/disk_read.h"

#include "gpu/memory.h"
#include "io/uring.h"
#include "transfer/pipeline.h"
#include "transfer/plan.h"
#include "transfer/sink/kernels.h"
#include "transfer/sink/staged.h"
#include "transfer/source/page_cache.h"
#include "transfer/source/ring.h"
#include "workers/slow_disk_gauge.h"

namespace sluice::transfer {

using base::Outcome;

std::optional<Outcome> read_from_disk(const FileRange& range, staging::StagingLease& lease,
                                      cuda::DevicePtr to) noexcept {
  if (!range.disk.takes_rings()) return std::nullopt;
  const io::CompletionMode completion = range.disk.ring_to_use();
  const io::Uring::Use ring = io::Uring::of_this_thread(completion);
  if (!ring) return std::nullopt;
  const workers::SlowDiskGauge::Scope past_cache(workers::slow_disk_gauge, range.length);
  (*ring).register_buffer(lease.bytes());
  const ReadPlan plan = plan_disk_read(range);
  OneRange chunks(range, plan, to);
  using Source = RingSource<WholeFile>;
  Pipeline<OneRange, Source, StagedSink<OneRange, GatherKernel>> pipeline(chunks, Source(*ring, WholeFile(range)));
  pipeline.run(plan, 1U, lease, false, &past_cache);
  if (io::is_polled(completion) && pipeline.source().was_refused()) range.disk.cannot_be_polled();
  return pipeline.failure() != cuda::success ? gpu::as_outcome(pipeline.failure()) : chunks.answer();
}

}  // namespace sluice::transfer
