// SPDX-License-Identifier: Apache-2.0
// What hooks do when a tool watches. Nothing of it is on the way of a transfer that is not watched.
#include "observe/probes.h"

#include <unistd.h>

#include <array>
#include <climits>
#include <cstdio>

#include "observe/ranges.h"
#include "observe/usdt_probes.h"

namespace sluice::observe {

namespace {

using Clock = std::chrono::steady_clock;

constinit thread_local RequestProbe* request_probe = nullptr;  // the innermost of this thread

std::uint16_t packed(sluice_path_t path, sluice_reason_t reason) noexcept {
  return static_cast<std::uint16_t>(static_cast<unsigned>(path) << 8U | (static_cast<unsigned>(reason) & 0xffU));
}

std::uint16_t call_of(const RequestShape& shape) noexcept {
  return static_cast<std::uint16_t>(shape.from | (shape.direction == base::Direction::write ? SLUICE_TRACE_WRITE : 0));
}

RangeOf category_of(const RequestShape& shape) noexcept {
  if ((shape.from & SLUICE_TRACE_FROM_STREAM) != 0) return RangeOf::stream;
  if ((shape.from & SLUICE_TRACE_FROM_BATCH) != 0) return RangeOf::batch;
  return shape.direction == base::Direction::read ? RangeOf::read : RangeOf::write;
}

usdt::Done done_of(const RequestShape& shape, base::Outcome outcome, std::uint16_t way, int device,
                   std::chrono::nanoseconds duration) noexcept {
  return {.direction = shape.direction,
          .fd = shape.fd,
          .offset = shape.offset,
          .size = shape.size,
          .result = outcome.value(),
          .way = way,
          .nanoseconds = static_cast<std::uint64_t>(duration.count()),
          .buffer_offset = shape.buffer_offset,
          .device = device,
          .by_drive = way >> 8U == SLUICE_PATH_P2PDMA,
          .in_stream = (shape.from & SLUICE_TRACE_FROM_STREAM) != 0};
}

// Of the control plane: the file may have gone before a tool reads this.
void record_name(int fd) noexcept {
  std::array<char, 32> link{};
  std::array<std::array<std::uint64_t, 2>, PATH_MAX / 16> name{};
  std::snprintf(link.data(), link.size(), "/proc/self/fd/%d", fd);
  const ssize_t length = ::readlink(link.data(), reinterpret_cast<char*>(name.data()), sizeof name - 1);
  if (length <= 0) return;
  for (std::size_t i = 0; i <= static_cast<std::size_t>(length) / sizeof name[0]; ++i) {
    record({SLUICE_TRACE_FILE_NAME, SLUICE_TRACE_MOMENT, static_cast<std::uint16_t>(i), fd, name[i][0], name[i][1]});
  }
}

}  // namespace

void RequestProbe::begin(const RequestShape& shape) noexcept {
  watched_ = true;
  way_ = 0;
  device_ = -1;
  shape_ = shape;
  began_ = Clock::now();
  before_ = request_probe;
  request_probe = this;
  outer_ = request_at_hand();
  number_ = 0;
  const Watchers watchers = Watchers::now();
  if (watchers.want(Watchers::recorder)) {
    number_ = new_request_number();
    set_request_at_hand(number_);
    record({SLUICE_TRACE_REQUEST, SLUICE_TRACE_BEGIN, call_of(shape), shape.fd, shape.offset, shape.size});
  }
  has_range_ = shape.size >= smallest_with_range && watchers.want(Watchers::ranges);
  if (has_range_) push_range(category_of(shape), shape.direction, shape.size);
  if (watchers.want(Watchers::usdt)) usdt::start({shape.direction, shape.fd, shape.offset, shape.size, number_});
}

void RequestProbe::tell_end(base::Outcome outcome) noexcept {
  watched_ = false;
  request_probe = before_;
  if (has_range_) pop_range();
  if (number_ != 0) {
    record({SLUICE_TRACE_REQUEST, SLUICE_TRACE_END, way_, shape_.fd, static_cast<std::uint64_t>(outcome.value()),
            static_cast<std::uint64_t>(device_ + 1)});
    set_request_at_hand(outer_);
  }
  if (Watchers::now().want(Watchers::usdt)) {
    usdt::done(done_of(shape_, outcome, way_, device_, Clock::now() - began_));
  }
}

void tell_decision(sluice_path_t path, sluice_reason_t reason, int device) noexcept {
  if (RequestProbe* const probe = request_probe; probe != nullptr) {
    probe->way_ = packed(path, reason);
    probe->device_ = device;
    const Watchers watchers = Watchers::now();
    if (watchers.want(Watchers::recorder)) {
      record({SLUICE_TRACE_DECIDE, SLUICE_TRACE_MOMENT, probe->way_, probe->shape_.fd, 0, probe->shape_.size});
    }
    if (watchers.want(Watchers::usdt)) {
      usdt::decide(probe->shape_.fd, probe->shape_.size, sluice_path_name(path), sluice_reason_name(reason));
    }
  }
}

void tell_fallback(int fd, std::uint64_t before, sluice_path_t path, sluice_reason_t reason) noexcept {
  if (RequestProbe* const probe = request_probe; probe != nullptr) probe->way_ = packed(path, reason);
  const Watchers watchers = Watchers::now();
  if (watchers.want(Watchers::recorder)) {
    record({SLUICE_TRACE_FALLBACK, SLUICE_TRACE_MOMENT, packed(path, reason), fd, before, 0});
  }
  if (watchers.want(Watchers::usdt)) usdt::fallback(fd, before, sluice_path_name(path), sluice_reason_name(reason));
}

void GroupProbe::begin(base::Direction direction, std::uint64_t entries, std::uint64_t bytes) noexcept {
  const Watchers watchers = Watchers::now();
  recorded_ = watchers.want(Watchers::recorder);
  has_range_ = watchers.want(Watchers::ranges);
  if (recorded_) record({SLUICE_TRACE_BATCH_GROUP, SLUICE_TRACE_BEGIN, 0, -1, bytes, entries});
  if (has_range_) push_range(RangeOf::batch, direction, bytes);
}

void GroupProbe::end() noexcept {
  if (has_range_) pop_range();
  if (recorded_) record({SLUICE_TRACE_BATCH_GROUP, SLUICE_TRACE_END});
}

void HelpProbe::begin(std::uint32_t request) noexcept {
  set_request_at_hand(request);
  record({SLUICE_TRACE_HELP, SLUICE_TRACE_BEGIN});
}

void HelpProbe::end() noexcept {
  record({SLUICE_TRACE_HELP, SLUICE_TRACE_END});
  set_request_at_hand(0);
}

void tell_batch_submit(const void* batch, std::uint64_t entries) noexcept {
  const Watchers watchers = Watchers::now();
  if (watchers.want(Watchers::recorder)) {
    record({SLUICE_TRACE_BATCH_SUBMIT, SLUICE_TRACE_MOMENT, 0, -1, reinterpret_cast<std::uint64_t>(batch), entries});
  }
  if (watchers.want(Watchers::usdt)) usdt::batch_submit(batch, entries);
}

void tell_batch_done(const void* batch, std::uint64_t entries) noexcept {
  if (Watchers::now().want(Watchers::usdt)) usdt::batch_done(batch, entries);
}

void tell_plan_submit(const void* plan, std::uint64_t items, std::uint64_t bytes) noexcept {
  if (Watchers::now().want(Watchers::usdt)) usdt::plan_submit(plan, items, bytes);
}

void tell_plan_done(const void* plan, std::uint64_t items, std::uint64_t bytes) noexcept {
  if (Watchers::now().want(Watchers::usdt)) usdt::plan_done(plan, items, bytes);
}

void tell_entry(const RequestShape& shape, base::Outcome outcome, sluice_path_t path, sluice_reason_t reason,
                int device, std::chrono::nanoseconds duration) noexcept {
  const Watchers watchers = Watchers::now();
  if (watchers.want(Watchers::recorder)) {
    record({SLUICE_TRACE_ENTRY, SLUICE_TRACE_MOMENT, packed(path, reason), shape.fd,
            static_cast<std::uint64_t>(outcome.value()), shape.size});
  }
  if (watchers.want(Watchers::usdt)) {
    usdt::done(done_of(shape, outcome, packed(path, reason), device, duration));
  }
}

void tell_stream_call(const void* stream, const void* word, base::Direction direction, std::uint64_t size) noexcept {
  const Watchers watchers = Watchers::now();
  if (watchers.want(Watchers::recorder)) {
    record({SLUICE_TRACE_STREAM_CALL, SLUICE_TRACE_MOMENT, 0, -1, reinterpret_cast<std::uint64_t>(word), size});
  }
  if (watchers.want(Watchers::usdt)) usdt::stream_call(stream, word, static_cast<int>(direction), size);
}

void tell_stream_done(const void* word, base::Direction direction, base::Outcome outcome) noexcept {
  const Watchers watchers = Watchers::now();
  if (watchers.want(Watchers::recorder)) {
    record({SLUICE_TRACE_STREAM_DONE, SLUICE_TRACE_MOMENT, 0, -1, reinterpret_cast<std::uint64_t>(word),
            static_cast<std::uint64_t>(outcome.value())});
  }
  if (watchers.want(Watchers::usdt)) usdt::stream_done(word, static_cast<int>(direction), outcome.value());
}

void tell_file_registered(int fd, bool direct) noexcept {
  const Watchers watchers = Watchers::now();
  if (watchers.want(Watchers::recorder)) {
    record({SLUICE_TRACE_FILE_REGISTER, SLUICE_TRACE_MOMENT, 0, fd, direct ? 1U : 0U, 0});
    record_name(fd);
  }
  if (watchers.want(Watchers::usdt)) usdt::file_register(fd, direct);
}

}  // namespace sluice::observe
