// SPDX-License-Identifier: Apache-2.0
// A pipeline of one thread: io_uring fills places, the copy engine empties them as they come.
#include "transfer/deep_read.h"

#include "gpu/memory.h"
#include "transfer/pipeline.h"
#include "transfer/sink/as_they_come.h"
#include "transfer/source/ring.h"

namespace sluice::transfer {

// Writes down what came of items before their listener hears of them.
class DeepRead::Telling {
 public:
  Telling(DeepRead& read, std::span<DiskReadItem> items, Listener& listener) noexcept
      : read_(read), items_(items), listener_(listener) {}
  void through(std::span<const std::uint16_t> ended) noexcept {
    for (const std::uint16_t i : ended) tell(i);
    listener_.through(ended);
  }
  void tell(std::size_t i) noexcept {
    items_[i].item.outcome = read_.items_[i].outcome;
    items_[i].item.remains = read_.items_[i].remains;
  }

 private:
  DeepRead& read_;
  std::span<DiskReadItem> items_;
  Listener& listener_;
};

void DeepRead::run(std::span<DiskReadItem> items, staging::StagingLease& lease, io::Uring& disk, Listener& listener,
                   Bond bond) noexcept {
  for (std::size_t i = 0; i < items.size(); ++i) {
    items_[i] = items[i].item;
    items_[i].block = items[i].block;
  }
  const std::span ours = std::span(items_).first(items.size());
  disk.register_buffer(lease.bytes());
  const ReadPlan cut = plan_disk_items(ours);
  chunks_.cut_in_blocks(ours, cut.chunk_bytes, bond);
  ReadPlan plan = cut;
  plan.chunks = chunks_.chunks();
  Telling telling(*this, items, listener);
  using Source = RingSource<LeftToOthers>;
  Pipeline<ManyTargets, Source, AsTheyCome<Telling>> pipeline(chunks_, Source(disk, LeftToOthers()));
  pipeline.run(plan, 1U, lease, telling);
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (pipeline.sink().has_told(i)) continue;
    chunks_.settle(i, pipeline.failure());
    telling.tell(i);
    items[i].item.remains = true;
  }
}

}  // namespace sluice::transfer
