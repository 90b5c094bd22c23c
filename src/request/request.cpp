// SPDX-License-Identifier: Apache-2.0
// The synchronous sink: everything on the caller's thread.
#include "request/request.h"

#include <cerrno>

#include "gpu/memory.h"
#include "gpu/settle.h"
#include "observe/path_counters.h"
#include "observe/trace.h"
#include "paths/direct_pair.h"
#include "paths/p2pdma.h"
#include "paths/posix.h"
#include "paths/userspace.h"
#include "request/read_on.h"
#include "request/verify.h"

namespace sluice::request {

using base::FileOffset;
using base::Outcome;

namespace {

// Everything that a request needs on its way.
struct Way {
  const Request& request;
  const paths::OpenFile& file;
  const process::Options& options;
};

// Of all segments that do not go direct.
paths::Path& base_path(const route::Decision& decision, const process::Options& options) noexcept {
  return decision.path == SLUICE_PATH_USERSPACE ? paths::userspace(options.copy_mode)
                                                : paths::posix(options.copy_mode, options.small_reads);
}

paths::Path& direct_path(const Way& way) noexcept {
  const bool small = way.request.size <= way.options.polled_up_to;
  return paths::p2pdma(small ? way.options.completion : io::CompletionMode::interrupt);
}

paths::Piece piece_of(const Request& request, const route::Segment& segment) noexcept {
  return {request.direction, segment.carry, FileOffset{request.at.value + segment.begin},
          request.address + segment.begin, segment.length};
}

struct Carried {
  std::uint64_t count = 0;
  bool complete = false;
};

// The drive's part of one segment, as far as it gets.
Carried carry_direct(const Way& way, const route::Segment& segment) noexcept {
  paths::Path& path = direct_path(way);
  paths::DirectPair& pair = *way.file.pair;
  Carried carried;
  while (carried.count < segment.length) {
    const paths::Piece rest =
        piece_of(way.request, {segment.begin + carried.count, segment.length - carried.count, segment.carry});
    const Outcome moved = path.move(way.file, way.request.memory, rest);
    carried.count += moved.count();
    if (moved.count() > 0) continue;
    paths::give_up_direct(pair, way.request.memory, rest, moved);
    return carried;
  }
  carried.complete = true;
  return carried;
}

struct Moved {
  Outcome outcome = Outcome::bytes(0);
  std::uint64_t direct = 0;  // of its bytes, those that the drive moved
  bool rerouted = false;
};

// What the drive does not move of its segment the CPU does, and its answer counts: the end of the file, a broken
// medium.
Moved carry(const Way& way, const route::Decision& decision) noexcept {
  paths::Path& base = base_path(decision, way.options);
  Moved progress;
  std::uint64_t done = 0;
  for (route::Segment segment : decision.segments()) {
    if (segment.carry == route::SegmentMode::direct) {
      const std::uint64_t end = segment.begin + segment.length;
      const Carried carried = carry_direct(way, segment);
      progress.direct += carried.count;
      done += carried.count;
      if (carried.complete) continue;
      progress.rerouted = true;
      if (!route::compat_is_allowed(way.options.rules)) {
        progress.outcome = done > 0 ? Outcome::bytes(done) : Outcome::refused(CU_FILE_IO_NOT_SUPPORTED);
        return progress;
      }
      segment = {done, end - done, route::SegmentMode::bounce};
    }
    const paths::Piece piece = piece_of(way.request, segment);
    Outcome moved = base.move(way.file, way.request.memory, piece);
    // Of their own operations callers hear as these answer.
    if (moved.count() < piece.length && decision.path != SLUICE_PATH_USERSPACE && reads_on(way.file, piece, moved)) {
      moved = read_on(base, way.file, way.request.memory, piece, moved);
    }
    if (!moved.ok()) {
      progress.outcome = done > 0 ? Outcome::bytes(done) : moved;
      return progress;
    }
    done += moved.count();
    if (moved.count() < segment.length) break;
  }
  progress.outcome = Outcome::bytes(done);
  return progress;
}

facts::TrialResult reach_of(const paths::OpenFile& file) noexcept {
  return file.pair != nullptr ? file.pair->reach() : facts::TrialResult::untried;
}

// A request that changed its way counts on both: what the drive moved here, the rest where it ended.
Result rerouted(const Request& request, const paths::OpenFile& file, const Moved& progress, Outcome outcome) noexcept {
  if (progress.direct > 0) {
    observe::count_path(SLUICE_PATH_P2PDMA, SLUICE_REASON_DIRECT, request.direction, Outcome::bytes(progress.direct));
  }
  const facts::TrialResult now = reach_of(file);
  const route::Reason reason =
      now == facts::TrialResult::proven ? SLUICE_REASON_STOPPED_IN_FLIGHT : route::reason_of(now);
  return {outcome, {SLUICE_PATH_POSIX, reason}, progress.direct};
}

Result attempt(const Request& request, const paths::OpenFile& file, const process::Options& options) noexcept {
  // Only O_DIRECT asks where the file ends: what does not is not to wait for the answer.
  const std::uint64_t file_end = file.facts.direct ? file.now.size() : ~std::uint64_t{0};
  const route::Shape shape{request.direction, request.at.value, request.address, request.size, file_end};
  const facts::TrialResult reach = reach_of(file);
  // What the drive has given up is not asked of it again.
  const bool stopped = request.stopped && reach == facts::TrialResult::proven;
  const route::Decision decision = route::decide(file.facts, request.memory, options.machine, options.rules, shape,
                                                 stopped ? facts::TrialResult::untried : reach);
  const route::RouteChoice way{decision.path, stopped ? SLUICE_REASON_STOPPED_IN_FLIGHT : decision.reason};
  if (!route::is_permitted(way, options.rules)) return {Outcome::refused(CU_FILE_IO_NOT_SUPPORTED), way};
  const Moved progress = carry({request, file, options}, decision);
  Outcome outcome = progress.outcome;
  if (options.verify && outcome.count() > 0) outcome = verified(request, file, outcome);
  return progress.rerouted ? rerouted(request, file, progress, outcome) : Result{outcome, way};
}

}  // namespace

Result run(const Request& request, const paths::OpenFile& file, const process::Options& options) noexcept {
  Result result = attempt(request, file, options);
  // A program may have brought its driver along after this memory was looked up: what the kernel calls a bad address
  // may be a device's. Another thread may have found that driver meanwhile, so only what was known then counts.
  if (result.outcome.error() == EFAULT && !request.memory.asked && gpu::attach_driver() != nullptr) {
    Request seen_again = request;
    seen_again.memory = gpu::inspect(request.address);
    if (!facts::is_host(seen_again.memory.kind) &&
        gpu::contiguous_bytes(request.address, request.size) < request.size) {
      result.outcome = Outcome::refused(CU_FILE_CUDA_POINTER_RANGE_ERROR);
    } else if (seen_again.memory.kind != facts::MemoryKind::plain_host) {
      gpu::settle(seen_again.memory, request.address);
      result = attempt(seen_again, file, options);
    }
  }
  const bool counted_in_part = result.outcome.ok() && result.counted > 0;
  observe::count_path(result.way.path, result.way.reason, request.direction,
                      counted_in_part ? Outcome::bytes(result.outcome.count() - result.counted) : result.outcome);
  observe::trace({request.direction, file.fd, request.at.value, request.size, result.way.path, result.way.reason},
                 result.outcome);
  return result;
}

}  // namespace sluice::request
