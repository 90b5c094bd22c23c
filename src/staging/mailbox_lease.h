// SPDX-License-Identifier: Apache-2.0
// Small reads into device memory without a copy for each: by a kernel that stays for the next.
#pragma once

#include <cstddef>
#include <span>

#include "gpu/session.h"
#include "staging/mailbox.h"
#include "staging/overlap_work.h"
#include "workers/active_count.h"

namespace sluice::staging {

// A thread inside a small read, for as long as this lives.
class ActiveScope {
 public:
  // The driver makes one copy after the other: where two wait for theirs, a kernel that is there already serves each
  // sooner; where four do, a launch for all of them pays, too.
  bool is_crowded() const noexcept { return member_.count() >= 2; }
  bool is_very_crowded() const noexcept { return member_.count() >= 4; }

 private:
  const workers::ActiveCount::Scope member_{workers::active_counts::small_reads};
};

// One request's use of a mailbox. Empty when there is none to be had.
class MailboxLease {
 public:
  // With the session's context current, for as long as this lives.
  explicit MailboxLease(gpu::Session& session) noexcept : session_(session), box_(take_mailbox(session)) {}
  ~MailboxLease();
  MailboxLease(const MailboxLease&) = delete;
  MailboxLease& operator=(const MailboxLease&) = delete;

  explicit operator bool() const noexcept { return box_ != nullptr; }

  // Where the bytes for this address are put; at most gpu::mailbox_bytes.
  std::span<std::byte> bytes(cuda::DevicePtr to, std::size_t length) const noexcept { return {box_->data(to), length}; }

  // Both return when the bytes are in place: success; or why they are not. While a kernel is at work there is time for
  // the file.
  //
  // By the resident kernel, which is launched for the second of two requests that follow each other soon.
  cuda::Result by_resident(cuda::DevicePtr to, std::size_t length, OverlapWork overlap) noexcept;
  cuda::Result by_copy(cuda::DevicePtr to, std::size_t length) noexcept;

 private:
  bool can_post(cuda::DevicePtr to, std::size_t length) const noexcept;
  bool is_served_by_resident(cuda::DevicePtr to, std::size_t length, OverlapWork& overlap) noexcept;

  gpu::Session& session_;
  Mailbox* box_;
};

}  // namespace sluice::staging
