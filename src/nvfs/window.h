// SPDX-License-Identifier: Apache-2.0
// A piece of device memory that nvidia-fs.ko has pinned: a shadow buffer of host memory whose pages stand for it in the
// kernel, and a page by which the module tells of transfers.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "nvfs/node.h"
#include "nvfs/protocol.h"

namespace sluice::nvfs {

inline constexpr std::uint64_t window_bytes = 4UL << 20U;  // boundaries of windows are multiples of it
inline constexpr std::uint64_t shadow_bytes = 1UL << 20U;  // at most; what one call moves

// A file as the module wants it named.
struct FileName {
  int fd = -1;
  std::uint64_t inode = 0;
  std::uint32_t major = 0;  // of the file system's device, of a block device its own
  std::uint32_t minor = 0;
};

// One call: whole blocks of the file, from or to whole blocks of the window.
struct Piece {
  FileName file;
  std::uint64_t at = 0;       // in the file
  std::uint64_t address = 0;  // of device memory, as the module knows it
  std::uint64_t length = 0;
};

// Held for as long as a call takes. Its holder may try it again, as one among many; it is refused, then.
class WindowLock {
 public:
  bool try_lock() noexcept { return held_.exchange(1, std::memory_order_acquire) == 0; }
  void lock() noexcept {
    while (!try_lock()) held_.wait(1, std::memory_order_relaxed);
  }
  void unlock() noexcept {
    held_.store(0, std::memory_order_release);
    held_.notify_one();
  }

 private:
  std::atomic<std::uint32_t> held_{0};
};

// The module serves one call at a time for each mapping, and what it tells of one stays until the next: a window's
// lock is held from before the call until all of that has been read.
class Window {
 public:
  Window() noexcept = default;
  ~Window() { unmap(); }
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  // Where it lies; set once, before anything else.
  void cover(std::uint64_t begin, std::uint64_t length) noexcept {
    begin_ = begin;
    length_ = length;
  }
  std::uint64_t begin() const noexcept { return begin_; }
  std::uint64_t end() const noexcept { return begin_ + length_; }
  WindowLock& lock() noexcept { return lock_; }

  // All that follows: with the lock held.

  // 0, or the errno that says why it cannot be had. `gpu_on_bus`: as MapArguments has it.
  int map(const Node& node, std::uint64_t gpu_on_bus) noexcept;
  void unmap() noexcept;
  // Not in the child of a fork, which has none of it.
  bool is_mapped() const noexcept;

  // How much of [address, address + length) one call may move.
  std::uint64_t longest_call(std::uint64_t address, std::uint64_t length) const noexcept;

  // Both answer as the module does: a count, or -errno. begin() answers 0 where the call is under way; its end is then
  // seen by has_ended(), once.
  std::int64_t move(const Node& node, Call call, const Piece& piece) noexcept;
  std::int64_t begin(const Node& node, Call call, const Piece& piece) noexcept;
  bool has_ended() const noexcept;
  std::int64_t ended_with() const noexcept { return fence_->result; }

  // What the last call has told.
  bool is_dead() const noexcept { return state() == State::dead; }
  bool is_sparse() const noexcept { return state() == State::sparse; }
  // False where the page is not as this library knows it.
  bool is_understood() const noexcept;
  std::span<const Hole> holes() const noexcept { return {fence_->holes.data(), fence_->hole_count}; }
  std::uint64_t holes_counted_from() const noexcept { return static_cast<std::uint64_t>(fence_->file_offset); }

  // When it was used last, on a clock that counts uses.
  std::atomic<std::uint64_t> used{0};

 private:
  State state() const noexcept;
  void clear_state() noexcept;
  std::int64_t hand_over(const Node& node, Call call, const Piece& piece, std::uint8_t flags) noexcept;

  std::uint64_t begin_ = 0;
  std::uint64_t length_ = 0;
  WindowLock lock_;
  std::byte* shadow_ = nullptr;
  std::uint64_t shadow_length_ = 0;
  FencePage* fence_ = nullptr;
  std::uint64_t fence_value_ = 0;
  unsigned process_ = 0;  // the number of forks until it was mapped
};

// In the child: what was mapped in the parent is not there.
void windows_after_fork_in_child() noexcept;

}  // namespace sluice::nvfs
