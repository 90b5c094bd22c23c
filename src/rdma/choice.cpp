// SPDX-License-Identifier: Apache-2.0
#include "rdma/choice.h"

#include <algorithm>
#include <limits>

namespace sluice::rdma {

namespace {

// One that the file system ranks goes before all that it does not.
unsigned rank_of(const Candidate& candidate) noexcept {
  return candidate.priority < 0 ? std::numeric_limits<unsigned>::max() : static_cast<unsigned>(candidate.priority);
}

// Spreads what follows each other over all values.
std::uint32_t mixed(std::uint32_t turn) noexcept {
  turn = (turn ^ turn >> 16U) * 0x7feb352dU;
  turn = (turn ^ turn >> 15U) * 0x846ca68bU;
  return turn ^ turn >> 16U;
}

// The nth of those that `fits`.
template <typename Fits>
std::size_t take(std::span<const Candidate> candidates, std::uint32_t number, Fits fits) noexcept {
  const auto count = static_cast<std::uint32_t>(std::count_if(candidates.begin(), candidates.end(), fits));
  std::uint32_t left = number % count;
  for (std::size_t index = 0; index < candidates.size(); ++index) {
    if (fits(candidates[index]) && left-- == 0) return index;
  }
  return 0;
}

}  // namespace

std::optional<Balance> balance_named(std::string_view name) noexcept {
  if (name == "FirstFit") return Balance::first_fit;
  if (name == "MaxMinFit") return Balance::max_min_fit;
  if (name == "RoundRobin") return Balance::round_robin;
  if (name == "RoundRobinMaxMin") return Balance::round_robin_max_min;
  if (name == "Randomized") return Balance::randomized;
  return std::nullopt;
}

std::size_t keep_nearest(std::span<Candidate> candidates, int ranks) noexcept {
  int limit = 0;
  for (int rank = 0; rank < std::max(ranks, 1); ++rank) {
    int next = std::numeric_limits<int>::max();
    for (const Candidate& candidate : candidates) {
      if (candidate.preference > limit || rank == 0) next = std::min(next, candidate.preference);
    }
    if (next == std::numeric_limits<int>::max()) break;
    limit = next;
  }
  const auto end = std::partition(candidates.begin(), candidates.end(),
                                  [limit](const Candidate& one) { return one.preference <= limit; });
  return static_cast<std::size_t>(end - candidates.begin());
}

std::size_t choose(std::span<const Candidate> candidates, Balance balance, std::uint32_t turn) noexcept {
  const unsigned best = rank_of(*std::min_element(
      candidates.begin(), candidates.end(), [](const auto& a, const auto& b) { return rank_of(a) < rank_of(b); }));
  const auto ranked = [best](const Candidate& one) { return rank_of(one) == best; };
  std::uint64_t fewest = std::numeric_limits<std::uint64_t>::max();
  int nearest = std::numeric_limits<int>::max();
  for (const Candidate& one : candidates) {
    if (!ranked(one)) continue;
    fewest = std::min(fewest, one.under_way);
    nearest = std::min(nearest, one.preference);
  }
  const auto idlest = [&](const Candidate& one) { return ranked(one) && one.under_way == fewest; };
  switch (balance) {
    case Balance::first_fit:
      return take(candidates, 0, [&](const Candidate& one) { return ranked(one) && one.preference == nearest; });
    case Balance::max_min_fit: {
      int near = std::numeric_limits<int>::max();
      for (const Candidate& one : candidates) {
        if (idlest(one)) near = std::min(near, one.preference);
      }
      return take(candidates, 0, [&](const Candidate& one) { return idlest(one) && one.preference == near; });
    }
    case Balance::round_robin_max_min:
      return take(candidates, turn, idlest);
    case Balance::randomized:
      return take(candidates, mixed(turn), ranked);
    case Balance::round_robin:
      break;
  }
  return take(candidates, turn, ranked);
}

}  // namespace sluice::rdma
