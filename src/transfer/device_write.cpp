// SPDX-License-Identifier: Apache-2.0
// What is known of the write gives its plan; the writers take turns at it, be it the caller alone.
#include "transfer/device_write.h"

#include <algorithm>
#include <optional>

#include "observe/copy_counters.h"
#include "observe/statistics.h"
#include "staging/neighbour.h"
#include "transfer/source/device.h"
#include "transfer/source/peer_gpu.h"
#include "transfer/write_layout.h"
#include "transfer/write_pipeline.h"
#include "workers/active_count.h"
#include "workers/slow_disk_gauge.h"
#include "workers/work_queue.h"

namespace sluice::transfer {

using base::FileOffset;
using base::Outcome;

namespace {

// Is the place in the page cache where writing begins and where it ends? What lies between is asked for chunk by chunk.
bool place_seems_cached(const FileRange& range) noexcept {
  constexpr std::uint64_t end_bytes = 64 << 10;
  return io::is_cached(range.place.fd, range.at, std::min(range.length, end_bytes)) &&
         (range.length <= end_bytes ||
          io::is_cached(range.place.fd, FileOffset{range.at.value + range.length - end_bytes}, end_bytes));
}

// Nothing where no neighbour lends its link: then no byte has been written. The page cache takes less than one link
// brings, so those that were not named are not asked for it.
std::optional<Outcome> write_by_links(const FileRange& range, staging::StagingLease& lease, const Target& from,
                                      const WritePlan& plan, const WritePace& pace, unsigned others) noexcept {
  if (from.lending == nullptr || !from.lending->asked ||
      !is_worth_lending(range.length, others, from.lending->least_bytes) ||
      (range.block == 1 && !from.lending->named)) {
    return std::nullopt;
  }
  staging::Neighbours neighbours(from.device, *from.session, *from.lending);
  if (neighbours.count() == 0) return std::nullopt;
  OneWrite chunks(range, from.at, plan_lent_write(plan));
  WritePipeline<OneWrite, PeerGpuSource> pipeline(chunks);
  pipeline.source().lend(neighbours.all());
  const cuda::Result failure = pipeline.run(pace, lease, [] {});
  if (pipeline.source().lent_bytes() > 0) observe::count_by_neighbours(base::Direction::write, from.device);
  return chunks.answer(failure);
}

}  // namespace

Outcome write_from_device(const FileRange& range, staging::StagingLease& lease, const Target& from) noexcept {
  const staging::LinkInUse in_use(from.lending != nullptr ? from.device : -1);
  workers::ActiveCount& writers = workers::active_counts::writers_of(range.file);
  const workers::ActiveCount::Scope writer(writers);
  const workers::SlowDiskGauge::Scope past_cache(workers::slow_disk_gauge, range.block > 1 ? range.length : 0);
  WriteShape shape{.length = range.length,
                   .block = range.block,
                   .beside = writer.count() > 1,
                   .may_prefetch = range.place.fd >= 0,
                   .place_cached = false,
                   .others = workers::active_jobs(),
                   .workers_suffice = workers::workers_suffice(workers::active_jobs() + 1),
                   .workers = workers::worker_count()};
  shape.place_cached = may_take_turns(shape) && place_seems_cached(range);
  const WritePlan plan = plan_write(shape);
  WritePace pace{.in_turns = true, .helpers = plan.helpers, .writers = &writers, .past_cache = &past_cache};
  if (plan.helpers > 0) {
    // The last turn may be another writer's: time to prefetch where the caller is likely to write next.
    pace.next_range =
        io::Prefetch::of_write_range(range.place, FileOffset{range.at.value + range.length},
                                     std::min(range.next_range, plan.first), io::Prefetch::Step::of_four_pages);
  }
  observe::count_copy(observe::CopyCounter::copy_engine);
  if (const auto written = write_by_links(range, lease, from, plan, pace, shape.others)) return *written;
  OneWrite chunks(range, from.at, plan);
  const cuda::Result failure = WritePipeline<OneWrite>(chunks).run(pace, lease, [] {});
  return chunks.answer(failure);
}

}  // namespace sluice::transfer
