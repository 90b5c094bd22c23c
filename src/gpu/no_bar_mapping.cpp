// SPDX-License-Identifier: Apache-2.0
// Mappings of a build without SLUICE_GDRCOPY: there are none, and the log tells why.
#include <atomic>

#include "gpu/bar_mapping.h"
#include "observe/log.h"

namespace sluice::gpu {

BarMapping BarMapping::onto(std::uint64_t /*address*/, std::uint64_t /*size*/) noexcept {
  static std::atomic<bool> told{false};
  if (!told.exchange(true)) {
    observe::log(config::LogLevel::warn, "gpu",
                 "sluice.small_reads is window, and small reads go as by auto: windows are not built in "
                 "(SLUICE_GDRCOPY)");
  }
  return {};
}

BarMapping::BarMapping(BarMapping&& /*other*/) noexcept {}
BarMapping& BarMapping::operator=(BarMapping&& /*other*/) noexcept {
  return *this;
}
BarMapping::~BarMapping() = default;

std::byte* BarMapping::at(std::uint64_t /*address*/, std::uint64_t /*length*/) const noexcept {
  return nullptr;
}

}  // namespace sluice::gpu
