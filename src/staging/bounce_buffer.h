// SPDX-License-Identifier: Apache-2.0
// Staging memory: page-aligned pieces of host memory, pinned where a driver lets us and there are not too many, kept by
// the thread that used them last until it ends. Taking one costs nothing once the thread has had one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace sluice::gpu {
class Session;
}

namespace sluice::staging {

inline constexpr std::size_t bounce_buffer_bytes = std::size_t{1} << 20;

// Pinned ones stay for the life of the process, so there are never more; others go when their thread ends, but for a
// few.
inline constexpr std::size_t most_pinned_bounce_buffers = 128;
inline constexpr std::size_t most_idle_plain_bounce_buffers = 16;

// A bounce buffer on loan. Empty when there was no memory.
class BounceBuffer {
 public:
  // From this thread's own, else from those that ended threads left behind, else new.
  static BounceBuffer take() noexcept;
  BounceBuffer(BounceBuffer&& other) noexcept;
  BounceBuffer& operator=(BounceBuffer&&) = delete;
  BounceBuffer(const BounceBuffer&) = delete;
  BounceBuffer& operator=(const BounceBuffer&) = delete;
  ~BounceBuffer();

  explicit operator bool() const noexcept { return memory_ != nullptr; }
  std::span<std::byte> bytes() const noexcept { return {memory_, memory_ == nullptr ? 0 : bounce_buffer_bytes}; }

  // Makes copies to and from devices run at the link's speed. In the session's context; a refusal (memlock, no
  // driver, enough are pinned) costs speed only. Once a bounce buffer: true when that was now, which takes long.
  bool pin(const gpu::Session& session) noexcept;

  // A word beside the bounce buffer's bytes that a device may write when its copies have come so far, and what it is to
  // write next. Only in the context that the bounce buffer was pinned in: when that goes, a device finds nothing there.
  struct Mark {
    const std::uint32_t* word;
    std::uint64_t seen_by_device;
    std::uint32_t value;
  };
  std::optional<Mark> next_mark(const gpu::Session& session) noexcept;

 private:
  explicit BounceBuffer(std::byte* memory) noexcept : memory_(memory) {}
  std::byte* memory_;
};

// Bounce buffers that exist, on loan or idle, and how many of them are pinned.
struct BounceBufferCounts {
  std::size_t buffers;
  std::size_t pinned;
};
BounceBufferCounts bounce_buffer_counts() noexcept;

// A child of fork has none of its parent's bounce buffers (they are not even mapped there): all is forgotten, nothing
// is freed. The pool is locked from before until after, so that no child inherits a lock that another thread held.
void bounce_buffers_before_fork() noexcept;
void bounce_buffers_after_fork(bool in_child) noexcept;

}  // namespace sluice::staging
