// SPDX-License-Identifier: Apache-2.0
// The hooks that tell those that watch what a transfer is at: static probes (usdt_probes.h), recorded events
// (recorder.h), ranges of a profiler (ranges.h). One line a place; unwatched, each is one load and a branch.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/outcome.h"
#include "base/strong.h"
#include "observe/probe_switch.h"
#include "observe/recorder.h"
#include "sluice.h"

namespace sluice::observe {

// One transfer, from its call to its answer, on the thread that does it.
struct RequestShape {
  base::Direction direction = base::Direction::read;
  int fd = -1;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::int64_t buffer_offset = 0;
  std::uint16_t from = 0;  // of sluice_trace_call: a batch, a stream, a vectored call
};

class RequestProbe {
 public:
  // `shape` tells it, only when a tool watches.
  template <typename Shape>
  explicit RequestProbe(const Shape& shape) noexcept {
    if (Watchers::now().any()) [[unlikely]]
      begin(shape());
  }
  RequestProbe(const RequestProbe&) = delete;
  RequestProbe& operator=(const RequestProbe&) = delete;

  // Once, with its answer.
  void end(base::Outcome outcome) noexcept {
    if (watched_) [[unlikely]]
      tell_end(outcome);
  }

 private:
  friend void tell_decision(sluice_path_t path, sluice_reason_t reason, int device) noexcept;
  friend void tell_fallback(int fd, std::uint64_t before, sluice_path_t path, sluice_reason_t reason) noexcept;
  void begin(const RequestShape& shape) noexcept;
  void tell_end(base::Outcome outcome) noexcept;

  bool watched_ = false;
  // What follows is set by begin().
  bool has_range_;
  std::uint16_t way_;
  int device_;
  std::uint32_t number_;
  std::uint32_t outer_;
  RequestProbe* before_;
  std::chrono::steady_clock::time_point began_;
  RequestShape shape_;
};

// The request at hand: its way has been chosen.
void tell_decision(sluice_path_t path, sluice_reason_t reason, int device) noexcept;
inline void decided(sluice_path_t path, sluice_reason_t reason, int device) noexcept {
  if (Watchers::now().any()) [[unlikely]]
    tell_decision(path, reason, device);
}

// The drive has given it up after so many bytes; from here on it goes this way.
void tell_fallback(int fd, std::uint64_t before, sluice_path_t path, sluice_reason_t reason) noexcept;
inline void fell_back(int fd, std::uint64_t before, sluice_path_t path, sluice_reason_t reason) noexcept {
  if (Watchers::now().any()) [[unlikely]]
    tell_fallback(fd, before, path, reason);
}

// Something that a thread does for a request, and that takes time. Only recorded.
class PhaseProbe {
 public:
  explicit PhaseProbe(sluice_trace_kind kind, std::uint64_t b = 0, std::uint64_t a = 0, int fd = -1) noexcept
      : kind_(kind), recorded_(Watchers::now().want(Watchers::recorder)) {
    if (recorded_) [[unlikely]]
      record({kind, SLUICE_TRACE_BEGIN, 0, fd, a, b});
  }
  ~PhaseProbe() {
    if (recorded_) [[unlikely]]
      record({kind_, SLUICE_TRACE_END, 0, -1, result_, 0});
  }
  PhaseProbe(const PhaseProbe&) = delete;
  PhaseProbe& operator=(const PhaseProbe&) = delete;

  // What its end tells. Gives it back.
  template <typename Answer>
  Answer ends(Answer answer) noexcept {
    result_ = static_cast<std::uint64_t>(answer);
    return answer;
  }
  base::Outcome ends(base::Outcome outcome) noexcept {
    result_ = static_cast<std::uint64_t>(outcome.value());
    return outcome;
  }

 private:
  const sluice_trace_kind kind_;
  const bool recorded_;
  std::uint64_t result_ = 0;
};

// Entries of a batch that go together. `bytes` is asked for their sum, only when a tool watches.
class GroupProbe {
 public:
  template <typename Bytes>
  GroupProbe(base::Direction direction, std::uint64_t entries, Bytes bytes) noexcept {
    if (Watchers::now().any()) [[unlikely]]
      begin(direction, entries, bytes());
  }
  ~GroupProbe() {
    if (recorded_ || has_range_) [[unlikely]]
      end();
  }
  GroupProbe(const GroupProbe&) = delete;
  GroupProbe& operator=(const GroupProbe&) = delete;

