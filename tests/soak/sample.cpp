// SPDX-License-Identifier: Apache-2.0
#include "soak/sample.h"

#include <malloc.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "sluice.h"

namespace sluice::soak {

namespace {

// sluice.h: a piece of staging memory has 4 MiB, and one for streams 1.3 MiB.
constexpr std::uint64_t ring_bytes = std::uint64_t{4} << 20U;
constexpr std::uint64_t channel_bytes = std::uint64_t{13} << 17U;

std::uint64_t entries_of(const char* folder) {
  std::uint64_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++count;
  return count;
}

// Device memory of the soft GPU is shared memory; it is not counted.
std::uint64_t own_memory() {
  std::ifstream status("/proc/self/status");
  std::uint64_t kibibytes = 0;
  for (std::string line; std::getline(status, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    if (name == "RssAnon:") words >> kibibytes;
  }
  return kibibytes << 10U;
}

}  // namespace

Sample sample_now() {
  Sample sample;
  // Of all threads' heaps; what they keep free for later is not counted.
  const auto heaps = mallinfo2();
  sample.allocated = heaps.uordblks + heaps.hblkhd;
  sample.memory = own_memory();
  sample.descriptors = entries_of("/proc/self/fd");
  sample.threads = entries_of("/proc/self/task");
  sluice_carrier_counts_t counts{};
  sluice_carrier_counters(&counts);
  sample.pinned = counts.rings * ring_bytes + counts.stations * channel_bytes;
  return sample;
}

}  // namespace sluice::soak
