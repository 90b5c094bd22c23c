// Which places of a staging ring a thread reads chunks into.
//
// Usually chunk n lies in place n % count. Where several threads share one request and no other is under way, each has
// places of its own, the same ones with every request: what it wrote there last lies in the cache of its processor, and
// no other has to be asked for it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

namespace sluice::staging {

struct Places {
  std::uint32_t count = 0;
  std::uint32_t own = 0;  // of each hand; 0: they share all

  // `count` places, divided among so many hands; shared where a hand would have too few to go on with.
  static Places of_their_own(std::uint32_t count, std::uint32_t hands) noexcept;
  // When no more chunks than this are read, no place is used twice.
  std::uint32_t enough_for() const noexcept { return own != 0 ? own : count; }
};

// One thread at one request, whose chunks it gets in growing order.
class Hand {
 public:
  // Threads at the same request have different numbers.
  Hand(const Places& places, std::uint32_t number) noexcept : places_(places), first_(number * places.own) {}

  // Where the chunk is to be read, and which chunk has to have left that place before.
  std::uint32_t place_for(std::uint32_t chunk) const noexcept {
    return places_.own != 0 ? first_ + turn_ : chunk % places_.count;
  }
  std::optional<std::uint32_t> in_the_way_of(std::uint32_t chunk) const noexcept {
    if (places_.own != 0) return in_the_way();
    return chunk < places_.count ? std::nullopt : std::optional(chunk - places_.count);
  }
  // The same of whichever chunk comes next, where it has places of its own: all of them have been used.
  std::optional<std::uint32_t> in_the_way() const noexcept {
    return places_.own != 0 && used_ == places_.own ? std::optional(chunks_[turn_]) : std::nullopt;
  }
  // It lies there now; the next one goes to the next place.
  void has_read(std::uint32_t chunk) noexcept {
    if (places_.own == 0) return;
    chunks_[turn_] = chunk;
    turn_ = turn_ + 1 == places_.own ? 0 : turn_ + 1;
    if (used_ < places_.own) ++used_;
  }

  static constexpr std::uint32_t most_of_its_own = 128;

 private:
  const Places& places_;
  const std::uint32_t first_;
  std::uint32_t turn_ = 0;
  std::uint32_t used_ = 0;
  std::array<std::uint32_t, most_of_its_own> chunks_{};  // that lie in the places
};

inline Places Places::of_their_own(std::uint32_t count, std::uint32_t hands) noexcept {
  constexpr std::uint32_t fewest = 3;
  const std::uint32_t share = count / hands;
  if (share < fewest) return {.count = count};
  return {.count = count, .own = share < Hand::most_of_its_own ? share : Hand::most_of_its_own};
}

}  // namespace sluice::staging
