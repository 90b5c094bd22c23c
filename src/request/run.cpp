// SPDX-License-Identifier: Apache-2.0
#include "request/run.h"

#include <cerrno>

#include "observe/probes.h"
#include "observe/statistics.h"
#include "process/in_flight.h"
#include "request/account.h"
#include "request/answer.h"
#include "request/group.h"
#include "request/one.h"

namespace sluice::request {

using base::Outcome;

namespace {

observe::RequestShape shape_of(const Item& item, const Options& options) noexcept {
  const Call& call = item.call;
  const bool batch = options.caller == Caller::batch;
  const unsigned from = batch                              ? SLUICE_TRACE_FROM_BATCH
                        : options.caller == Caller::stream ? SLUICE_TRACE_FROM_STREAM
                                                           : 0;
  return {.direction = call.direction,
          .fd = item.file->descriptor(),
          .offset = static_cast<std::uint64_t>(call.file_offset),
          .size = call.size,
          .buffer_offset = call.buffer_offset,
          .from = static_cast<std::uint16_t>(from)};
}

void run_counted(process::Process& process, Item& item, const Options& options) noexcept {
  Account account(options.caller, item.call.direction, item.call.size - item.progress.there, 1);
  const Way way = run_one(process, item, options);
  account.ended(item, way, account.so_far());
}

void run_watched(process::Process& process, Item& item, const Options& options) noexcept {
  observe::RequestProbe probe([&] { return shape_of(item, options); });
  run_counted(process, item, options);
  probe.end(item.outcome);
}

}  // namespace

// Its callers are in flight: that comes before the pin that they bring.
Outcome run(process::Process& process, Item& item, const Options& options) noexcept {
  if (options.caller == Caller::part) {
    run_counted(process, item, options);
    return item.outcome;
  }
  const bool in_its_stream = options.caller == Caller::stream;
  if (in_its_stream && item.call.size == 0) return Outcome::bytes(0);  // nothing else of it is looked at
  run_watched(process, item, options);
  if (!in_its_stream || item.outcome.ok()) return item.outcome;
  return answer_in_stream(process, *item.file, item.call, options.stream_flags, item.outcome);
}

void run(process::Process& process, std::span<Item* const> items, const Options& options,
         Completion& completion) noexcept {
  if (options.group != nullptr) return options.group->run(items, options, completion);
  for (Item* const item : items) static_cast<void>(run(process, *item, options));
}

Outcome run(process::Process& process, const Call& call) noexcept {
  // Before the pin: a signal handler that ends the process must find it whenever it would find the pin.
  const process::InFlight in_flight;
  const process::FileTable::Pin file = process.files().pin(call.handle);
  if (file) {
    Item item{call, &*file};
    run_watched(process, item, {});
    return item.outcome;
  }
  Outcome refusal = Outcome::system_error(EINVAL);
  if (process.files().standing(call.handle) == process::HandleState::retired) {
    const bool in_no_file = call.file_offset < 0 || ends_beyond_all_files(call.file_offset, call.size);
    refusal = Outcome::refused(in_no_file ? CU_FILE_INVALID_VALUE : CU_FILE_HANDLE_NOT_REGISTERED);
  }
  observe::RequestProbe probe([&] { return observe::RequestShape{.direction = call.direction, .size = call.size}; });
  probe.end(refusal);
  observe::count_transfer({.direction = call.direction, .requested = call.size}, refusal);
  return refusal;
}

}  // namespace sluice::request
