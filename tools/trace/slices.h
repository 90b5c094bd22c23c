// SPDX-License-Identifier: Apache-2.0
// Events put together: what a thread did from when to when, and what lies inside of what.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "trace/recording.h"

namespace sluice::tools {

// Beginning and end of one thing, or a moment of its own.
struct Slice {
  sluice_trace_event begin{};
  sluice_trace_event end{};
  bool has_ended = false;  // else it was still going on when the recording ended
  bool is_moment = false;
  unsigned depth = 0;  // how many others lie around it

  std::uint64_t nanoseconds() const noexcept { return has_ended ? end.time - begin.time : 0; }
  std::int64_t result() const noexcept { return static_cast<std::int64_t>(end.a); }
};

// Of one thread, in the order of their beginnings. Ends without a beginning, which was lost, are left out.
std::vector<Slice> slices_of(const TracedThread& thread);

// The same as a walk: `begin` and `end` as they come, properly nested.
struct SliceVisitor {
  std::function<void(const sluice_trace_event&)> begin;
  std::function<void(const sluice_trace_event& begin, const sluice_trace_event& end)> end;
  std::function<void(const sluice_trace_event&)> moment;
};
void walk(const TracedThread& thread, const SliceVisitor& visitor);

// "posix (page_cache)" of path << 8 | reason.
std::string way_text(std::uint16_t way);
// "read 16.0 MiB", "read from file 64.0 KiB", "first byte".
std::string title_of(const sluice_trace_event& event);
// A word for the kind: "request", "file", "device", "worker", ...
const char* category_of(std::uint8_t kind) noexcept;

// One request of a process, with where its time went.
struct RequestSpan {
  const TracedProcess* process = nullptr;
  const TracedThread* thread = nullptr;
  Slice slice;
  std::uint64_t file_ns = 0;     // of the calling thread, in its own file reads and writes and waits for storage
  std::uint64_t device_ns = 0;   // in copies, launches and waits for the device
  std::uint64_t helpers_ns = 0;  // of workers that helped
  unsigned helpers = 0;

  bool is_write() const noexcept { return (slice.begin.detail & SLUICE_TRACE_WRITE) != 0; }
  std::uint64_t size() const noexcept { return slice.begin.b; }
  std::uint64_t moved() const noexcept {
    return slice.has_ended && slice.result() > 0 ? static_cast<std::uint64_t>(slice.result()) : 0;
  }
  std::string way() const;   // "posix (page_cache)"; "" while it goes on
  std::string file() const;  // its name, or "descriptor 7"
};
std::vector<RequestSpan> requests_of(const Recording& recording);

}  // namespace sluice::tools
