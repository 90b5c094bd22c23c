// SPDX-License-Identifier: Apache-2.0
// The knob, the variables and the counters.
#include "support/coherent.h"

#include <cstdlib>
#include <string>

#include "sluice.h"
#include "support/calls.h"
#include "support/cuda_driver.h"

namespace sluice::support {
namespace {

std::string text_of(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

}  // namespace

bool goes_in_place(MemoryKind kind, Reads reads) {
  const std::string knob = text_of("SLUICE_SOFTGPU_COHERENT");
  const std::string wanted = text_of("SLUICE_COHERENT");
  const bool possible = cuda() != nullptr && cuda()->soft &&
                        entry<decltype(sluice_carrier_counters)>("sluice_carrier_counters") != nullptr;
  if (!possible || wanted == "off" || text_of("SLUICE_MODE") == "plain" || !text_of("SLUICE_COPY").empty())
    return false;
  if (kind == MemoryKind::managed) return wanted == "on" || (!knob.empty() && knob != "0");
  return kind == MemoryKind::device && knob == "1" && (reads == Reads::small || wanted == "on");
}

MovedSoFar moved_so_far() {
  sluice_carrier_counts_t counts{};
  if (auto* const ask = entry<decltype(sluice_carrier_counters)>("sluice_carrier_counters")) ask(&counts);
  return {counts.coherent, counts.kernel + counts.copy_engine + counts.slab + counts.scatter_kernel +
                               counts.many_copies + counts.resident_kernel + counts.cpu_window};
}

}  // namespace sluice::support
