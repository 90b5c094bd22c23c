// SPDX-License-Identifier: Apache-2.0
// Heads come first, then what is left of each item.
#include "transfer/layout.h"

#include <algorithm>

#include "gpu/memory.h"

namespace sluice::transfer {

using base::Outcome;

void ManyTargets::begin_cut(std::span<ReadItem> items, std::uint32_t chunk_bytes, Bond bond, bool in_blocks) noexcept {
  items_ = items;
  chunk_bytes_ = chunk_bytes;
  in_one_row_ = bond == Bond::one_transfer;
  in_blocks_ = in_blocks;
  heads_ = chunks_ = 0;
}

// An item's chunks, behind those that have theirs; of which a head, at `begin`, has got its number.
void ManyTargets::append(std::size_t item, std::uint32_t begin, std::uint32_t head_bytes) noexcept {
  Progress& progress = progress_[item];
  progress.begin = begin;
  progress.first = chunks_;
  progress.head_bytes = head_bytes;
  const std::uint64_t rest = items_[item].length - std::min<std::uint64_t>(head_bytes, items_[item].length);
  progress.row.end = progress.end = chunks_ + chunks_in(rest, chunk_bytes_);
  progress.comes_short.store(progress.end, std::memory_order_relaxed);
  progress.row.released.store(begin, std::memory_order_relaxed);
  progress.row.ended = progress.row.remains = progress.remains = false;
  progress.error = 0;
  progress.total = 0;
  for (; chunks_ < progress.end; ++chunks_) item_of_[chunks_] = static_cast<std::uint16_t>(item);
}

void ManyTargets::end_cut() noexcept {
  if (!in_one_row_) return;
  progress_[0].row.end = chunks_;
  progress_[0].comes_short.store(chunks_, std::memory_order_relaxed);
}

void ManyTargets::cut(std::span<ReadItem> items, std::uint32_t chunk_bytes, Bond bond) noexcept {
  begin_cut(items, chunk_bytes, bond, false);
  // In one row places come free in the order of release: there are no heads.
  if (chunk_bytes_ > staging::first_chunk_bytes && !in_one_row_) {
    for (std::size_t i = 0; i < items_.size() && heads_ < most_heads; ++i) {
      if (items_[i].length > staging::first_chunk_bytes) item_of_[heads_++] = static_cast<std::uint16_t>(i);
    }
  }
  chunks_ = heads_;
  std::uint32_t head = 0;
  for (std::size_t i = 0; i < items_.size(); ++i) {
    const bool has_head = head < heads_ && item_of_[head] == i;
    append(i, has_head ? head++ : chunks_, has_head ? staging::first_chunk_bytes : 0);
  }
  end_cut();
}

void ManyTargets::cut_in_blocks(std::span<ReadItem> items, std::uint32_t chunk_bytes, Bond bond) noexcept {
  begin_cut(items, chunk_bytes, bond, true);
  for (std::size_t i = 0; i < items_.size(); ++i) {
    const auto skip = static_cast<std::uint32_t>(items_[i].at.value % items_[i].block);
    const std::uint32_t begin = chunks_;
    if (skip > 0) item_of_[chunks_++] = static_cast<std::uint16_t>(i);
    append(i, begin, skip > 0 ? chunk_bytes_ - skip : 0);
  }
  end_cut();
}

void ManyTargets::write_targets(std::span<std::uint64_t, staging::most_targets> targets) const noexcept {
  for (std::size_t i = 0; i < items_.size(); ++i) {
    const Progress& progress = progress_[i];
    if (progress.head_bytes > 0) targets[progress.begin] = items_[i].to;
    cuda::DevicePtr target = items_[i].to + progress.head_bytes;
    for (std::uint32_t chunk = progress.first; chunk < progress.end; ++chunk, target += chunk_bytes_) {
      targets[chunk] = target;
    }
  }
}

bool ManyTargets::are_alike_aligned() const noexcept {
  return std::all_of(items_.begin(), items_.end(),
                     [&](const ReadItem& item) { return item.to % 16 == items_.front().to % 16; });
}

void ManyTargets::settle(std::size_t item, cuda::Result failure) noexcept {
  const Progress& progress = progress_[item];
  ReadItem& settled = items_[item];
  settled.remains = failure != cuda::success || progress.remains;
  if (failure != cuda::success) {
    settled.outcome = gpu::as_outcome(failure);
  } else if (progress.total == 0 && progress.error != 0) {
    settled.outcome = Outcome::system_error(progress.error);
  } else {
    settled.outcome = Outcome::bytes(progress.total);
  }
}

}  // namespace sluice::transfer
