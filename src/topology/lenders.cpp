// SPDX-License-Identifier: Apache-2.0
#include "topology/lenders.h"

#include <algorithm>

#include "topology/distance.h"

namespace sluice::topology {

namespace {

int lender_rank(const Machine& machine, const std::string& target, const std::string& lender) {
  const Device* const one = target.empty() ? nullptr : find_device(machine, target);
  const Device* const other = lender.empty() ? nullptr : find_device(machine, lender);
  if (one == nullptr || other == nullptr) return 1;
  switch (distance_between(machine, *one, *other).nearness) {
    case Nearness::same_root:
    case Nearness::same_node:
      return 0;
    case Nearness::unknown:
      return 1;
    case Nearness::far:
      return 2;
    case Nearness::same_switch:
      break;
  }
  return 3;
}

}  // namespace

std::vector<int> lenders_of(const Machine& machine, const std::vector<std::string>& gpus, int target) {
  const int count = static_cast<int>(gpus.size());
  std::vector<int> order;
  for (int step = 1; step < count; ++step) order.push_back((target + step) % count);
  const auto rank = [&](int lender) {
    return lender_rank(machine, gpus[static_cast<std::size_t>(target)], gpus[static_cast<std::size_t>(lender)]);
  };
  std::stable_sort(order.begin(), order.end(), [&](int one, int other) { return rank(one) < rank(other); });
  return order;
}

}  // namespace sluice::topology
