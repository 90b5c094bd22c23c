// SPDX-License-Identifier: Apache-2.0
// Transfers that take much longer than their bytes explain: a path that was lost and found again, a drive that was
// reset. The log tells of each when it has ended.
#pragma once

#include <cstdint>

#include "base/outcome.h"
#include "process/records.h"
#include "request/item.h"

namespace sluice::request {

// More than a second over what the slowest storage needs for so many bytes.
constexpr bool is_slow(std::uint64_t bytes, std::int64_t milliseconds) noexcept {
  constexpr std::uint64_t bytes_per_millisecond = 65536;
  return milliseconds > 1000 && static_cast<std::uint64_t>(milliseconds) - 1000 > bytes / bytes_per_millisecond;
}

// Begins with a transfer. Costs a look at the kernel's coarse clock, and one more at the end.
class TransferTimer {
 public:
  TransferTimer() noexcept;
  // Milliseconds until now: asked once for transfers that end together.
  std::int64_t so_far() const noexcept;
  // This one has taken so long.
  static void end(const process::File& file, const Call& call, base::Outcome outcome,
                  std::int64_t milliseconds) noexcept {
    if (is_slow(call.size, milliseconds)) [[unlikely]]
      tell(file, call, outcome, milliseconds);
  }

 private:
  static void tell(const process::File& file, const Call& call, base::Outcome outcome,
                   std::int64_t milliseconds) noexcept;

  std::int64_t began_;
};

}  // namespace sluice::request
