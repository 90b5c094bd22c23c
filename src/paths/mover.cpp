// Device memory by the driver, host memory by the kernel.
#include "paths/mover.h"

#include <utility>

#include "base/pause.h"
#include "transfer/host_copy.h"
#include "workers/headcount.h"

namespace sluice::paths {

using base::Outcome;

namespace {

using workers::Headcount;
using workers::headcounts::slab_copies;

Outcome answer(int result, std::size_t size) noexcept {
  return result == cuda::success ? Outcome::bytes(size) : gpu::as_outcome(result);
}

}  // namespace

Mover::Mover(const facts::BufferFacts& memory, Manner manner, staging::Slab& slab) noexcept
    : manner_(manner), slab_(slab) {
  if (facts::is_host(memory.kind)) return;
  session_.emplace(memory);
  just_begun_ = !session_->took_long();
  if (session_->status() != cuda::success || manner == Manner::plain) return;
  if (slab.pin(*session_)) just_begun_ = false;
}

// Waits for the copy. A word that the device writes is seen sooner than the driver says so: 6.9 us in place of 7.7 for
// 4 KiB on an H200. Not where several threads copy: the driver takes so long to put these writes into several streams
// that four threads have 4 KiB after 16.9 us in place of 9.6, eight after 24.5 in place of 15.4.
int Mover::end(int begun, std::uint64_t address, staging::Meanwhile& meanwhile) noexcept {
  if (begun != cuda::success) return begun;
  if (slab_copies.now() > 1) return session_->finish();
  const auto mark = slab_.next_mark(*session_);
  if (!mark || session_->mark(mark->seen_by_device, mark->value) != cuda::success) return session_->finish();
  base::Patience patience;
  while (base::look(*mark->word) != mark->value) {
    if (meanwhile.step()) continue;
    patience.wait();
    if (!patience.long_since()) continue;
    if (const int health = session_->health(address); health != cuda::success) return health;
  }
  return cuda::success;
}

Outcome Mover::to_memory(std::uint64_t address, std::span<const std::byte> from,
                         staging::Meanwhile meanwhile) noexcept {
  if (!session_) return transfer::copy_to_caller(address, from);
  if (session_->status() != cuda::success) return gpu::as_outcome(session_->status());
  const Headcount::Member one_more(slab_copies);
  return answer(manner_ == Manner::plain ? session_->copy_to_device_plainly(address, from)
                                         : end(session_->begin_copy_to_device(address, from), address, meanwhile),
                from.size());
}

// The memory was looked up before the file is: where that is still to come, nothing lies between that can take long.
Outcome Mover::from_memory(std::span<std::byte> to, std::uint64_t address, staging::Meanwhile meanwhile) noexcept {
  const bool just_now = std::exchange(just_begun_, false) && !meanwhile.has_looked();
  const gpu::Asked memory = just_now ? gpu::Asked::just_now : gpu::Asked::a_while_ago;
  if (!session_) return transfer::copy_from_caller(to, address);
  if (session_->status() != cuda::success) return gpu::as_outcome(session_->status());
  const Headcount::Member one_more(slab_copies);
  return answer(manner_ == Manner::plain
                    ? session_->copy_from_device_plainly(to, address)
                    : end(session_->begin_copy_from_device(to, address, memory), address, meanwhile),
                to.size());
}

}  // namespace sluice::paths
