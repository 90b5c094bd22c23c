// SPDX-License-Identifier: Apache-2.0
// What this folder does around a fork of the process.
#pragma once

#include "staging/bounce_buffer.h"
#include "staging/mailbox.h"
#include "staging/neighbour.h"
#include "staging/shared_places.h"
#include "staging/staging_buffer.h"

namespace sluice::staging {

inline void before_fork() noexcept {
  bounce_buffers_before_fork();
}

inline void after_fork(bool in_child) noexcept {
  bounce_buffers_after_fork(in_child);
  if (!in_child) return;
  neighbours_after_fork_in_child();
  shared_places_after_fork_in_child();
  staging_after_fork_in_child();
  mailboxes_after_fork_in_child();
}

}  // namespace sluice::staging
