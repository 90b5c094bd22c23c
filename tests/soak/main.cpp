// SPDX-License-Identifier: Apache-2.0
// soak: works in rounds, and tells after each what the process holds (soak.py).
//
//   soak FOLDER SECONDS ROUNDS small|whole [BURDEN...]   until so many seconds are over, or so many rounds (0: no end)
//                                                       are done; only these burdens, where some are named
//
// Each line: seconds, memory, allocated, descriptors, threads, pinned. Exit status 0; 1 with the reason on stderr.
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <set>
#include <string>

#include "soak/burdens.h"
#include "soak/sample.h"
#include "support/calls.h"

namespace sluice::soak {

namespace {

using Clock = std::chrono::steady_clock;

// Handles need descriptors, of which a user may have fewer.
Amounts possible(Amounts wanted) {
  constexpr std::size_t others = 2000;
  struct rlimit limit {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return wanted;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur < wanted.handles + others) wanted.handles = limit.rlim_cur / 2;
  return wanted;
}

void work(const std::string& folder, long seconds, unsigned long rounds, const Amounts& amounts,
          const std::set<std::string>& only) {
  const Clock::time_point begin = Clock::now();
  const auto since = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  for (unsigned long round = 1; rounds == 0 || round <= rounds; ++round) {
    for (const Burden& burden : burdens()) {
      if (only.empty() || only.contains(burden.name)) burden.bear(folder, round, amounts);
    }
    // What an open driver holds is told; every second round begins without it.
    const Sample sample = sample_now();
    std::printf("%.1f %lu %lu %lu %lu %lu\n", since(), sample.memory, sample.allocated, sample.descriptors,
                sample.threads, sample.pinned);
    std::fflush(stdout);
    if (round % 2 == 0) support::close_driver_fully();
    if (since() > static_cast<double>(seconds)) return;
  }
}

}  // namespace

}  // namespace sluice::soak

int main(int count, char** words) {
  using namespace sluice::soak;
  if (count < 5) {
    std::fputs("usage: soak FOLDER SECONDS ROUNDS small|whole [BURDEN...]\n", stderr);
    return 2;
  }
  Amounts amounts;
  if (std::strcmp(words[4], "small") == 0) amounts = {200, 50, 10, 50, 30};
  try {
    work(words[1], std::atol(words[2]), std::strtoul(words[3], nullptr, 10), possible(amounts),
         {words + 5, words + count});
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "soak: %s\n", error.what());
    return 1;
  }
}
