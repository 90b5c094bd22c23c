// SPDX-License-Identifier: Apache-2.0
// Rows stand in a list that only grows. Taking a box is an exchange, and no thread waits. A thread that has all boxes
// of a row has the row: so it changes its context.
#include "staging/mailbox.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <new>

#include "base/processor.h"
#include "gpu/session.h"
#include "gpu/staging_memory.h"
#include "observe/copy_counters.h"
#include "workers/work_queue.h"

namespace sluice::staging {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t most_rows = 16;

std::array<std::atomic<MailboxRow*>, most_rows> mailbox_rows{};
std::mutex opening;

// The context that was refused a row last: it is not asked for again with each request, but a second later.
std::atomic<cuda::Context> refused_context{nullptr};
std::atomic<unsigned long long> refused_id{0};
std::atomic<Clock::time_point> refused_at{};

bool was_refused(const gpu::Session& session) noexcept {
  return refused_context.load(std::memory_order_relaxed) == session.context() &&
         refused_id.load(std::memory_order_relaxed) == session.context_id() &&
         Clock::now() - refused_at.load(std::memory_order_relaxed) < std::chrono::seconds(1);
}

void refuse(const gpu::Session& session) noexcept {
  refused_at.store(Clock::now(), std::memory_order_relaxed);
  refused_id.store(session.context_id(), std::memory_order_relaxed);
  refused_context.store(session.context(), std::memory_order_relaxed);
}

// A kernel that has not begun by then waits for another one to end; beside large requests of ours it takes a while.
std::chrono::microseconds mailbox_timeout() noexcept {
  return std::chrono::microseconds(workers::active_jobs() > 0 ? 400 : 60);
}

// Which box of a row this thread had last.
constinit thread_local std::uint8_t own_box = 0;

// Acquire: as the one before has left it.
bool take(Mailbox& box) noexcept {
  return !box.taken.load(std::memory_order_relaxed) && !box.taken.exchange(true, std::memory_order_acquire);
}

// Else the first one that is free: so no more of them come to be used, and get streams, than threads read at once.
Mailbox* take_any(MailboxRow& row) noexcept {
  if (Mailbox& own = row.boxes[own_box]; take(own)) return &own;
  for (std::size_t i = 0; i < row.boxes.size(); ++i) {
    if (!take(row.boxes[i])) continue;
    own_box = static_cast<std::uint8_t>(i);
    return &row.boxes[i];
  }
  return nullptr;
}

struct Found {
  MailboxRow* row = nullptr;  // of this context
  Mailbox* box = nullptr;
};

Found find(const gpu::Session& session) noexcept {
  for (auto& slot : mailbox_rows) {
    MailboxRow* const row = slot.load(std::memory_order_acquire);
    if (row == nullptr) break;
    if (row->context.load(std::memory_order_relaxed) != session.context()) continue;
    Mailbox* const box = take_any(*row);
    if (box == nullptr || row->device.serves(session.context(), session.context_id())) return {row, box};
    give_back(*box);
  }
  return {};
}

// A launch may look at the box for as long as its context lives. A kernel that has begun leaves in a millisecond.
bool is_done_with(const Mailbox& box) noexcept {
  return box.is_free() || (box.has_begun() && Clock::now() - box.launched > std::chrono::seconds(1));
}

// All boxes of a row that no thread uses and no device looks at, or none.
bool take_all(MailboxRow& row) noexcept {
  std::size_t count = 0;
  while (count < row.boxes.size() && !row.boxes[count].taken.exchange(true, std::memory_order_acquire)) ++count;
  if (count == row.boxes.size() &&
      (!row.device.is_attached() || std::all_of(row.boxes.begin(), row.boxes.end(), is_done_with))) {
    return true;
  }
  while (count > 0) give_back(row.boxes[--count]);
  return false;
}

MailboxRow* make_row() noexcept {
  constexpr gpu::StagingShape shape{.ahead = gpu::Mailboxes::memory_bytes};
  std::byte* const memory = gpu::map_staging(shape);
  if (memory == nullptr) return nullptr;
  auto* const row = new (std::nothrow) MailboxRow;
  if (row == nullptr) {
    gpu::unmap_staging(memory, shape);
    return nullptr;
  }
  row->memory = memory;
  for (std::size_t i = 0; i < row->boxes.size(); ++i) row->boxes[i].taken.store(true, std::memory_order_relaxed);
  return row;
}

// A new row, else one whose context needs it no more; all of its boxes are the caller's.
MailboxRow* unused_row(const gpu::Session& session) noexcept {
  for (auto& slot : mailbox_rows) {
    MailboxRow* const row = slot.load(std::memory_order_relaxed);
    const bool is_unused = row != nullptr && row->context.load(std::memory_order_relaxed) == nullptr;
    if (is_unused && row->device.may_become(session.context(), session.context_id()) && take_all(*row)) return row;
  }
  for (auto& slot : mailbox_rows) {
    if (slot.load(std::memory_order_relaxed) != nullptr) continue;
    MailboxRow* const row = make_row();
    if (row != nullptr) slot.store(row, std::memory_order_release);
    return row;
  }
  for (auto& slot : mailbox_rows) {
    MailboxRow* const row = slot.load(std::memory_order_relaxed);
    if (row->context.load(std::memory_order_relaxed) != nullptr && take_all(*row)) return row;
  }
  return nullptr;
}

bool open_row(const gpu::Session& session) noexcept {
  MailboxRow* const row = unused_row(session);
  if (row == nullptr) return false;
  row->context.store(nullptr, std::memory_order_relaxed);
  std::memset(row->memory, 0, gpu::Mailboxes::memory_bytes);
  const bool attached = row->device.attach(session.context(), session.context_id(),
                                           {row->memory, gpu::Mailboxes::memory_bytes}) == cuda::success;
  for (std::size_t i = 0; i < row->boxes.size(); ++i) {
    Mailbox& box = row->boxes[i];
    box.index = static_cast<std::uint8_t>(i);
    box.number = box.launch_id = 0;
    box.row = row;
    box.memory = row->memory + i * gpu::mailbox_stride;
    box.stream = nullptr;
    box.used = {};
    box.cooldown = {};
  }
  if (attached) row->context.store(session.context(), std::memory_order_relaxed);
  for (Mailbox& box : row->boxes) give_back(box);
  // These take memory when they are asked for the first time.
  static_cast<void>(workers::active_jobs());
  static_cast<void>(workers::worker_count());
  return attached;
}

}  // namespace

