// SPDX-License-Identifier: Apache-2.0
// A read that came short, or met EIO, while the file goes on: a short count means the end of the file, and EIO means
// the storage. File systems have other reasons for both: XFS answers EIO to an O_DIRECT read across the end of a file
// for which it has set space aside that buffered writes may need, and to one that meets such a write.
#pragma once

#include "base/outcome.h"
#include "paths/path.h"

namespace sluice::request {

// By one path, alone.
base::Outcome move(const paths::Path& path, const paths::Ends& ends, const paths::Piece& piece) noexcept;
// With all that the path says of it.
paths::Item moved(const paths::Path& path, const paths::Ends& ends, const paths::Piece& piece) noexcept;

// Whether what a path has answered for a piece to be read leaves something to be asked for again.
bool reads_on(const paths::Ends& ends, const paths::Piece& piece, base::Outcome moved) noexcept;

// The same piece up to where the file ends by now: once more as it was, at last by the buffered private description.
// Answers for all of it, what was moved before included. Ends: each turn brings bytes, or is one of two in vain.
base::Outcome read_on(const paths::Path& path, const paths::Ends& ends, const paths::Piece& piece,
                      base::Outcome moved) noexcept;

}  // namespace sluice::request
