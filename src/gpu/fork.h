// SPDX-License-Identifier: Apache-2.0
// What this folder does around a fork of the process.
#pragma once

#include "gpu/cuda_api.h"
#include "gpu/own_streams.h"

namespace sluice::gpu {

inline void before_fork() noexcept {
  driver_before_fork();
  own_streams_before_fork();
}

inline void after_fork(bool in_child) noexcept {
  own_streams_after_fork();
  driver_after_fork(in_child);
}

}  // namespace sluice::gpu
