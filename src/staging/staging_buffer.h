// SPDX-License-Identifier: Apache-2.0
// Staging buffers: pinned memory that requests are carried through in chunks, with what a device needs to work on it.
// A context has few; a request that gets none does without.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/processor.h"
#include "base/spin_backoff.h"
#include "gpu/memory.h"
#include "gpu/session.h"
#include "gpu/staging.h"
#include "workers/helper_tuner.h"

namespace sluice::staging {

// Each buffer has so much room for chunks at least; one of a context has more (StagingLease::bytes).
inline constexpr std::size_t staging_bytes = std::size_t{4} << 20;
inline constexpr std::uint32_t most_slots = 256;
static_assert(most_slots <= gpu::ticket_slots);
inline constexpr std::uint32_t most_targets = 524;

// The words that host and device share; in the buffer's pinned memory, before its bytes.
struct StagingWords {
  std::array<gpu::Ticket, gpu::ticket_slots> tickets;
  std::array<std::uint32_t, gpu::ticket_slots> completed;
  alignas(base::line_bytes) gpu::LaunchWords launch;
  alignas(base::line_bytes) std::uint32_t copied;  // by the copy engine: marks of the copy stream
  alignas(base::line_bytes) std::array<std::uint64_t, most_targets> targets;  // of a scatter launch, one a chunk
};

// One request's use of a staging buffer. Empty when all are taken or none can be had in this context.
class StagingLease {
 public:
  // With the session's context current. The one that has more room than others, when it is free and `bytes` would fill
  // any other.
  static StagingLease take(const gpu::Session& session, std::uint64_t bytes = 0) noexcept;
  StagingLease(StagingLease&& other) noexcept;
  StagingLease& operator=(StagingLease&&) = delete;
  StagingLease(const StagingLease&) = delete;
  StagingLease& operator=(const StagingLease&) = delete;
  ~StagingLease();

  explicit operator bool() const noexcept { return buffer_ != nullptr; }

  // A little more than that room: places may begin off a page boundary.
  std::span<std::byte> bytes() const noexcept;
  StagingWords& words() const noexcept;
  gpu::Staging& device() const noexcept;

  // Numbers that none of the buffer's places has had, `count` of them in a row.
  std::uint32_t numbers(std::uint32_t count) noexcept;
  std::uint32_t next_launch_id() noexcept;

  // A launch was revoked: it may look at the words until the device gets to it. Until then there is no other.
  void revoked(std::uint32_t launch_id) noexcept;
  // After a launch that was revoked the kernel is left alone for a number of requests, the longer the more often; a
  // request of many megabytes counts for several, as without the kernel it takes twice its time.
  bool kernel_worth_trying(std::uint64_t bytes) noexcept;
  void kernel_did_well() noexcept;
  // The same for requests beside others, which wait longer for their kernels to begin: not worth trying for a while
  // after one that did begin, but late.
  bool kernel_worth_trying_in_crowd() noexcept;
  // Would read_to_device() have a kernel carry what the page cache has for one of many threads?
  bool has_prompt_kernel() noexcept;
  void kernel_began(bool late) noexcept;
  // Of large requests that a kernel carries, and that are about as long.
  workers::HelperTuner& tuner_for(std::uint64_t bytes) noexcept;
  // Has StagingWords::copied come to this mark? Marks may come round.
  bool has_copied(std::uint32_t mark) const noexcept;
  // Waits until StagingWords::copied has come to this. success, or what the device has died of meanwhile.
  cuda::Result await_copied(std::uint32_t count, base::WaitMode waiting = base::WaitMode::spin) const noexcept;
  // The device has refused something: the staging buffer is not used again unless the device lives on.
  void condemn() noexcept;
  // The same, when copies may be on their way: these come to their end first.
  void give_up() noexcept;

  struct StagingBuffer;

 private:
  explicit StagingLease(StagingBuffer* buffer) noexcept : buffer_(buffer) {}
  StagingBuffer* buffer_;
};

// The device begins when it has the first chunk, and that is the caller's, which reads it behind the launch: other
// helpers have read some by then. So it is a short one.
inline constexpr std::uint32_t first_chunk_bytes = 16 << 10;

// A kernel that has not begun by then waits for another one to end, or for the device to turn to this process. A
// request alone, for which the copy engine would take twice the kernel's time, is worth waiting for a quarter of the
// difference.
constexpr std::chrono::microseconds lone_kernel_start_timeout(std::uint64_t bytes) noexcept {
  constexpr std::uint64_t bytes_a_microsecond = 200 << 10;
  using std::chrono::microseconds;
  return std::clamp(microseconds(bytes / bytes_a_microsecond), microseconds(60), microseconds(1000));
}

std::size_t staging_buffer_count() noexcept;

// A child of fork has none of its parent's buffers.
void staging_after_fork_in_child() noexcept;

}  // namespace sluice::staging
