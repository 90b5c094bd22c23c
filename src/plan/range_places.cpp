// SPDX-License-Identifier: Apache-2.0
#include "plan/range_places.h"

#include "gpu/memory.h"
#include "staging/neighbour.h"
#include "transfer/device_read.h"
#include "transfer/plan.h"

namespace sluice::plan {

namespace {

// As far as places at the distance of its parts tell.
bool is_cached(const paths::File& file, const Range& range) noexcept {
  const std::uint64_t end = range.at + range.size;
  for (std::uint64_t at = range.at; at < end; at += most_in_a_lent_part) {
    if (!transfer::is_cached_at(file.descriptor(), at)) return false;
  }
  return transfer::is_cached_at(file.descriptor(), end - 1);
}

}  // namespace

bool RangePlaces::are_one(const Range& one, const Range& next) {
  if (registration_of(one) != registration_of(next)) return false;
  const std::uint64_t size = one.size + next.size;
  if (one.address >= begin_ && one.address < end_ && size <= end_ - one.address) return true;
  const facts::BufferFacts memory = gpu::inspect(one.address);
  if (facts::is_host(memory.kind)) return facts::is_host(gpu::inspect(next.address).kind);
  // What no context owns may be mapped piece by piece.
  const bool whole = memory.context != nullptr && gpu::contiguous_bytes(memory.base, memory.size) == memory.size;
  begin_ = whole ? memory.base : 0;
  end_ = whole ? memory.base + memory.size : 0;
  return gpu::contiguous_bytes(one.address, size) == size;
}

std::uint64_t RangePlaces::piece_bytes(const Range& range) {
  return lent_to(range) < 0 ? part_bytes : lent_part_bytes(range.size);
}

int RangePlaces::lent_to(const Range& range) noexcept {
  if (&range != asked_for_) {
    asked_for_ = &range;
    lent_to_ = ask(range);
  }
  return lent_to_;
}

// Not for what goes another way, or waits for a disk, which serves several parts better than one.
int RangePlaces::ask(const Range& range) noexcept {
  if (direction_ == base::Direction::write || gpu::device_count() < 2) return -1;
  const process::FileTable::Pin file = process_.files().pin(range.handle);
  if (!file || file->operations != nullptr || file->facts.direct) return -1;
  const paths::Options& options = file->options;
  if (!options.lending.on || !transfer::is_worth_lending(range.size, 1, options.lending.least_bytes) ||
      options.copy_mode == paths::CopyMode::plain || options.coherent == gpu::Coherent::always) {
    return -1;
  }
  const facts::BufferFacts memory = gpu::inspect(range.address);
  const bool is_there = memory.kind == facts::MemoryKind::device && memory.device >= 0 &&
                        memory.device < static_cast<int>(gpu::max_devices);
  const bool may_be_lent =
      is_there && staging::who_may_lend(memory.device, options.lending, staging::Idle::in_time) != 0;
  return may_be_lent && is_cached(*file, range) ? memory.device : -1;
}

const void* RangePlaces::registration_of(const Range& range) noexcept {
  const auto found = process_.ranges().find(range.address, range.address, range.size);
  return found ? found->handle : nullptr;
}

}  // namespace sluice::plan
