// SPDX-License-Identifier: Apache-2.0
// All paths, and the choice among them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "paths/path.h"
#include "route/route.h"

namespace sluice::paths {

// In order of preference (paths/table_lines.cpp). The last one takes what the others leave.
extern const std::span<const Path* const> table;
inline const Path& last_path() noexcept {
  return *table.back();
}

struct Decision {
  const Path* path = nullptr;
  route::Reason reason = SLUICE_REASON_HOST_MEMORY;
  route::Segments segments;

  route::RouteChoice choice() const noexcept { return {path->traits.id, reason}; }
};

// The first path that refuses neither the facts nor the shape; a shape of no bytes stands for large, aligned requests
// and gets no segments. With `ends`, trials that are missing are made: see Path::try_out.
struct Trying {
  const Ends* ends = nullptr;
  Need need = Need::convenient;
};
Decision decide(const Facts& facts, const route::Shape& shape, const Trying& trying = {}) noexcept;

// Whether a request may be carried out as decided. Host memory needs no permission.
bool is_permitted(const Decision& decision, const route::Rules& rules) noexcept;

// The next one that takes a request of which `path` has stopped.
const Path& path_behind(const Path& path, const Facts& facts) noexcept;

// How urgent a trial is where requests wait for its answer.
Need need_of(const route::Rules& rules) noexcept;

// Every reason that keeps a request from the paths before the one that it takes, in the order of the table; never
// empty.
std::vector<route::Reason> all_reasons(const Facts& facts, const Decision& decision);
// What trials have seen, for people.
std::string words_of_trials(const Facts& facts);

// What all paths keep with a session, a file, a buffer.
SessionAttachments attachments_of_session(const Options& options);
void attach_to_file(File& file, const SessionAttachments& session);
Attachments attachments_of_buffer(std::uint64_t address, std::uint64_t size, const facts::BufferFacts& facts,
                                  const Options& options);

}  // namespace sluice::paths
