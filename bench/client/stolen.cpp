// SPDX-License-Identifier: Apache-2.0
#include "client/stolen.h"

#include <unistd.h>

#include <exception>
#include <fstream>
#include <string>

namespace sluice::bench {

// The first line of /proc/stat: "cpu", then user, nice, system, idle, iowait, irq, softirq, steal, in ticks.
double stolen_seconds() noexcept try {
  std::ifstream file("/proc/stat");
  std::string word;
  constexpr int of_steal = 8;
  for (int i = 0; i <= of_steal; ++i) file >> word;
  return file ? std::stod(word) / static_cast<double>(::sysconf(_SC_CLK_TCK)) : 0;
} catch (const std::exception&) {
  return 0;
}

}  // namespace sluice::bench
