// SPDX-License-Identifier: Apache-2.0
#include "request/request.h"

#include <cerrno>

#include "gpu/memory.h"
#include "gpu/settle.h"
#include "observe/path_counters.h"
#include "observe/probes.h"
#include "request/read_on.h"
#include "request/verify.h"

namespace sluice::request {

using base::FileOffset;
using base::Outcome;

namespace {

paths::Piece piece_of(const Request& request, const route::Segment& segment) noexcept {
  return {request.direction, segment.carry, FileOffset{request.at.value + segment.begin},
          request.address + segment.begin, segment.length};
}

struct Moved {
  Outcome outcome = Outcome::bytes(0);
  std::uint64_t whole_blocks = 0;  // of its bytes, those that went as whole blocks, where the rest goes another way
  bool rerouted = false;
};

// As one; what the path stops at goes on by the path behind it.
Moved carry_on(const Request& request, const paths::Ends& ends, const paths::Decision& decision,
               const paths::Path& behind) noexcept {
  const paths::Item item = moved(*decision.path, ends, piece_of(request, decision.segments.all().front()));
  if (!item.stopped) return {item.outcome};
  Moved progress{item.outcome, item.outcome.count(), true};
  paths::Piece rest = item.piece;
  rest.carry = route::uncut(ends.memory.kind).whole;
  rest.at.value += progress.whole_blocks;
  rest.address += progress.whole_blocks;
  rest.length -= progress.whole_blocks;
  const Outcome further = move(behind, ends, rest);
  if (progress.whole_blocks == 0) progress.outcome = further;
  if (further.ok()) progress.outcome = Outcome::bytes(progress.whole_blocks + further.count());
  return progress;
}

// What a path of whole blocks leaves of its segment, and the edges, the last path does, and its answer counts: the end
// of the file, a broken medium.
Moved carry(const Request& request, const paths::Ends& ends, const paths::Decision& decision) noexcept {
  const paths::Path& rest_path = decision.path->traits.whole_blocks_only ? paths::last_path() : *decision.path;
  Moved progress;
  std::uint64_t done = 0;
  for (route::Segment segment : decision.segments.all()) {
    if (segment.carry == route::SegmentMode::direct) {
      const std::uint64_t end = segment.begin + segment.length;
      const std::uint64_t count = move(*decision.path, ends, piece_of(request, segment)).count();
      progress.whole_blocks += count;
      done += count;
      if (count == segment.length) continue;
      progress.rerouted = true;
      if (!route::compat_is_allowed(ends.file.options.rules)) {
        progress.outcome = done > 0 ? Outcome::bytes(done) : Outcome::refused(CU_FILE_IO_NOT_SUPPORTED);
        return progress;
      }
      segment = {done, end - done, route::SegmentMode::bounce};
    }
    const paths::Piece piece = piece_of(request, segment);
    Outcome moved = move(rest_path, ends, piece);
    if (moved.count() < piece.length && rest_path.traits.doubts_short && reads_on(ends, piece, moved)) {
      moved = read_on(rest_path, ends, piece, moved);
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

// A request that changed its way counts on both: what was moved here, the rest where it ended.
Result rerouted(const Request& request, const paths::Ends& ends, const paths::Path& before, const paths::Path& behind,
                const Moved& progress, Outcome outcome) noexcept {
  if (progress.whole_blocks > 0) {
    observe::count_path(before.traits.id, before.traits.taken, request.direction,
                        Outcome::bytes(progress.whole_blocks));
  }
  const auto refusal = before.refuses({ends.file, ends.memory, request.direction, true});
  const route::Reason reason = refusal.value_or(SLUICE_REASON_STOPPED_IN_FLIGHT);
  observe::fell_back(ends.file.descriptor(), progress.whole_blocks, behind.traits.id, reason);
  return {outcome, &behind, reason, progress.whole_blocks};
}

Result attempt(const Request& request, const paths::Ends& ends) noexcept {
  const paths::File& file = ends.file;
  // Only O_DIRECT asks where the file ends: what does not is not to wait for the answer.
  const std::uint64_t file_end = file.facts.direct ? ends.now.size() : ~std::uint64_t{0};
  const route::Shape shape{request.direction, request.at.value, request.address, request.size, file_end};
  // A trial copies on streams of our own, which may stand behind those that wait for this transfer.
  const paths::Trying trying{ends.device == nullptr ? &ends : nullptr, paths::need_of(file.options.rules)};
  const paths::Decision decision = paths::decide(
      {file, ends.memory, request.direction, request.stopped, paths::Trust::what_is_known, ends.registered, true},
      shape, trying);
  observe::decided(decision.path->traits.id, decision.reason,
                   facts::is_host(ends.memory.kind) ? -1 : ends.memory.device);
  // Between a submission and its turn, programs may well have closed a file: what it is now is not to be read.
  const bool may_be_late = !(request.queued && request.direction == base::Direction::read) &&
                           decision.path->checks_descriptor(ends, request.direction, request.size);
  if (!may_be_late && !ends.now.finds_the_file()) return {.outcome = Outcome::system_error(EBADF)};
  if (!paths::is_permitted(decision, file.options.rules)) {
    return {Outcome::refused(CU_FILE_IO_NOT_SUPPORTED), decision.path, decision.reason};
  }
  const bool hands_on = decision.path->traits.hands_on;
  const paths::Path& behind =
      hands_on ? paths::path_behind(*decision.path, {file, ends.memory, request.direction, true}) : paths::last_path();
  const Moved progress = hands_on ? carry_on(request, ends, decision, behind) : carry(request, ends, decision);
  Outcome outcome = progress.outcome;
  if (outcome.count() > most_that_asks_once && ends.now.belongs_to_another()) outcome = Outcome::system_error(EBADF);
  if (file.options.verify && outcome.count() > 0) outcome = verified(request, ends, outcome);
  return progress.rerouted ? rerouted(request, ends, *decision.path, behind, progress, outcome)
                           : Result{outcome, decision.path, decision.reason};
}

}  // namespace

Result carry_out(const Request& request, const paths::Ends& ends) noexcept {
  Result result = attempt(request, ends);
  // A program may have brought its driver along after this memory was looked up: what the kernel calls a bad address
  // may be a device's. Another thread may have found that driver meanwhile, so only what was known then counts.
  if (result.outcome.error() == EFAULT && !ends.memory.asked && gpu::attach_driver() != nullptr) {
    const facts::BufferFacts memory = gpu::inspect(request.address);
    if (!facts::is_host(memory.kind) && gpu::contiguous_bytes(request.address, request.size) < request.size) {
      result.outcome = Outcome::refused(CU_FILE_CUDA_POINTER_RANGE_ERROR);
    } else if (memory.kind != facts::MemoryKind::plain_host) {
      gpu::settle(memory, request.address);
      result = attempt(request, {ends.file, ends.now, memory, ends.handle, ends.registered, ends.device});
    }
  }
  return result;
}

}  // namespace sluice::request
