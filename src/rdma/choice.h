// SPDX-License-Identifier: Apache-2.0
// Which port a transfer goes by. Pure: of those that can take it, by what the file system prefers, how near they are to
// the memory, and the policy of the configuration.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace sluice::rdma {

// As properties.rdma_load_balancing_policy names them.
enum class Balance : std::uint8_t {
  first_fit,            // the nearest
  max_min_fit,          // that with the fewest bytes under way, then the nearest
  round_robin,          // each in turn
  round_robin_max_min,  // each in turn among those with the fewest bytes under way
  randomized,
};
std::optional<Balance> balance_named(std::string_view name) noexcept;

struct Candidate {
  unsigned slot = 0;
  int preference = 0;  // 1 to 0x7000 as topology::preference_between() has it; the same for all where nothing is known
  int priority = -1;   // as the file system's getRDMADevicePriority answers: the smallest first, -1 for none
  std::uint64_t under_way = 0;
};

// Leaves those of the nearest `ranks` distances, in their order; returns how many.
std::size_t keep_nearest(std::span<Candidate> candidates, int ranks) noexcept;

// Its index. Not empty. `turn` grows by 1 with each choice.
std::size_t choose(std::span<const Candidate> candidates, Balance balance, std::uint32_t turn) noexcept;

}  // namespace sluice::rdma
