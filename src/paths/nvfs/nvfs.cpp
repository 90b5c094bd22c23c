// SPDX-License-Identifier: Apache-2.0
// A success of the module's is not taken for one: a hole where the file system has bytes, and a write that moved
// nothing, are what a driver without hooks answers, and end the path for the process.
#include "paths/nvfs/nvfs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <new>

#include "gpu/pinnable.h"
#include "nvfs/group.h"
#include "observe/log.h"
#include "paths/group_mover.h"
#include "paths/nvfs/holes.h"
#include "paths/nvfs/kept.h"
#include "paths/nvfs/trial.h"
#include "paths/trial.h"

namespace sluice::paths {

namespace {

using base::Direction;
using base::Outcome;
using facts::TrialResult;

NvfsBuffer* nvfs_buffer_of(const Attachments* registered) noexcept {
  return registered != nullptr ? static_cast<NvfsBuffer*>(registered->of(SLUICE_PATH_NVFS)) : nullptr;
}

void log_refusal(const TriedPair& pair, const std::string& words) {
  observe::log(
      config::LogLevel::warn, "nvfs",
      fmt::format("device {} and {}: not by nvidia-fs.ko any more ({})", pair.device(), pair.storage(), words));
}

void refuse(TriedPair& pair, TrialResult reach, const char* what) noexcept {
  if (!pair.refuse(reach)) return;
  try {
    const std::string words = fmt::format("a transfer {} after a trial had succeeded", what);
    pair.say(words);
    log_refusal(pair, words);
  } catch (...) {  // NOLINT(bugprone-empty-catch): the reach has changed, which is what counts
  }
}

// What a transfer that stopped says of more than itself.
void hear_of(NvfsPair& pair, const nvfs::Member& member) noexcept {
  switch (member.trouble) {
    case nvfs::Trouble::wrote_nothing:
      nvfs::client().drop();
      return refuse(pair.writes, TrialResult::write_lost, "was reported to have written nothing");
    case nvfs::Trouble::hole_over_data:
      nvfs::client().drop();
      return refuse(pair.reads, TrialResult::bytes_elsewhere, "reported a hole where the file has bytes");
    case nvfs::Trouble::not_understood:
      nvfs::client().drop();
      return refuse(pair.reads, TrialResult::bytes_elsewhere, "told of holes in a way that is not known");
    case nvfs::Trouble::not_mapped:
    case nvfs::Trouble::memory_gone:
      return;
    case nvfs::Trouble::none:
      break;
  }
  if (member.error == EINVAL) refuse(pair.reads, TrialResult::call_refused, "of whole blocks was answered EINVAL");
}

// So many items go together; their parts are more.
constexpr std::size_t most_items = 32;

// As many asynchronous calls at a time as the client has under way.
class Together {
 public:
  explicit Together(std::span<Item> items) noexcept : items_(items) {}

  void move() noexcept {
    for (std::size_t i = 0; i < items_.size(); ++i) begin(i, 0);
    nvfs::Group::run(nvfs::client().node(), std::span(members_).first(items_.size()));
    for (std::size_t i = 0; i < items_.size(); ++i) finish(i);
  }

 private:
  // The rest of an item.
  void begin(std::size_t number, std::uint64_t done) noexcept {
    const Item& item = items_[number];
    const Ends& ends = *item.ends;
    const Piece& piece = item.piece;
    nvfs::Member& member = members_[number];
    NvfsBuffer* const buffer = nvfs_buffer_of(ends.registered);
    const NvfsFile* const file = nvfs_file_of(ends.file);
    member = {};
    if (buffer == nullptr || file == nullptr) return;
    const std::uint64_t there = buffer->there(piece.address) + done;
    if (!buffer->windows().hold(there, piece.length - done)) return;
    holes_[number] = HolesOf(ends, piece.at.value + done, piece.address + done);
    member.direction = piece.direction;
    member.file = file->name();
    member.at = piece.at.value + done;
    member.address = there;
    member.length = piece.length - done;
    member.windows = &buffer->windows();
    member.holes = &holes_[number];
  }

  // What came short without a word is asked for again: the answer tells what is in the way, or that the file ends.
  void finish(std::size_t number) noexcept {
    Item& item = items_[number];
    std::uint64_t done = 0;
    for (;;) {
      const nvfs::Member& member = members_[number];
      done += member.done;
      if (done == item.piece.length || member.done == 0 || member.error != 0) break;
      begin(number, done);
      nvfs::Group::run(nvfs::client().node(), {&members_[number], 1});
    }
    item.outcome = Outcome::bytes(done);
    NvfsPair* const pair = nvfs_pair_of(item.ends->file, item.ends->memory);
    if (pair == nullptr) return;
    if (done > 0) pair->reads.count_transfer();
    if (done == item.piece.length) return;
    pair->reads.count_rerouted();
    hear_of(*pair, members_[number]);
  }