std::uint32_t MailboxRow::next_launch_id() noexcept {
  const std::uint32_t next = last_launch_id.fetch_add(1, std::memory_order_relaxed) + 1;
  return next != 0 ? next : next_launch_id();
}

Mailbox* take_mailbox(const gpu::Session& session) noexcept {
  if (session.status() != cuda::success) return nullptr;
  Found found = find(session);
  if (found.row != nullptr) return found.box;
  if (was_refused(session)) return nullptr;
  {
    const std::lock_guard lock(opening);
    found = find(session);
    if (found.row == nullptr && !open_row(session)) {
      refuse(session);
      return nullptr;
    }
  }
  return found.row != nullptr ? found.box : find(session).box;
}

void give_back(Mailbox& box) noexcept {
  box.taken.store(false, std::memory_order_release);
}

void Mailbox::post(cuda::DevicePtr to, std::size_t length) noexcept {
  // The low half is never 0: that is how no request looks.
  if ((++number & 0xffffU) == 0) ++number;
  const auto request = gpu::mailbox_request(number, to, static_cast<std::uint32_t>(length));
  std::atomic_ref(words().request[1]).store(request.what, std::memory_order_release);
  std::atomic_ref(words().request[0]).store(request.where, std::memory_order_release);
}

// Takes the request back from a kernel that has not begun. False: it has, and the request stands.
//
// Either the kernel looks after this thread has taken the request away, and finds none; or it has said `begun` before
// this thread looks. A full fence on both sides excludes that neither is so. Where both are, the request is put back:
// the kernel serves a number once, whether it has seen it before or sees it now.
bool Mailbox::revoke() noexcept {
  const std::atomic_ref first(words().request[0]);
  const std::uint64_t request = first.load(std::memory_order_relaxed);
  first.store(0, std::memory_order_seq_cst);
  base::fence_with_device();
  if (has_begun()) {
    first.store(request, std::memory_order_release);
    return false;
  }
  observe::count_copy(observe::CopyCounter::kernel_revoked);
  return true;
}

bool Mailbox::await(const gpu::Session& session, cuda::DevicePtr to, base::WaitMode waiting,
                    OverlapWork& overlap) noexcept {
  constexpr int looks_a_clock = 64;
  constexpr int busy = 1000;  // from there on, looks are further apart
  bool begun = false;
  base::SpinBackoff backoff;
  for (int looks = 1;; ++looks) {
    const std::uint64_t seen = answer();
    if (static_cast<std::uint32_t>(seen) == number) return true;
    if (seen >> 32U == launch_id) return false;
    if (!begun && (looks % looks_a_clock == 0 || looks > busy)) {
      begun = has_begun();
      if (!begun && Clock::now() - launched > mailbox_timeout()) {
        is_slow = true;
        cooldown.begin(Clock::now());
        if (revoke()) return false;
        begun = true;
      }
    }
    if (overlap.step()) continue;
    backoff.wait(waiting);
    if (backoff.long_since() && session.health(to) != cuda::success) {
      if (!begun) revoke();  // or a kernel that begins later would take what is in the box by then
      return false;
    }
  }
}

void mailboxes_after_fork_in_child() noexcept {
  for (auto& slot : mailbox_rows) slot.store(nullptr, std::memory_order_relaxed);
  refused_context.store(nullptr, std::memory_order_relaxed);
}

}  // namespace sluice::staging
