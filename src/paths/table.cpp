// SPDX-License-Identifier: Apache-2.0
// The walk along the table. What a path refuses for is the reason of the next one that takes the request; a path that
// is for files of another kind leaves no reason.
#include "paths/table.h"

#include <algorithm>
#include <bit>

#include "paths/group_mover.h"

namespace sluice::paths {

using route::Reason;

namespace {

constexpr std::uint32_t lines_of(std::size_t count) noexcept {
  return (1U << count) - 1;
}

bool has_whole_blocks(const route::Segments& segments) noexcept {
  const auto all = segments.all();
  return std::any_of(all.begin(), all.end(),
                     [](const route::Segment& segment) { return segment.carry == route::SegmentMode::direct; });
}

// By a trial.
bool may_change(std::optional<Reason> refusal) noexcept {
  switch (refusal.value_or(unconcerned)) {
    case SLUICE_REASON_NOT_PROVEN:
    case SLUICE_REASON_RDMA_NOT_TRIED:
      return true;
    default:
      return false;
  }
}

std::optional<Reason> refusal_of(const Path& path, const Facts& facts, const Trying& trying) noexcept {
  const std::optional<Reason> refusal = path.refuses(facts);
  if (!may_change(refusal) || trying.ends == nullptr) return refusal;
  // A descriptor that belongs to another file by now would tell of that one's storage.
  if (!trying.ends->now.finds_the_file()) return refusal;
  path.try_out(*trying.ends, trying.need);
  return path.refuses(facts);
}

}  // namespace

std::unique_ptr<SessionAttachment> Path::of_session(const Options& /*options*/) const {
  return nullptr;
}

std::unique_ptr<Attachment> Path::of_file(const File& /*file*/, SessionAttachment* /*session*/) const {
  return nullptr;
}

std::unique_ptr<Attachment> Path::of_buffer(std::uint64_t /*address*/, std::uint64_t /*size*/,
                                            const facts::BufferFacts& /*facts*/, const Options& /*options*/) const {
  return nullptr;
}

bool Path::concerns(const File& /*file*/) const noexcept {
  return true;
}

void Path::try_out(const Ends& /*ends*/, Need /*need*/) const noexcept {}

bool Path::checks_descriptor(const Ends& /*ends*/, base::Direction /*direction*/,
                             std::uint64_t /*length*/) const noexcept {
  return false;
}

Grouping Path::grouping(const Facts& /*facts*/, const route::Segment& /*all*/) const noexcept {
  return {};
}

std::unique_ptr<GroupMover> Path::group_mover(GroupClass /*group_class*/) const noexcept {
  return nullptr;
}

void Path::tell_reasons(const Facts& facts, std::vector<Reason>& reasons) const {
  const std::optional<Reason> refusal = refuses(facts);
  if (refusal && *refusal != unconcerned) reasons.push_back(*refusal);
}

std::string Path::words(const Facts& /*facts*/) const {
  return "";
}

Decision decide(const Facts& facts, const route::Shape& shape, const Trying& trying) noexcept {
  Decision decided;
  const bool is_host = facts::is_host(facts.memory.kind);
  const Path* const last = table.back();
  for (std::uint32_t lines = facts.file.lines & lines_of(table.size()); lines != 0; lines &= lines - 1) {
    const Path* const path = table[static_cast<std::size_t>(std::countr_zero(lines))];
    if (path->traits.device_memory_only && is_host) {
      decided.reason = SLUICE_REASON_HOST_MEMORY;
      continue;
    }
    if (path != last) {
      if (const std::optional<Reason> refusal = refusal_of(*path, facts, trying)) {
        if (*refusal != unconcerned) decided.reason = *refusal;
        continue;
      }
    }
    if (shape.size > 0) {
      route::cut(decided.segments, path->cutting(facts), shape);
      if (path->traits.whole_blocks_only && !has_whole_blocks(decided.segments)) {
        decided.reason = SLUICE_REASON_RAGGED_REQUEST;
        continue;
      }
    }
    decided.path = path;
    if (path->traits.taken != unconcerned) decided.reason = path->traits.taken;
    break;
  }
  return decided;
}

const Path& path_behind(const Path& path, const Facts& facts) noexcept {
  auto next = std::find(table.begin(), table.end(), &path);
  while (++next != table.end() && *next != &last_path()) {
    if (!(*next)->refuses(facts)) return **next;
  }
  return last_path();
}

bool is_permitted(const Decision& decision, const route::Rules& rules) noexcept {
  return !decision.path->traits.cpu_moves || route::cpu_may_move(decision.reason, rules);
}

Need need_of(const route::Rules& rules) noexcept {
  return route::compat_is_allowed(rules) ? Need::convenient : Need::absolute;
}

std::vector<Reason> all_reasons(const Facts& facts, const Decision& decision) {
  // What a path takes, and what the shape of a request decides, has no other reason.
  const bool is_last = decision.path == &last_path();
  if (!is_last || decision.reason == SLUICE_REASON_RAGGED_REQUEST) return {decision.reason};
  std::vector<Reason> told;
  for (const Path* const path : table) path->tell_reasons(facts, told);
  std::vector<Reason> reasons;
  for (const Reason reason : told) {
    if (std::find(reasons.begin(), reasons.end(), reason) == reasons.end()) reasons.push_back(reason);
  }
  return reasons.empty() ? std::vector{decision.reason} : reasons;
}

std::string words_of_trials(const Facts& facts) {
  std::string all;
  for (const Path* const path : table) {
    if (const std::string words = path->words(facts); !words.empty()) all += "; " + words;
  }
  return all;
}

SessionAttachments attachments_of_session(const Options& options) {
  SessionAttachments all;
  for (const Path* const path : table) all.put(path->traits.id, path->of_session(options));
  return all;
}

void attach_to_file(File& file, const SessionAttachments& session) {
  for (const Path* const path : table) {
    const sluice_path_t id = path->traits.id;
    file.attachments.put(id, path->of_file(file, session.of(id)));
  }
  file.lines = 0;
  for (std::size_t line = 0; line < table.size(); ++line) {
    if (table[line]->concerns(file)) file.lines |= 1U << line;
  }
}

Attachments attachments_of_buffer(std::uint64_t address, std::uint64_t size, const facts::BufferFacts& facts,
                                  const Options& options) {
  Attachments all;
  for (const Path* const path : table) all.put(path->traits.id, path->of_buffer(address, size, facts, options));
  return all;
}

}  // namespace sluice::paths
