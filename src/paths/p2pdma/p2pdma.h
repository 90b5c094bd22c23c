// SPDX-License-Identifier: Apache-2.0
// The path `p2pdma`: the drive reads and writes device memory itself, through pages that the kernel can pin.
#pragma once

#include "facts/trial_result.h"
#include "gpu/pinnable.h"
#include "io/uring.h"
#include "paths/p2pdma/direct_pair.h"
#include "paths/path.h"

namespace sluice::paths {

// For pieces of whole blocks at aligned addresses (route::SegmentMode::direct) and files whose pair is proven. Short of
// Path's promise: pieces behind one that failed may have arrived, so memory behind the count, within the piece, need
// not be as it was. What it does not move of an item it goes on with no more, and the pair has heard of it.
class P2pdma final : public Path {
 public:
  constexpr P2pdma() noexcept
      : Path({.id = SLUICE_PATH_P2PDMA,
              .taken = SLUICE_REASON_DIRECT,
              .device_memory_only = true,
              .whole_blocks_only = true}) {}

  std::unique_ptr<SessionAttachment> of_session(const Options& options) const override;
  std::unique_ptr<Attachment> of_file(const File& file, SessionAttachment* session) const override;
  std::optional<route::Reason> refuses(const Facts& facts) const noexcept override;
  route::Cutting cutting(const Facts& facts) const noexcept override;
  void try_out(const Ends& ends, Need need) const noexcept override;
  Grouping grouping(const Facts& facts, const route::Segment& all) const noexcept override;
  std::unique_ptr<GroupMover> group_mover(GroupClass group_class) const noexcept override;
  void move(std::span<Item> items, Completion& completion) const noexcept override;
  void tell_reasons(const Facts& facts, std::vector<route::Reason>& reasons) const override;
  std::string words(const Facts& facts) const override;
};

extern const P2pdma p2pdma;

// The pair of a file's storage and a device; null where the direct path is out of the question whatever a trial says.
// One load once a file and device have met.
DirectPair* pair_of(const File& file, const facts::BufferFacts& memory) noexcept;

// What an error of this path, on whole and aligned blocks, says of the pair; `proven` where it says nothing.
facts::TrialResult reach_after(base::Outcome refusal) noexcept;

// The path has moved nothing of this piece, and the rest of the transfer goes another way: counted, and the pair taken
// out of use where it is to blame.
void give_up_direct(DirectPair& pair, const facts::BufferFacts& memory, const Piece& piece,
                    base::Outcome refusal) noexcept;

// How much of a mapping O_DIRECT can use for this file, at most `wanted`: whole blocks at an aligned address. 0:
// nothing.
std::uint64_t usable_bytes(const facts::FileFacts& file, const gpu::P2pMapping& mapping, std::uint64_t wanted) noexcept;

}  // namespace sluice::paths
