// SPDX-License-Identifier: Apache-2.0
// A ring of the kernel's (io_uring) for one thread: no lock, no sharing. By raw system calls; where the kernel or a
// sandbox has no io_uring there is no ring, and callers use pread and pwrite.
#pragma once

#include <linux/io_uring.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/strong.h"

namespace sluice::io {

// How the ring learns that a transfer has ended.
enum class CompletionMode : std::uint8_t {
  interrupt,         // the drive says so
  polled,            // this thread looks (IOPOLL): O_DIRECT on drives with queues for it
  polled_by_kernel,  // a thread of the kernel's submits and looks (SQPOLL and IOPOLL)
};
inline constexpr std::size_t completion_modes = 3;

constexpr bool is_polled(CompletionMode completion) noexcept {
  return completion == CompletionMode::polled || completion == CompletionMode::polled_by_kernel;
}

// The answer to a request that the kernel has not tried: it had to wait for something, and no thread that waits for it
// could be started (a storm of signals, a limit on processes). A plain call does it.
constexpr bool was_not_tried(int error) noexcept {
  return error == ECANCELED;
}

struct UringRequest {
  base::Direction direction = base::Direction::read;
  int fd = -1;
  std::byte* address = nullptr;
  std::uint32_t length = 0;
  std::span<const iovec> vectors = {};  // in place of the two; they stay where they are until there is an answer
  base::FileOffset at = {};
  std::uint64_t tag = 0;
};

struct UringCompletion {
  std::uint64_t tag = 0;
  std::int32_t result = 0;  // a count, or -errno
};

class Uring {
 public:
  static constexpr unsigned depth = 32;  // requests in flight

  // The calling thread's ring of this kind, made with its first use and ended with the thread. Null where the kernel
  // refuses one, and inside a use further up this thread's stack (a signal handler that makes a transfer).
  class Use;
  static Use of_this_thread(CompletionMode completion) noexcept;

  // Requests inside this memory cost the kernel less from some requests on: it keeps the pages pinned (registered
  // buffers). The memory stays where it is as long as the process lives. Nothing comes of it where locked memory is
  // scarce or the kernel is older than 5.19; that makes no other difference.
  void register_buffer(std::span<std::byte> memory) noexcept;

  // At most `depth` requests may be on their way. What is added is submitted by the next wait().
  void add(const UringRequest& request) noexcept;
  // Submits, waits until something has ended, and answers how many answers were written. Where it has to wait, it does
  // so for `least` of them. When the kernel takes nothing more, what is on its way is answered first, and then comes
  // -errno: all else that was added has not been tried. A ring whose answers do not come is lost: to a holder
  // it says so from then on.
  int wait(std::span<UringCompletion, depth> completions, unsigned least = 1) noexcept {
    return submit_and_wait(completions, least, nullptr);
  }
  // The same, but after so long with what there is then, be it nothing. Kernels before 5.11 wait for `least`.
  int wait_a_while(std::span<UringCompletion, depth> completions, unsigned least,
                   std::chrono::microseconds at_most) noexcept;

  Uring(const Uring&) = delete;
  Uring& operator=(const Uring&) = delete;

 private:
  friend struct ThreadUrings;
  Uring() = default;
  ~Uring();
  bool open(CompletionMode completion) noexcept;
  bool set_up_as_asked(struct io_uring_params& params) noexcept;
  bool map(const struct io_uring_params& params) noexcept;
  void hide(const struct io_uring_params& params) noexcept;
  bool make_table() noexcept;
  int control(unsigned operation, void* argument, unsigned count) const noexcept;
  int buffer_of(const UringRequest& request) const noexcept;
  int submit_and_wait(std::span<UringCompletion, depth> completions, unsigned least,
                      const std::chrono::microseconds* at_most) noexcept;
  long enter(unsigned least, const std::chrono::microseconds* at_most) noexcept;
  void take_back_added() noexcept;
  unsigned take_completions(std::span<UringCompletion, depth> completions) noexcept;
  unsigned take_late_completions(std::span<UringCompletion, depth> completions,
                                 const std::chrono::microseconds* at_most) noexcept;

  int fd_ = -1;          // or the number that the kernel keeps the ring by
  bool hidden_ = false;  // the latter
  bool by_kernel_ = false;
  bool takes_limits_ = false;  // of how long to wait
  bool in_use_ = false;
  bool lost_ = false;  // answers of requests that were given up may still come: it is not used again
  enum class Table : std::uint8_t { untried, made, refused };
  Table table_ = Table::untried;                    // of what is in the page cache
  std::array<std::span<std::byte>, 4> registered_;  // as the table has it
  std::size_t registered_count_ = 0;
  unsigned served_ = 0;          // requests, up to `requests_before_table`
  unsigned added_ = 0;           // not submitted yet
  unsigned in_flight_ = 0;       // submitted, not answered yet
  int refusal_ = 0;              // why nothing more is taken, until that is told
  int waited_ms_ = 0;            // since, for what was on its way
  std::byte* queues_ = nullptr;  // both of them, in one mapping
  std::size_t queues_size_ = 0;
  io_uring_sqe* entries_ = nullptr;
  std::size_t entries_size_ = 0;
  unsigned* sq_tail_ = nullptr;
  unsigned* sq_flags_ = nullptr;
  unsigned* sq_array_ = nullptr;
  unsigned sq_mask_ = 0;
  unsigned* cq_head_ = nullptr;
  unsigned* cq_tail_ = nullptr;
  unsigned cq_mask_ = 0;
  io_uring_cqe* cqes_ = nullptr;
};

// Holds the ring for as long as one transfer takes.
class Uring::Use {
 public:
  explicit Use(Uring* ring, int error = 0) noexcept : ring_(ring), error_(error) {}
  ~Use() {
    if (ring_ != nullptr) ring_->in_use_ = false;
  }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  explicit operator bool() const noexcept { return ring_ != nullptr; }
  Uring& operator*() const noexcept { return *ring_; }
  // What the kernel has answered where there is none; 0 inside a use further up.
  int error() const noexcept { return error_; }

 private:
  Uring* ring_;
  int error_;
};

// A child of fork has none of its parent's rings: new ones are made there.
void rings_after_fork(bool in_child) noexcept;

}  // namespace sluice::io
