// SPDX-License-Identifier: Apache-2.0
// Mapping by mapping: a device may map less of its memory than a request takes (a BAR of 256 MiB).
#include "paths/p2pdma/p2pdma.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <new>

#include "gpu/memory.h"
#include "io/direct_io.h"
#include "observe/log.h"
#include "paths/p2pdma/group.h"
#include "paths/p2pdma/pairs.h"
#include "paths/p2pdma/trial.h"
#include "route/route.h"

namespace sluice::paths {

namespace {

using base::FileOffset;
using base::Outcome;
using facts::TrialResult;
using io::CompletionMode;

constexpr std::uint64_t usual_block = 4096;  // no drive wants more

// A refusal says something of the pair when nothing else can be to blame: not the alignment, since the kernel may not
// have told all of it, and not memory that the caller has freed meanwhile.
bool blames_the_pair(const facts::BufferFacts& memory, const Piece& piece, Outcome refusal) noexcept {
  if (refusal.error() == EINVAL) return (piece.at.value | piece.address | piece.length) % usual_block == 0;
  if (refusal.error() == EFAULT) return gpu::inspect(piece.address).id == memory.id;
  return true;
}

// Takes the pair out of use for such an error, and tells the log; nothing for any other.
void refuse_pair(DirectPair& pair, Outcome refusal) noexcept {
  const facts::TrialResult reach = reach_after(refusal);
  if (reach == facts::TrialResult::proven || !pair.refuse(reach)) return;
  try {
    const std::string words =
        fmt::format("a transfer was answered {} after a trial had succeeded", ::strerrorname_np(refusal.error()));
    observe::log(config::LogLevel::warn, "p2pdma",
                 fmt::format("device {} and {}: not direct any more ({})", pair.device(), pair.storage(), words));
    pair.say(words);
  } catch (...) {  // NOLINT(bugprone-empty-catch): the reach has changed, which is what counts
  }
}

// Asked for by the session, for transfers of this size, and possible as far as is known.
CompletionMode completion_of(const Options& options, const DirectPair& pair, std::uint64_t size) noexcept {
  return size <= options.polled_up_to && pair.can_be_polled() ? options.completion : CompletionMode::interrupt;
}

// Of one request, whose pair is proven.
class ByDrive {
 public:
  ByDrive(const Ends& ends, DirectPair& pair) noexcept : ends_(ends), pair_(pair) {}

  // As far as it gets.
  Outcome move(const Piece& piece) const noexcept {
    std::uint64_t done = 0;
    while (done < piece.length) {
      const Piece rest = behind(piece, done);
      const Outcome moved = move_some(rest);
      done += moved.count();
      if (moved.count() > 0) continue;
      give_up_direct(pair_, ends_.memory, rest, moved);
      break;
    }
    return Outcome::bytes(done);
  }

 private:
  static Piece behind(const Piece& piece, std::uint64_t done) noexcept {
    return {piece.direction, piece.carry, FileOffset{piece.at.value + done}, piece.address + done, piece.length - done};
  }

  // A count that is short says that something was in the way; asked for the rest, this tells what.
  Outcome move_some(const Piece& piece) const noexcept {
    std::uint64_t done = 0;
    while (done < piece.length) {
      const Piece rest = behind(piece, done);
      const gpu::P2pMapping mapping = pair_.provider().map(ends_.memory, rest.address, rest.length);
      const Outcome moved = mapping ? move_mapping(rest, mapping) : Outcome::refused(CU_FILE_INVALID_MAPPING_RANGE);
      const std::uint64_t wanted = std::min(mapping.length, rest.length);
      if (mapping) pair_.provider().release(mapping);
      if (!moved.ok()) return done > 0 ? Outcome::bytes(done) : moved;
      done += moved.count();
      if (moved.count() < wanted) break;
    }
    return Outcome::bytes(done);
  }

  Outcome move_mapping(const Piece& piece, const gpu::P2pMapping& mapping) const noexcept {
    const facts::FileFacts& file = ends_.file.facts;
    const std::uint32_t block = std::max(1u, file.offset_alignment);
    const std::uint64_t length = usable_bytes(file, mapping, piece.length);
    if (length == 0) return Outcome::refused(CU_FILE_INVALID_MAPPING_RANGE);
    const io::DirectResult result =
        io::move_direct({ends_.file.descriptor(), piece.at, {mapping.address, length}, block}, piece.direction,
                        completion_of(ends_.file.options, pair_, piece.length));
    if (result.unpollable) pair_.cannot_be_polled();
    if (result.outcome.ok()) pair_.count_moved(result.polled);
    return result.outcome;
  }

