// SPDX-License-Identifier: Apache-2.0
// Formatting what was asked to be traced.
#include "observe/trace.h"

#include <array>
#include <cstdio>

namespace sluice::observe {

void write_trace(const Traced& transfer, base::Outcome outcome) noexcept {
  std::array<char, 256> text{};
  const char* const verb = transfer.direction == base::Direction::read ? "read" : "write";
  std::array<char, 48> answer{};
  if (outcome.ok()) {
    std::snprintf(answer.data(), answer.size(), "%llu bytes", static_cast<unsigned long long>(outcome.count()));
  } else {
    std::snprintf(answer.data(), answer.size(), "error %d", outcome.error());
  }
  const int length =
      std::snprintf(text.data(), text.size(), "%s of %llu bytes at %llu of descriptor %d: %s by %s (%s)", verb,
                    static_cast<unsigned long long>(transfer.size), static_cast<unsigned long long>(transfer.offset),
                    transfer.fd, answer.data(), sluice_path_name(transfer.path), sluice_reason_name(transfer.reason));
  if (length > 0) log(config::LogLevel::trace, "transfer", text.data());
}

}  // namespace sluice::observe
