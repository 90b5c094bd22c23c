// SPDX-License-Identifier: Apache-2.0
// Events of transfers, written into a ring for each thread, in memory that others may look at (sluice_trace.h). Only
// while Watchers::recorder is set; then an event costs a look at the clock and a cache line. No lock, and nothing waits
// for a reader. Memory is asked for with a thread's first event.
#pragma once

#include <cstdint>
#include <string>

#include "sluice_trace.h"

namespace sluice::observe {

struct Event {
  sluice_trace_kind kind;
  sluice_trace_phase phase = SLUICE_TRACE_MOMENT;
  std::uint16_t detail = 0;
  std::int32_t fd = -1;
  std::uint64_t a = 0;
  std::uint64_t b = 0;
};

// Of this thread, about the request that it is at (request_at_hand).
void record(const Event& event) noexcept;

// The request that this thread works for, as events name it; 0: none.
std::uint32_t request_at_hand() noexcept;
void set_request_at_hand(std::uint32_t request) noexcept;
// A number that no other request has, made without a word to other threads.
std::uint32_t new_request_number() noexcept;

// profile.trace: "" is off, "on" records from now on. Else it names an abstract socket, where a process of the same
// user, or root's, takes the memory's descriptor, and so has the events also when the process has ended. For the
// control plane.
void start_recorder(const std::string& where) noexcept;

// A child of fork writes into memory of its own, made with its first event.
void recorder_after_fork_in_child() noexcept;

}  // namespace sluice::observe
