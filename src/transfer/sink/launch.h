// SPDX-License-Identifier: Apache-2.0
// A launch of a kernel that carries chunks out of a staging buffer, and how it is revoked where the device has not
// begun it. The proof that neither side misses the other stands at the head of the kernels' shared source.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "base/backoff.h"
#include "base/processor.h"
#include "base/spin_backoff.h"
#include "gpu/staging.h"
#include "staging/staging_buffer.h"

namespace sluice::transfer {

class Launch {
 public:
  // Before any chunk is released: helpers publish theirs while the launch is on its way.
  void prepare(staging::StagingWords& words, std::uint32_t first_number, std::uint32_t chunks) noexcept {
    words_ = &words;
    first_number_ = first_number;
    chunks_ = chunks;
  }
  void begin(std::uint32_t id) noexcept {
    id_ = id;
    std::atomic_ref(words_->tickets[0].value).store(0, std::memory_order_release);  // may still say revoked
  }
  void is_launched() noexcept { launched_ = std::chrono::steady_clock::now(); }

  std::uint32_t id() const noexcept { return id_; }
  std::chrono::nanoseconds age() const noexcept { return std::chrono::steady_clock::now() - launched_; }
  bool has_begun() const noexcept { return base::load_acquire(words_->launch.begun) == id_; }
  bool is_done() const noexcept { return base::load_acquire(words_->launch.done) == id_; }
  bool carries() const noexcept { return has_commit(Commit::go); }
  bool is_revoked() const noexcept { return has_commit(Commit::off); }
  bool has_committed() const noexcept { return base::load_acquire(words_->launch.commit) >> 2U == id_; }

  // The kernel's turn with this chunk; a length of 0: it is to do without. The bytes were written by a thread that made
  // the chunk ready after them; what is read here in that order, the device reads in that order.
  void give(std::uint32_t chunk, std::uint32_t length, std::uint32_t slot) const noexcept {
    const std::uint64_t value = gpu::ticket_of(first_number_ + chunk, length, slot);
    const std::atomic_ref ticket(words_->tickets[chunk % gpu::ticket_slots].value);
    if (chunk > 0) return ticket.store(value, std::memory_order_release);
    std::uint64_t none = 0;  // unless a revoke() came between
    ticket.compare_exchange_strong(none, value, std::memory_order_release, std::memory_order_relaxed);
  }
  // Has the kernel done with this chunk? Only where it tells of each.
  bool is_through(std::uint32_t chunk) const noexcept {
    // The last one of this slot, perhaps of an earlier request.
    const std::uint32_t last = base::load_acquire(words_->completed[chunk % gpu::ticket_slots]) - first_number_;
    return last < chunks_ && last >= chunk;
  }
  // The kernel is to do without the chunks from `next` up to `end`. Answers the first one that it has yet to be told
  // of: a slot has room when the kernel is through with the chunk that it had there.
  std::uint32_t give_nothing(std::uint32_t next, std::uint32_t end) const noexcept {
    for (; next < end; ++next) {
      if (next >= gpu::ticket_slots && !is_through(next - gpu::ticket_slots)) break;
      give(next, 0, 0);
    }
    return next;
  }

  // Has the first ticket say so. False: the kernel has begun, and has had that ticket. True: it has not, or it tells
  // by its commit word what it has found.
  //
  // Chunk 0's ticket is exchanged, not overwritten: when its slot has been used again the kernel has begun, and needs
  // what is there. Otherwise either the first block reads `revoked`, or this thread reads `begun`; a full fence on both
  // sides excludes that neither does. Afterwards no thread writes a ticket into slot 0 while the launch is pending: a
  // later chunk gets that slot only after the copy engine has emptied it, which is after the kernel lost the work.
  bool mark_revoked() const noexcept {
    const std::atomic_ref ticket(words_->tickets[0].value);
    std::uint64_t seen = ticket.load(std::memory_order_relaxed);
    do {
      if (seen == gpu::revoked_ticket) break;  // since it was asked before, and had not told by then
      if (seen != 0 && static_cast<std::uint32_t>(seen) != first_number_) return false;
    } while (!ticket.compare_exchange_weak(seen, gpu::revoked_ticket, std::memory_order_seq_cst));
    base::fence_with_device();
    return true;
  }

  // The kernel has begun, and says at once what it has found. (Or its device is lost, which the caller finds out.)
  void await_commit() const noexcept {
    constexpr int most_looks = 1000;
    base::Backoff backoff;
    for (int look = 0; look < most_looks && !has_committed(); ++look) backoff.wait();
  }

 private:
  enum class Commit : std::uint32_t { go = 1, off = 2 };
  bool has_commit(Commit commit) const noexcept {
    return base::load_acquire(words_->launch.commit) == (id_ << 2U | static_cast<std::uint32_t>(commit));
  }

  staging::StagingWords* words_ = nullptr;
  std::uint32_t id_ = 0;
  std::uint32_t first_number_ = 0;
  std::uint32_t chunks_ = 0;
  std::chrono::steady_clock::time_point launched_{};
};

}  // namespace sluice::transfer
