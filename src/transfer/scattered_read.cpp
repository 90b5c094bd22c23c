// SPDX-License-Identifier: Apache-2.0
// One launch after the other, each of as many items as it takes.
#include "transfer/scattered_read.h"

namespace sluice::transfer {

using base::Outcome;

void ScatteredRead::run(std::span<ReadItem> items, staging::StagingLease& lease, CopyEngine engine,
                        Bond bond) noexcept {
  while (!items.empty()) {
    const LaunchCut cut = cut_launch(items);
    chunks_.cut(items.first(cut.items), cut.chunk_bytes, bond);
    items = items.subspan(cut.items);
    const bool by_kernel =
        engine != CopyEngine::engine && lease.device().can_scatter() && lease.kernel_worth_trying(chunks_.bytes());
    const ReadPlan plan = plan_scatter({.bytes = chunks_.bytes(),
                                        .room = lease.bytes().size(),
                                        .chunk_bytes = cut.chunk_bytes,
                                        .chunks = chunks_.chunks(),
                                        .alike_aligned = chunks_.are_alike_aligned(),
                                        .by_kernel = by_kernel,
                                        .others = workers::active_jobs(),
                                        .workers = workers::worker_count()});
    pipeline_.run(plan, lease.numbers(plan.chunks), lease, by_kernel);
    chunks_.settle(pipeline_.failure());
    const ReadItem& last = chunks_.items().back();
    if (bond == Bond::none || last.outcome.count() == last.length) continue;
    for (ReadItem& behind : items) {
      behind.outcome = Outcome::bytes(0);
      behind.remains = last.remains;
    }
    return;
  }
}

}  // namespace sluice::transfer
