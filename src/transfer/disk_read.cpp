// SPDX-License-Identifier: Apache-2.0
// Where a ring is to be had, a pipeline of one thread.
#include "transfer/disk_read.h"

#include <array>
#include <optional>
#include <span>
#include <utility>

#include "gpu/memory.h"
#include "io/uring.h"
#include "transfer/pipeline.h"
#include "transfer/plan.h"
#include "transfer/sink/kernels.h"
#include "transfer/sink/peer_gpu.h"
#include "transfer/sink/staged.h"
#include "transfer/source/page_cache.h"
#include "transfer/source/ring.h"
#include "workers/slow_disk_gauge.h"
#include "workers/work_queue.h"

namespace sluice::transfer {

using base::Outcome;

namespace {

using Source = RingSource<WholeFile>;

// What the pipeline's sink wants to know comes last.
template <typename Sink, typename... SinkArguments>
Outcome read_with(const FileRange& range, io::Uring& ring, const ReadPlan& plan, cuda::DevicePtr to,
                  io::CompletionMode completion, SinkArguments&&... sink_arguments) noexcept {
  OneRange chunks(range, plan, to);
  Pipeline<OneRange, Source, Sink> pipeline(chunks, Source(ring, WholeFile(range)));
  pipeline.run(plan, 1U, std::forward<SinkArguments>(sink_arguments)...);
  if (io::is_polled(completion) && pipeline.source().was_refused()) range.disk.cannot_be_polled();
  return pipeline.failure() != cuda::success ? gpu::as_outcome(pipeline.failure()) : chunks.answer();
}

}  // namespace

std::optional<Outcome> read_from_disk(const FileRange& range, staging::StagingLease& lease,
                                      const Target& target) noexcept {
  if (!range.disk.takes_rings()) return std::nullopt;
  const io::CompletionMode completion = range.disk.ring_to_use();
  const io::Uring::Use ring = io::Uring::of_this_thread(completion);
  if (!ring) return std::nullopt;
  const workers::SlowDiskGauge::Scope past_cache(workers::slow_disk_gauge, range.length);
  (*ring).register_buffer(lease.bytes());
  const unsigned buffers = array_buffers(range.length, range.drives, workers::active_jobs());
  if (buffers > 1 && target.session != nullptr) {
    const staging::MoreBuffers more(*target.session, buffers - 1);
    for (staging::StagingLease* const buffer : more.all()) (*ring).register_buffer(buffer->bytes());
    const ReadPlan plan = plan_disk_read(range, static_cast<unsigned>(1 + more.count()));
    return read_with<PeerGpuSink>(range, *ring, plan, target.at, completion, lease,
                                  std::span<staging::NeighbourLease>(), more.all(), &past_cache);
  }
  return read_with<StagedSink<OneRange, GatherKernel>>(range, *ring, plan_disk_read(range), target.at, completion,
                                                       lease, false, &past_cache);
}

}  // namespace sluice::transfer
