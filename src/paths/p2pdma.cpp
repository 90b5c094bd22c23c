// SPDX-License-Identifier: Apache-2.0
// Mapping by mapping: a device may map less of its memory than a request takes (a BAR of 256 MiB).
#include "paths/p2pdma.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "gpu/memory.h"
#include "io/direct_io.h"
#include "observe/log.h"
#include "paths/direct_pair.h"
#include "route/route.h"

namespace sluice::paths {

namespace {

using base::FileOffset;
using base::Outcome;
using io::CompletionMode;

// A refusal says something of the pair when nothing else can be to blame: not the alignment, since the kernel may not
// have told all of it, and not memory that the caller has freed meanwhile.
bool blames_the_pair(const facts::BufferFacts& memory, const Piece& piece, Outcome refusal) noexcept {
  if (refusal.error() == EINVAL) return (piece.at.value | piece.address | piece.length) % 4096 == 0;
  if (refusal.error() == EFAULT) return gpu::inspect(piece.address).id == memory.id;
  return true;
}

class P2pdma final : public Path {
 public:
  explicit constexpr P2pdma(CompletionMode completion) noexcept : completion_(completion) {}

  Outcome move(const OpenFile& file, const facts::BufferFacts& memory, const Piece& piece) noexcept override {
    std::uint64_t done = 0;
    while (done < piece.length) {
      const Piece rest{piece.direction, piece.carry, FileOffset{piece.at.value + done}, piece.address + done,
                       piece.length - done};
      const gpu::P2pMapping mapping = file.pair->provider().map(memory, rest.address, rest.length);
      const Outcome moved =
          mapping ? move_mapping(file, rest, mapping) : Outcome::refused(CU_FILE_INVALID_MAPPING_RANGE);
      const std::uint64_t wanted = std::min(mapping.length, rest.length);
      if (mapping) file.pair->provider().release(mapping);
      if (!moved.ok()) return done > 0 ? Outcome::bytes(done) : moved;
      done += moved.count();
      if (moved.count() < wanted) break;
    }
    return Outcome::bytes(done);
  }

 private:
  Outcome move_mapping(const OpenFile& file, const Piece& piece, const gpu::P2pMapping& mapping) const noexcept {
    const std::uint32_t block = std::max(1u, file.facts.offset_alignment);
    const std::uint64_t length = usable_bytes(file.facts, mapping, piece.length);
    if (length == 0) return Outcome::refused(CU_FILE_INVALID_MAPPING_RANGE);
    const bool poll = io::is_polled(completion_) && file.pair->can_be_polled();
    const io::DirectResult result = io::move_direct({file.fd, piece.at, {mapping.address, length}, block},
                                                    piece.direction, poll ? completion_ : CompletionMode::interrupt);
    if (result.unpollable) file.pair->cannot_be_polled();
    if (result.outcome.ok()) file.pair->count_transfer(result.polled);
    return result.outcome;
  }

  const CompletionMode completion_;
};

}  // namespace

Path& p2pdma(CompletionMode completion) noexcept {
  static std::array<P2pdma, io::completion_modes> paths{
      P2pdma{CompletionMode::interrupt}, P2pdma{CompletionMode::polled}, P2pdma{CompletionMode::polled_by_kernel},
      P2pdma{CompletionMode::submitted_by_kernel}};
  return paths[static_cast<std::size_t>(completion)];
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
