// SPDX-License-Identifier: Apache-2.0
// cuFileReadv and cuFileWritev: memory in several parts, one range of the file, one transfer.
#pragma once

#include <sys/types.h>

#include <span>

#include "base/outcome.h"
#include "base/strong.h"
#include "cufile.h"
#include "process/process.h"

namespace sluice::batch {

struct VectoredCall {
  base::Direction direction = base::Direction::read;
  void* handle = nullptr;
  std::span<const CUfileIOVec_t> parts;
  off_t file_offset = 0;
};

// Checks all parts before anything is moved, and moves them in their order, until one comes short. Answers how many
// bytes from the start on are in place; an error only when there are none.
base::Outcome transfer_vectored(process::Process& process, const VectoredCall& call) noexcept;

}  // namespace sluice::batch