  std::span<Item> items_;
  std::array<nvfs::Member, most_items> members_;
  std::array<HolesOf, most_items> holes_;
};

// Many entries of a batch. What the module does not move of one goes by itself: it is not asked for that again.
class NvfsGroup final : public GroupMover {
 public:
  void move(std::span<Item> items, const Grouping& /*grouping*/, transfer::Bond /*bond*/,
            Completion& completion) noexcept override {
    for (std::size_t from = 0; from < items.size(); from += most_items) {
      const std::size_t end = std::min(items.size(), from + most_items);
      Together(items.subspan(from, end - from)).move();
      std::array<std::uint16_t, most_items> whole;
      std::size_t count = 0;
      for (std::size_t i = from; i < end; ++i) {
        Item& item = items[i];
        item.ended = item.outcome.count() == item.piece.length;
        item.stopped = !item.ended;
        if (item.ended) whole[count++] = static_cast<std::uint16_t>(i);
      }
      if (count > 0) completion.ended(std::span(whole).first(count));
    }
  }
};

}  // namespace

constinit const Nvfs nvfs_before_p2pdma{Nvfs::Line::before_p2pdma};
constinit const Nvfs nvfs_behind_p2pdma{Nvfs::Line::behind_p2pdma};

std::unique_ptr<SessionAttachment> Nvfs::of_session(const Options& options) const {
  return is_taken(options) ? std::make_unique<NvfsSession>() : nullptr;
}

std::unique_ptr<Attachment> Nvfs::of_file(const File& file, SessionAttachment* session) const {
  if (session == nullptr || !is_taken(file.options)) return nullptr;
  return std::make_unique<NvfsFile>(*static_cast<NvfsSession*>(session), file);
}

std::unique_ptr<Attachment> Nvfs::of_buffer(std::uint64_t address, std::uint64_t size, const facts::BufferFacts& facts,
                                            const Options& options) const {
  if (!is_taken(options) || facts.kind != facts::MemoryKind::device || !nvfs::client().is_open()) return nullptr;
  const std::uint64_t there = gpu::kernel_address(facts, address, size);
  if (there == 0 || there % nvfs::block_bytes != address % nvfs::block_bytes) return nullptr;
  return std::make_unique<NvfsBuffer>(address, there, size, gpu_on_bus(facts.device));
}

bool Nvfs::concerns(const File& file) const noexcept {
  return is_taken(file.options) && nvfs_file_of(file) != nullptr;
}

std::optional<route::Reason> Nvfs::refuses(const Facts& facts) const noexcept {
  if (!concerns(facts.file)) return unconcerned;
  const Options& options = facts.file.options;
  NvfsFile* const file = nvfs_file_of(facts.file);
  const auto kept = route::kept_from_nvfs(facts.file.facts, facts.memory, file->standing(), options.rules);
  if (kept) return kept;
  if (facts.trust == Trust::what_is_hoped_for) return std::nullopt;
  if (facts.knows_registration && nvfs_buffer_of(facts.registered) == nullptr) return SLUICE_REASON_NVFS_UNREGISTERED;
  const NvfsPair* const pair = facts.memory.device >= 0 ? file->with(facts.file.facts, facts.memory) : nullptr;
  if (pair == nullptr) return SLUICE_REASON_NOT_PROVEN;
  if (const auto reason = route::reason_of(pair->reads.reach()); reason != SLUICE_REASON_DIRECT) return reason;
  if (facts.direction == Direction::write) {
    if (const auto reason = route::reason_of(pair->writes.reach()); reason != SLUICE_REASON_DIRECT) return reason;
  }
  if (nvfs::client().is_dropped()) return SLUICE_REASON_NVFS_BYTES_ELSEWHERE;
  // What it has given up is not asked of it again.
  return facts.stopped ? std::optional(SLUICE_REASON_STOPPED_IN_FLIGHT) : std::nullopt;
}

route::Cutting Nvfs::cutting(const Facts& facts) const noexcept {
  return {true, route::SegmentMode::direct, nvfs::block_bytes,
          std::max<std::uint64_t>(nvfs::block_bytes, facts.file.facts.offset_alignment)};
}

void Nvfs::try_out(const Ends& ends, Need need) const noexcept {
  NvfsPair* const pair = nvfs_pair_of(ends.file, ends.memory);
  if (pair == nullptr || nvfs::client().is_dropped()) return;
  const auto try_one = [need](TriedPair& tried, auto make) {
    if (tried.reach() == TrialResult::untried) {
      if (need == Need::convenient ? tried.claim_trial() : tried.claim_trial_at_once()) return make();
    }
    if (need == Need::absolute) tried.wait_for_trial();
  };
  try_one(pair->reads, [&] { make_read_trial(ends, *pair); });
  const bool may_write = ends.file.facts.access != facts::Access::read_only;
  if (may_write && pair->reads.reach() == TrialResult::proven) {
    try_one(pair->writes, [&] { make_write_trial(ends, *pair); });
  }
}

Grouping Nvfs::grouping(const Facts& facts, const route::Segment& all) const noexcept {
  if (all.carry != route::SegmentMode::direct || nvfs_buffer_of(facts.registered) == nullptr) return {};
  return {GroupClass::direct, io::CompletionMode::interrupt, 2, true};
}

std::unique_ptr<GroupMover> Nvfs::group_mover(GroupClass /*group_class*/) const noexcept {
  return std::unique_ptr<GroupMover>(new (std::nothrow) NvfsGroup);
}

void Nvfs::move(std::span<Item> items, Completion& /*completion*/) const noexcept {
  while (!items.empty()) {
    const std::size_t count = std::min(items.size(), most_items);
    Together(items.first(count)).move();
    items = items.subspan(count);
  }
}

std::string Nvfs::words(const Facts& facts) const {
  if (!is_taken(facts.file.options)) return "";
  const NvfsPair* const pair = nvfs_pair_of(facts.file, facts.memory);
  if (pair == nullptr) return "";
  const std::string reads = pair->reads.words();
  const std::string writes = pair->writes.words();
  if (reads.empty()) return "";
  return "nvidia-fs: " + reads + (writes.empty() ? "" : "; " + writes);
}

}  // namespace sluice::paths
