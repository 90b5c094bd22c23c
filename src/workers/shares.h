// How many lanes help a request when others are under way. Callers have hands, too: no more threads are asked to work
// than there are lanes and a caller. Where these would not go round, half of the processors that nobody has give a hand
// here and there.
#pragma once

#include <algorithm>

namespace sluice::workers {

struct Workforce {
  unsigned processors;  // that the process may use
  unsigned lanes;       // never more than that, less one
};

// `offers`: requests under way that want hands; at least 1.
constexpr bool is_crowd(const Workforce& all, unsigned offers) {
  return all.lanes + 1 < 2 * offers;
}

constexpr unsigned hands_for_a_crowd(const Workforce& all, unsigned offers) {
  return all.processors > offers ? std::min((all.processors - offers) / 2, all.lanes) : 0;
}

// At most so many for the one that comes as the last of them.
constexpr unsigned share_of_one(const Workforce& all, unsigned offers, unsigned lanes_at_work) {
  if (!is_crowd(all, offers)) return (all.lanes + 1 - offers) / offers;
  return lanes_at_work < hands_for_a_crowd(all, offers) ? 1 : 0;
}

// How many lanes there is work for, when each offer wants `wanted_by_one`.
constexpr unsigned wanted_by_all(const Workforce& all, unsigned offers, unsigned wanted_by_one) {
  const unsigned wanted = wanted_by_one * offers;
  return is_crowd(all, offers) ? std::min(wanted, hands_for_a_crowd(all, offers)) : wanted;
}

}  // namespace sluice::workers
