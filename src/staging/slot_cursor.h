// SPDX-License-Identifier: Apache-2.0
// Which places of a staging buffer a thread reads chunks into.
//
// Usually chunk n lies in place n % count. Where several threads share one request and few others are under way, each
// has places of its own, the same ones with every request: what it wrote there last lies in the cache of its processor,
// and no other has to be asked for it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

namespace sluice::staging {

struct SlotLayout {
  std::uint32_t count = 0;
  std::uint32_t own = 0;  // of each helper; 0: they share all

  // `count` places, divided among so many helpers; shared where a helper would have too few to go on with.
  static SlotLayout of_their_own(std::uint32_t count, std::uint32_t helpers) noexcept;
  // When no more chunks than this are read, no place is used twice.
  std::uint32_t enough_for() const noexcept { return own != 0 ? own : count; }
};

// One thread at one request, whose chunks it gets in growing order.
class SlotCursor {
 public:
  // Threads at the same request have different numbers.
  SlotCursor(const SlotLayout& layout, std::uint32_t number) noexcept : layout_(layout), first_(number * layout.own) {}

  // Where the chunk is to be read, and which chunk has to have left that place before.
  std::uint32_t slot_for(std::uint32_t chunk) const noexcept {
    return layout_.own != 0 ? first_ + turn_ : chunk % layout_.count;
  }
  std::optional<std::uint32_t> in_the_way_of(std::uint32_t chunk) const noexcept {
    if (layout_.own != 0) return in_the_way();
    return chunk < layout_.count ? std::nullopt : std::optional(chunk - layout_.count);
  }
  // The same of whichever chunk comes next, where it has places of its own: all of them have been used.
  std::optional<std::uint32_t> in_the_way() const noexcept {
    return layout_.own != 0 && used_ == layout_.own ? std::optional(chunks_[turn_]) : std::nullopt;
  }
  // It lies there now; the next one goes to the next place.
  void has_read(std::uint32_t chunk) noexcept {
    if (layout_.own == 0) return;
    chunks_[turn_] = chunk;
    turn_ = turn_ + 1 == layout_.own ? 0 : turn_ + 1;
    if (used_ < layout_.own) ++used_;
  }

  static constexpr std::uint32_t most_of_its_own = 128;

 private:
  const SlotLayout& layout_;
  const std::uint32_t first_;
  std::uint32_t turn_ = 0;
  std::uint32_t used_ = 0;
  std::array<std::uint32_t, most_of_its_own> chunks_{};  // that lie in the places
};

inline SlotLayout SlotLayout::of_their_own(std::uint32_t count, std::uint32_t helpers) noexcept {
  constexpr std::uint32_t fewest = 3;
  const std::uint32_t share = count / helpers;
  if (share < fewest) return {.count = count};
  return {.count = count, .own = share < SlotCursor::most_of_its_own ? share : SlotCursor::most_of_its_own};
}

}  // namespace sluice::staging
