// SPDX-License-Identifier: Apache-2.0
// A call of an operation that came with a handle. Where the session bounds how long it may take
// (sluice.operation_timeout_ms) it is made by a thread of its own, which is left to itself when time is up.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/strong.h"
#include "paths/path.h"

namespace sluice::paths {

struct Operation {
  base::Direction direction;
  std::uint64_t address;
  std::size_t size;
  std::uint64_t at;
  const char* token = nullptr;  // what describes the memory to a server; null: it is host memory
};
struct OperationAnswer {
  ssize_t count;      // at most what was asked for; -1: see error
  int error = 0;      // never 0 then
  bool late = false;  // it goes on, and may answer at any time
};

// An operation that is late does not reach host memory of the caller's any more: bounded ones get memory of their
// thread's, and so at most 1 MiB at a time. What a token names is the caller's to take back.
OperationAnswer call_operation(const Ends& ends, const Operation& operation) noexcept;

}  // namespace sluice::paths
