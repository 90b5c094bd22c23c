// SPDX-License-Identifier: Apache-2.0
// Kernels are launched aside, before the first byte is read. From then on host and devices speak by words in memory,
// and what no kernel of these carries the one does that stands in the stream.
#include "transfer/lent_stream_read.h"

#include <chrono>
#include <memory>
#include <optional>

#include "io/sentinel.h"
#include "observe/statistics.h"
#include "staging/shared_places.h"
#include "transfer/device_read.h"
#include "transfer/launched_aside.h"
#include "transfer/pipeline.h"
#include "transfer/plan.h"
#include "transfer/sink/link_kernels.h"
#include "transfer/sink/stream_engine.h"
#include "transfer/source/page_cache.h"
#include "workers/reserve.h"
#include "workers/work_queue.h"

namespace sluice::transfer {

using base::Outcome;

namespace {

using std::chrono::milliseconds;
constexpr LaunchedAside::Patience patience_of_streams{.answered = milliseconds(20), .launched = milliseconds(500)};

RestFromAside rest_of_streams;

// Streams that have work at the same time share the processors.
ReadPlan plan_lent_stream_read(const FileRange& range, cuda::DevicePtr to) noexcept {
  ReadPlan plan =
      plan_lent_kernel_read(range, to, staging::SharedPlaces::room, workers::worker_count(), workers::reserve_count());
  plan.helpers = stream::helpers_for_a_stream(plan.helpers);
  return plan;
}

Outcome read_by(LaunchedAside& launched, const FileRange& range, stream::StreamCopier& copier, int device) noexcept {
  StreamEngine engine(copier, launched.lease());
  Pipeline<OneRange, WholeFile, LinkKernelsSink<StreamEngine>> pipeline(launched.chunks(), WholeFile(range));
  pipeline.run(launched.plan(), 1U, launched.kernels(), engine, launched.places());
  if (pipeline.sink().lent_bytes() > 0) observe::count_by_neighbours(base::Direction::read, device);
  return pipeline.failure() != cuda::success ? gpu::as_outcome(pipeline.failure()) : launched.chunks().answer();
}

}  // namespace

std::optional<Outcome> read_in_stream_by_links(const FileRange& range, stream::StreamCopier& copier,
                                               const facts::BufferFacts& memory, cuda::DevicePtr to,
                                               const staging::LendingRules& lending) noexcept {
  if (!lending.by_kernel || !lending.switches_peers || !copier.has_kernel() || !io::Sentinel::is_there() ||
      !is_worth_lending(range.length, workers::active_jobs(), lending.least_bytes) || !seems_cached(range)) {
    return std::nullopt;
  }
  if (!rest_of_streams.is_over()) return std::nullopt;
  const LaunchedAside::Wanted wanted{.memory = memory, .to = to, .lending = &lending, .stream = &copier.device()};
  const std::shared_ptr<LaunchedAside> launched = LaunchedAside::begin(range, plan_lent_stream_read(range, to), wanted);
  if (launched == nullptr) return std::nullopt;
  const bool are_launched = launched->await(patience_of_streams) == LaunchedAside::Answer::launched;
  rest_of_streams.has_ended(are_launched);
  if (!are_launched) return std::nullopt;
  const Outcome read = read_by(*launched, range, copier, memory.device);
  launched->give_back();
  return read;
}

}  // namespace sluice::transfer
