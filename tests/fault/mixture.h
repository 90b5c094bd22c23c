// SPDX-License-Identifier: Apache-2.0
// Random faults for many transfers of one size at a time, and the rounds that tests make of them.
#pragma once

#include <gtest/gtest.h>

#include <cerrno>
#include <cstddef>
#include <vector>

#include "fault/interpose.h"
#include "support/random.h"

namespace sluice::fault {

inline std::vector<Step> random_mixture(support::Random& random, std::size_t size) {
  std::vector<Step> steps;
  for (int i = 0; i < 60; ++i) {
    switch (random.below(6)) {
      case 0:
        steps.push_back(shorten(1 + random.below(size)));
        break;
      case 1:
        steps.push_back(fail(EINTR));
        break;
      case 2:
        steps.push_back(fail(random.below(2) == 0 ? EIO : EAGAIN));
        break;
      default:
        steps.push_back(pass());
    }
  }
  steps.push_back(pass());
  return steps;
}

// Calls `run` with a mixture and the number of the round, until something fails.
template <typename Run>
void with_random_mixtures(std::size_t size, const Run& run) {
  support::Random random(support::run_seed());
  for (int round = 0; round < 30; ++round) {
    SCOPED_TRACE(::testing::Message() << "round " << round << "; SLUICE_TEST_SEED=" << support::run_seed());
    run(random_mixture(random, size), round);
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace sluice::fault