 private:
  void begin(base::Direction direction, std::uint64_t entries, std::uint64_t bytes) noexcept;
  void end() noexcept;
  bool recorded_ = false;
  bool has_range_ = false;
};

inline void moment(const Event& event) noexcept {
  if (Watchers::now().want(Watchers::recorder)) [[unlikely]]
    record(event);
}
inline void first_byte() noexcept {
  moment({SLUICE_TRACE_FIRST_BYTE});
}
inline void last_byte() noexcept {
  moment({SLUICE_TRACE_LAST_BYTE});
}

// Work that others may help with belongs to the request of the thread that asks for help.
inline std::uint32_t request_of_job() noexcept {
  return Watchers::now().want(Watchers::recorder) ? request_at_hand() : 0;
}
// Around a worker's share of it.
class HelpProbe {
 public:
  explicit HelpProbe(std::uint32_t request) noexcept : recorded_(request != 0) {
    if (recorded_) [[unlikely]]
      begin(request);
  }
  ~HelpProbe() {
    if (recorded_) [[unlikely]]
      end();
  }
  HelpProbe(const HelpProbe&) = delete;
  HelpProbe& operator=(const HelpProbe&) = delete;

 private:
  static void begin(std::uint32_t request) noexcept;
  static void end() noexcept;
  const bool recorded_;
};

// Entries were put into a batch; entries of it have ended.
void tell_batch_submit(const void* batch, std::uint64_t entries) noexcept;
inline void batch_submit(const void* batch, std::uint64_t entries) noexcept {
  if (Watchers::now().any()) [[unlikely]]
    tell_batch_submit(batch, entries);
}
void tell_batch_done(const void* batch, std::uint64_t entries) noexcept;
inline void batch_done(const void* batch, std::uint64_t entries) noexcept {
  if (Watchers::now().any()) [[unlikely]]
    tell_batch_done(batch, entries);
}

// A plan was submitted; its last item has ended.
void tell_plan_submit(const void* plan, std::uint64_t items, std::uint64_t bytes) noexcept;
inline void plan_submit(const void* plan, std::uint64_t items, std::uint64_t bytes) noexcept {
  if (Watchers::now().any()) [[unlikely]]
    tell_plan_submit(plan, items, bytes);
}
void tell_plan_done(const void* plan, std::uint64_t items, std::uint64_t bytes) noexcept;
inline void plan_done(const void* plan, std::uint64_t items, std::uint64_t bytes) noexcept {
  if (Watchers::now().any()) [[unlikely]]
    tell_plan_done(plan, items, bytes);
}

// A transfer of a batch or a plan that went in a group, when it has ended.
void tell_entry(const RequestShape& shape, base::Outcome outcome, sluice_path_t path, sluice_reason_t reason,
                int device, std::chrono::nanoseconds duration) noexcept;
template <typename Shape>
inline void entry_done(const Shape& shape, base::Outcome outcome, sluice_path_t path, sluice_reason_t reason,
                       int device, std::chrono::nanoseconds duration) noexcept {
  if (Watchers::now().any()) [[unlikely]]
    tell_entry(shape(), outcome, path, reason, device, duration);
}

// A transfer was put into a stream; it has come to its end. `word` is where its count goes.
void tell_stream_call(const void* stream, const void* word, base::Direction direction, std::uint64_t size) noexcept;
inline void stream_call(const void* stream, const void* word, base::Direction direction, std::uint64_t size) noexcept {
  if (Watchers::now().any()) [[unlikely]]
    tell_stream_call(stream, word, direction, size);
}
void tell_stream_done(const void* word, base::Direction direction, base::Outcome outcome) noexcept;
inline void stream_done(const void* word, base::Direction direction, base::Outcome outcome) noexcept {
  if (Watchers::now().any()) [[unlikely]]
    tell_stream_done(word, direction, outcome);
}

void tell_file_registered(int fd, bool direct) noexcept;
inline void file_registered(int fd, bool direct) noexcept {
  if (Watchers::now().any()) [[unlikely]]
    tell_file_registered(fd, direct);
}

}  // namespace sluice::observe
