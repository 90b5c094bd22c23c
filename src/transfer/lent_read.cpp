// SPDX-License-Identifier: Apache-2.0
// One pipeline with helpers, one with a ring.
#include "transfer/lent_read.h"

#include <span>

#include "gpu/memory.h"
#include "io/uring.h"
#include "observe/statistics.h"
#include "staging/more_buffers.h"
#include "staging/neighbour.h"
#include "transfer/pipeline.h"
#include "transfer/plan.h"
#include "transfer/sink/peer_gpu.h"
#include "transfer/source/page_cache.h"
#include "transfer/source/ring.h"
#include "workers/reserve.h"
#include "workers/slow_disk_gauge.h"
#include "workers/work_queue.h"

namespace sluice::transfer {

using base::Outcome;

namespace {

template <typename Read>
Outcome answer(const Read& pipeline, const OneRange& chunks, const Target& target) noexcept {
  if (pipeline.sink().lent_bytes() > 0) observe::count_by_neighbours(base::Direction::read, target.device);
  return pipeline.failure() != cuda::success ? gpu::as_outcome(pipeline.failure()) : chunks.answer();
}

}  // namespace

std::optional<Outcome> read_by_links(const FileRange& range, staging::StagingLease& lease, const Target& target,
                                     unsigned others) noexcept {
  if (!is_worth_lending(range.length, others, target.lending->least_bytes)) return std::nullopt;
  const io::CompletionMode completion = range.disk.ring_to_use();
  const bool by_ring = range.block > 1;
  if (by_ring && !range.disk.takes_rings()) return std::nullopt;
  const io::Uring::Use ring = by_ring ? io::Uring::of_this_thread(completion) : io::Uring::Use(nullptr);
  if (by_ring && !ring) return std::nullopt;
  staging::Neighbours neighbours(target.device, *target.session, *target.lending);
  if (neighbours.count() == 0) return std::nullopt;
  // Readers finish out of order, and a place is free only when all before it have been given out: many are needed.
  const staging::MoreBuffers more(*target.session, staging::MoreBuffers::most);
  const auto buffers = static_cast<unsigned>(1 + 2 * neighbours.count() + more.count());
  const ReadPlan plan = plan_lent_read(range, buffers, workers::worker_count(), workers::reserve_count());
  OneRange chunks(range, plan, target.at);
  if (!by_ring) {
    Pipeline<OneRange, WholeFile, PeerGpuSink> pipeline(chunks, WholeFile(range));
    pipeline.run(plan, 1U, lease, neighbours.all(), more.all());
    return answer(pipeline, chunks, target);
  }
  const workers::SlowDiskGauge::Scope past_cache(workers::slow_disk_gauge, range.length);
  using Source = RingSource<WholeFile>;
  Pipeline<OneRange, Source, PeerGpuSink> pipeline(chunks, Source(*ring, WholeFile(range)));
  pipeline.run(plan, 1U, lease, neighbours.all(), more.all(), &past_cache);
  if (io::is_polled(completion) && pipeline.source().was_refused()) range.disk.cannot_be_polled();
  return answer(pipeline, chunks, target);
}

}  // namespace sluice::transfer
