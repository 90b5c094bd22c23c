// SPDX-License-Identifier: Apache-2.0
// Mailboxes: pieces of pinned memory, each a little more than a small request, which a kernel of ours takes bytes from.
// A context has a row of them; a read that gets none does without.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "base/cooldown.h"
#include "base/processor.h"
#include "base/spin_backoff.h"
#include "gpu/mailbox.h"
#include "gpu/memory.h"
#include "gpu/session.h"
#include "staging/overlap_work.h"

namespace sluice::staging {

struct MailboxRow;

// Belongs to the thread that has taken it.
struct alignas(base::line_bytes) Mailbox {
  std::atomic<bool> taken{false};
  std::uint8_t index = 0;
  std::uint32_t number = 0;     // of the last request
  std::uint32_t launch_id = 0;  // of the last launch that serves it; 0: none
  MailboxRow* row = nullptr;
  std::byte* memory = nullptr;
  cuda::Stream stream = nullptr;
  std::chrono::steady_clock::time_point launched;
  std::chrono::steady_clock::time_point used;  // last served by a resident kernel, or in its place
  bool is_slow = false;                        // the launch did not begin soon
  base::TimedCooldown cooldown;                // after such a launch

  gpu::MailboxWords& words() const noexcept { return *reinterpret_cast<gpu::MailboxWords*>(memory); }
  // Where the bytes wait that go to this address.
  std::byte* data(cuda::DevicePtr to) const noexcept { return memory + gpu::mailbox_data + to % 16; }

  std::uint64_t answer() const noexcept { return std::atomic_ref(words().answer).load(std::memory_order_acquire); }
  bool has_begun() const noexcept { return base::load_acquire(words().begun) == launch_id; }
  // No launch is going to look at it.
  bool is_free() const noexcept { return launch_id == 0 || answer() >> 32U == launch_id; }

  // A launch that does not begin soon has cost its waiter time, and costs the program's kernels some when it
  // does begin: there is no other for a while.
  bool is_cooling_down() const noexcept {
    return cooldown.was_needed() && !cooldown.is_over(std::chrono::steady_clock::now());
  }
  void has_served() noexcept {
    if (!is_slow) cooldown.forget();
  }

  // The bytes are in their place. A kernel that looks takes them to `to`.
  void post(cuda::DevicePtr to, std::size_t length) noexcept;
  // Waits for what was posted. False: it has not been served and will not be, because the launch has left or was called
  // off; or the device is lost, or the memory.
  bool await(const gpu::Session& session, cuda::DevicePtr to, base::WaitMode waiting, OverlapWork& overlap) noexcept;

 private:
  bool revoke() noexcept;
};

struct MailboxRow {
  std::atomic<cuda::Context> context{nullptr};  // a hint; certain is what `device` says to the holder of a box
  gpu::Mailboxes device;
  std::byte* memory = nullptr;
  std::atomic<std::uint32_t> last_launch_id{0};
  std::array<Mailbox, gpu::most_mailboxes> boxes;

  std::uint32_t next_launch_id() noexcept;
};

// A box in the session's context, with that context current. Null when there is none to be had. One that this thread
// had before comes first.
Mailbox* take_mailbox(const gpu::Session& session) noexcept;
void give_back(Mailbox& box) noexcept;

// A child of fork has none of its parent's mailboxes.
void mailboxes_after_fork_in_child() noexcept;

}  // namespace sluice::staging
