// The synchronous sink: everything on the caller's thread.
#include "request/request.h"

#include "gpu/memory.h"
#include "observe/path_counters.h"
#include "paths/posix.h"
#include "paths/userspace.h"
#include "request/verify.h"

namespace sluice::request {

using base::FileOffset;
using base::Outcome;

namespace {

// judge() names no other path than these two.
paths::Path& path_of(const route::Decision& decision, const Terms& terms) {
  const paths::Manner manner = terms.rules.plain ? paths::Manner::plain : paths::Manner::usual;
  return decision.path == SLUICE_PATH_USERSPACE ? paths::userspace(manner) : paths::posix(manner);
}

Outcome carry(const Request& request, const paths::OpenFile& file, const route::Decision& decision,
              paths::Path& path) noexcept {
  std::uint64_t done = 0;
  for (const route::Segment& segment : decision.segments()) {
    const paths::Piece piece{request.direction, segment.carry, FileOffset{request.at.value + segment.begin},
                             request.address + segment.begin, segment.length};
    const Outcome moved = path.move(file, request.memory, piece);
    if (!moved.ok()) return done > 0 ? Outcome::bytes(done) : moved;
    done += moved.count();
    if (moved.count() < segment.length) break;
  }
  return Outcome::bytes(done);
}

Result attempt(const Request& request, const paths::OpenFile& file, const Terms& terms) noexcept {
  const route::Shape shape{request.direction, request.at.value, request.address, request.size, file.size};
  const route::Decision decision = route::decide(file.facts, request.memory, terms.machine, terms.rules, shape);
  Outcome outcome = carry(request, file, decision, path_of(decision, terms));
  if (terms.verify && outcome.count() > 0) outcome = verified(request, file, outcome);
  return {outcome, {decision.path, decision.reason}};
}

}  // namespace

Result run(const Request& request, const paths::OpenFile& file, const Terms& terms) noexcept {
  Result result = attempt(request, file, terms);
  // A program may have brought its driver along after we last looked: what the kernel calls a bad address may be a
  // device's.
  if (result.outcome.error() == EFAULT && gpu::driver() == nullptr && gpu::attach_driver() != nullptr) {
    Request seen_again = request;
    seen_again.memory = gpu::inspect(request.address);
    if (seen_again.memory.kind != facts::MemoryKind::plain_host) result = attempt(seen_again, file, terms);
  }
  observe::count_path(result.way.path, result.way.reason, request.direction, result.outcome);
  return result;
}

}  // namespace sluice::request
