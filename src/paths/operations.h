// SPDX-License-Identifier: Apache-2.0
// Calls of the operations that came with a handle. Where the session bounds how long one may take
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

// getRDMADeviceList, which is there. Late, or without a thread: nothing is known, and what it answers then is dropped.
struct ListAnswer {
  int count = 0;
  const sockaddr_t* addresses = nullptr;  // the file system's own
  bool late = false;
};
ListAnswer call_device_list(const File& file, void* handle) noexcept;

// getRDMADevicePriority, which is there, of this range and the port with this address.
struct PriorityAnswer {
  int priority = -1;
  bool late = false;
};
PriorityAnswer call_device_priority(const Ends& ends, const Operation& range, const sockaddr_t& port) noexcept;

}  // namespace sluice::paths
