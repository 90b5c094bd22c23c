// SPDX-License-Identifier: Apache-2.0
// Sluice's own functions are looked up by name: the program has to run on libraries that do not have them.
#include "gdsio/ways.h"

#include <dlfcn.h>

#include <array>

#include "sluice.h"

namespace sluice::tools {
namespace {

template <typename Function>
Function* offered(const char* name, Function* /*of this type*/) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

std::vector<WayTaken> counts_now() {
  std::vector<WayTaken> ways;
  auto* const read = offered("sluice_path_counters", sluice_path_counters);
  auto* const path_name = offered("sluice_path_name", sluice_path_name);
  auto* const reason_name = offered("sluice_reason_name", sluice_reason_name);
  auto* const sentence = offered("sluice_reason_sentence", sluice_reason_sentence);
  if (read == nullptr || path_name == nullptr || reason_name == nullptr || sentence == nullptr) return ways;
  std::array<sluice_path_counter_t, std::size_t{SLUICE_PATH_COUNT} * SLUICE_REASON_COUNT> counters{};
  std::size_t count = 0;
  if (read(counters.data(), counters.size(), &count).err != CU_FILE_SUCCESS) return ways;
  for (std::size_t i = 0; i < count && i < counters.size(); ++i) {
    const sluice_path_counter_t& counter = counters[i];
    const char* const path = path_name(counter.path);
    const char* const reason = reason_name(counter.reason);
    if (path == nullptr || reason == nullptr) continue;
    ways.push_back({path, reason, sentence(counter.reason), counter.reads + counter.writes,
                    counter.read_bytes + counter.written_bytes});
  }
  return ways;
}

}  // namespace

WayCounts::WayCounts() : known_(dlsym(RTLD_DEFAULT, "sluice_path_counters") != nullptr), before_(counts_now()) {}

std::vector<WayTaken> WayCounts::since() const {
  std::vector<WayTaken> ways;
  for (WayTaken& now : counts_now()) {
    for (const WayTaken& then : before_) {
      if (then.path != now.path || then.reason != now.reason) continue;
      now.ops -= then.ops;
      now.bytes -= then.bytes;
    }
    if (now.ops != 0) ways.push_back(std::move(now));
  }
  return ways;
}

}  // namespace sluice::tools
