// SPDX-License-Identifier: Apache-2.0
// How many workers help a request when others are under way. Callers work, too: no more threads are asked than there
// are workers and a caller. Where workers do not suffice for all requests, half of the idle processors help.
#pragma once

#include <algorithm>

namespace sluice::workers {

struct ThreadBudget {
  unsigned processors;  // that the process may use
  unsigned workers;     // never more than that, less one
};

// `jobs`: requests under way that want helpers; at least 1.
constexpr bool is_crowd(const ThreadBudget& all, unsigned jobs) {
  return all.workers + 1 < 2 * jobs;
}

constexpr unsigned helpers_for_a_crowd(const ThreadBudget& all, unsigned jobs) {
  return all.processors > jobs ? std::min((all.processors - jobs) / 2, all.workers) : 0;
}

// At most so many for the one that comes as the last of them.
constexpr unsigned helpers_for_one(const ThreadBudget& all, unsigned jobs, unsigned workers_at_work) {
  if (!is_crowd(all, jobs)) return (all.workers + 1 - jobs) / jobs;
  return workers_at_work < helpers_for_a_crowd(all, jobs) ? 1 : 0;
}

// How many workers there is work for, when each job wants `wanted_by_one`.
constexpr unsigned wanted_by_all(const ThreadBudget& all, unsigned jobs, unsigned wanted_by_one) {
  const unsigned wanted = wanted_by_one * jobs;
  return is_crowd(all, jobs) ? std::min(wanted, helpers_for_a_crowd(all, jobs)) : wanted;
}

}  // namespace sluice::workers
