// SPDX-License-Identifier: Apache-2.0
// The path `p2pdma`: the drive reads and writes device memory itself, through pages that the kernel can pin.
#pragma once

#include "facts/trial_result.h"
#include "gpu/pinnable.h"
#include "io/uring.h"
#include "paths/path.h"

namespace sluice::paths {

// For pieces of whole blocks at aligned addresses (route::Carry::direct) and files whose pair is proven. Beyond Path's
// promise: a count that is short says that something was in the way; asked for the rest, the path tells what. Short of
// it: pieces behind one that failed may have arrived, so memory behind the count, within the piece, need not be as it
// was.
Path& p2pdma(io::CompletionMode completion) noexcept;

// What an error of this path, on whole and aligned blocks, says of the pair; `proven` where it says nothing.
facts::TrialResult reach_after(base::Outcome refusal) noexcept;

// Takes the pair out of use for such an error, and tells the log; nothing for any other.
void refuse_pair(DirectPair& pair, base::Outcome refusal) noexcept;

// The path has moved nothing of this piece, and the rest of the transfer goes another way: counted, and the pair taken
// out of use where it is to blame.
void give_up_direct(DirectPair& pair, const facts::BufferFacts& memory, const Piece& piece,
                    base::Outcome refusal) noexcept;

// How much of a mapping O_DIRECT can use for this file, at most `wanted`: whole blocks at an aligned address. 0:
// nothing.
std::uint64_t usable_bytes(const facts::FileFacts& file, const gpu::P2pMapping& mapping, std::uint64_t wanted) noexcept;

}  // namespace sluice::paths
