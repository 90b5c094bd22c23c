// SPDX-License-Identifier: Apache-2.0
#include "report/measure.h"

#include <fmt/format.h>

#include <string>

namespace sluice::tools {

std::optional<double> speed_of(const Step& step, std::uint64_t round, double seconds, const Budget& budget) {
  for (std::uint64_t before = 0; before < round;) {
    const std::uint64_t moved = step();
    if (moved == 0 || budget.is_spent()) return std::nullopt;
    before += moved;
  }
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  std::uint64_t bytes = 0;
  std::chrono::duration<double> took{};
  for (int times = 0; times < 2 || took.count() < seconds; ++times) {
    if (times < 2 && budget.is_spent()) return std::nullopt;
    if (times >= 2 && budget.is_spent()) break;
    const std::uint64_t moved = step();
    if (moved == 0) return std::nullopt;
    bytes += moved;
    took = Clock::now() - begin;
  }
  return rounded(static_cast<double>(bytes) / took.count() / (1 << 30));
}

double rounded(double value) {
  return std::stod(fmt::format("{:.4g}", value));
}

}  // namespace sluice::tools
