// SPDX-License-Identifier: Apache-2.0
// What this folder does around a fork of the process.
#pragma once

#include "io/private_files.h"
#include "io/sentinel.h"
#include "io/uring.h"

namespace sluice::io {

inline void before_fork() noexcept {
  PrivateFile::before_fork();
}

inline void after_fork(bool in_child) noexcept {
  rings_after_fork(in_child);
  if (in_child) sentinel_after_fork_in_child();
  PrivateFile::after_fork(in_child);
}

}  // namespace sluice::io