  const Ends& ends_;
  DirectPair& pair_;
};

TrialResult reach_of(const Facts& facts) noexcept {
  if (facts.trust == Trust::what_is_hoped_for) return TrialResult::proven;
  const DirectPair* const pair = pair_of(facts.file, facts.memory);
  return pair != nullptr ? pair->reach() : TrialResult::untried;
}

// Where the other direct path was asked for, and this one was not, that is no reason to tell.
bool is_left_to_nvfs(route::Reason reason, const Options& options) noexcept {
  return reason == SLUICE_REASON_DIRECT_PATH_OFF && options.rules.use_nvfs;
}

bool is_in_question(const Facts& facts) noexcept {
  const Options& options = facts.file.options;
  return !route::kept_from_drive(facts.file.facts, facts.memory, options.machine, options.rules);
}

}  // namespace

constinit const P2pdma p2pdma;

std::unique_ptr<SessionAttachment> P2pdma::of_session(const Options& options) const {
  return options.rules.use_pci_p2pdma ? std::make_unique<Pairs>() : nullptr;
}

std::unique_ptr<Attachment> P2pdma::of_file(const File& /*file*/, SessionAttachment* session) const {
  return session != nullptr ? std::make_unique<PairsOfFile>(*static_cast<Pairs*>(session)) : nullptr;
}

std::optional<route::Reason> P2pdma::refuses(const Facts& facts) const noexcept {
  const Options& options = facts.file.options;
  const facts::FileFacts& file = facts.file.facts;
  if (const auto reason = route::kept_from_drive(file, facts.memory, options.machine, options.rules)) {
    return is_left_to_nvfs(*reason, options) ? std::optional(unconcerned) : reason;
  }
  const route::Reason reason = route::after_trial(file, reach_of(facts));
  if (reason != SLUICE_REASON_DIRECT) return reason;
  // What the drive has given up is not asked of it again.
  return facts.stopped ? std::optional(SLUICE_REASON_STOPPED_IN_FLIGHT) : std::nullopt;
}

route::Cutting P2pdma::cutting(const Facts& facts) const noexcept {
  return route::cut_for_drive(facts.file.facts);
}

void P2pdma::try_out(const Ends& ends, Need need) const noexcept {
  DirectPair* const pair = pair_of(ends.file, ends.memory);
  if (pair == nullptr) return;
  if (pair->reach() == TrialResult::untried) {
    const bool mine = need == Need::convenient ? pair->claim_trial() : pair->claim_trial_at_once();
    if (mine) return make_trial(ends, *pair);
  }
  if (need == Need::absolute) pair->wait_for_trial();
}

Grouping P2pdma::grouping(const Facts& facts, const route::Segment& all) const noexcept {
  const DirectPair* const pair = pair_of(facts.file, facts.memory);
  if (all.carry != route::SegmentMode::direct || pair == nullptr) return {};
  return {GroupClass::direct, completion_of(facts.file.options, *pair, all.length), 2, true};
}

std::unique_ptr<GroupMover> P2pdma::group_mover(GroupClass /*group_class*/) const noexcept {
  return std::unique_ptr<GroupMover>(new (std::nothrow) DirectGroup);
}

void P2pdma::move(std::span<Item> items, Completion& /*completion*/) const noexcept {
  for (Item& item : items) {
    DirectPair* const pair = pair_of(item.ends->file, item.ends->memory);
    item.outcome = pair != nullptr ? ByDrive(*item.ends, *pair).move(item.piece) : Outcome::bytes(0);
  }
}

void P2pdma::tell_reasons(const Facts& facts, std::vector<route::Reason>& reasons) const {
  const Options& options = facts.file.options;
  const auto all = route::all_reasons(facts.file.facts, facts.memory, options.machine, options.rules,
                                      is_in_question(facts) ? reach_of(facts) : TrialResult::untried);
  std::copy_if(all.begin(), all.end(), std::back_inserter(reasons),
               [&options](route::Reason reason) { return !is_left_to_nvfs(reason, options); });
}

std::string P2pdma::words(const Facts& facts) const {
  const DirectPair* const pair = is_in_question(facts) ? pair_of(facts.file, facts.memory) : nullptr;
  const std::string words = pair != nullptr ? pair->words() : "";
  return words.empty() ? words : "direct path: " + words;
}

DirectPair* pair_of(const File& file, const facts::BufferFacts& memory) noexcept {
  Attachment* const kept = file.storage.of(SLUICE_PATH_P2PDMA);
  return kept != nullptr && memory.device >= 0 ? static_cast<PairsOfFile*>(kept)->with(file.facts, memory) : nullptr;
}

facts::TrialResult reach_after(Outcome refusal) noexcept {
  switch (refusal.error()) {
    case EREMOTEIO:
      return facts::TrialResult::pages_refused;
    case EINVAL:
      return facts::TrialResult::unreachable;
    case EFAULT:
      return facts::TrialResult::pinning_refused;
    default:
      return facts::TrialResult::proven;
  }
}

void give_up_direct(DirectPair& pair, const facts::BufferFacts& memory, const Piece& piece, Outcome refusal) noexcept {
  if (blames_the_pair(memory, piece, refusal)) refuse_pair(pair, refusal);
  pair.count_rerouted();
}

// A provider may map memory at another place within a page than the device has it.
std::uint64_t usable_bytes(const facts::FileFacts& file, const gpu::P2pMapping& mapping,
                           std::uint64_t wanted) noexcept {
  const std::uint32_t alignment = std::max(route::trusted_memory_alignment, file.memory_alignment);
  if (reinterpret_cast<std::uintptr_t>(mapping.address) % alignment != 0) return 0;
  const std::uint64_t length = std::min(mapping.length, wanted);
  return length - length % std::max(1u, file.offset_alignment);
}

}  // namespace sluice::paths
