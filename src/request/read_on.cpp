// SPDX-License-Identifier: Apache-2.0
#include "request/read_on.h"

#include <algorithm>
#include <cerrno>

#include "facts/descriptor_check.h"

namespace sluice::request {

using base::FileOffset;
using base::Outcome;
using route::SegmentMode;

namespace {

constexpr unsigned most_in_vain = 2;
constexpr std::uint64_t no_size = ~std::uint64_t{0};  // as facts::Look tells it

bool tells_of_storage(Outcome moved) noexcept {
  return !moved.ok() && moved.error() != EIO;
}

// What O_DIRECT refuses, or collides with, the page cache has. Places that are left need not be whole blocks.
SegmentMode carry_for(const paths::File& file, const paths::Piece& piece, unsigned in_vain) noexcept {
  if (!file.facts.direct) return piece.carry;
  return in_vain == 0 ? SegmentMode::bounce : SegmentMode::bounce_buffered;
}

class NotAsked final : public paths::Completion {
 public:
  void ended(std::span<const std::uint16_t> /*items*/) noexcept override {}
};

}  // namespace

Outcome move(const paths::Path& path, const paths::Ends& ends, const paths::Piece& piece) noexcept {
  return moved(path, ends, piece).outcome;
}

paths::Item moved(const paths::Path& path, const paths::Ends& ends, const paths::Piece& piece) noexcept {
  paths::Item item{&ends, piece};
  NotAsked not_asked;
  path.move({&item, 1}, not_asked);
  return item;
}

bool reads_on(const paths::Ends& ends, const paths::Piece& piece, Outcome moved) noexcept {
  if (piece.direction != base::Direction::read || tells_of_storage(moved)) return false;
  if (!moved.ok()) return true;
  // A device has no size to hold it against: its short count is its end.
  return ends.now.size() != no_size && piece.at.value + moved.count() < ends.now.size();
}

Outcome read_on(const paths::Path& path, const paths::Ends& ends, const paths::Piece& piece, Outcome moved) noexcept {
  std::uint64_t done = moved.count();
  for (unsigned in_vain = 0; done < piece.length && in_vain < most_in_vain && !tells_of_storage(moved);) {
    facts::DescriptorCheck now(ends.file.descriptor(), ends.file.facts);
    if (!now.finds_the_file()) break;
    const std::uint64_t at = piece.at.value + done;
    if (at >= now.size()) return Outcome::bytes(done);
    const paths::Ends as_it_is{ends.file, now, ends.memory, ends.handle, ends.registered, ends.device};
    const std::uint64_t length = std::min(piece.length - done, now.size() - at);
    moved = move(path, as_it_is,
                 {piece.direction, carry_for(ends.file, piece, in_vain), FileOffset{at}, piece.address + done, length});
    done += moved.count();
    in_vain = moved.count() > 0 ? 0 : in_vain + 1;
  }
  return done > 0 || moved.ok() ? Outcome::bytes(done) : moved;
}

}  // namespace sluice::request
