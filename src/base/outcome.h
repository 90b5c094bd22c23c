// SPDX-License-Identifier: Apache-2.0
// How the I/O path answers: the bytes that were moved, or the one reason why none were. A value, never an exception.
#pragma once

#include <cerrno>
#include <cstdint>

#include "cufile.h"

namespace sluice::base {

// One signed number, as batches and streams deliver it through memory: >= 0 is a count, -errno is the system's
// refusal, -50xx is cuFile's.
class [[nodiscard]] Outcome {
 public:
  static constexpr Outcome bytes(std::uint64_t count) noexcept { return Outcome(static_cast<std::int64_t>(count)); }
  static constexpr Outcome system_error(int error) noexcept { return Outcome(-static_cast<std::int64_t>(error)); }
  static constexpr Outcome refused(CUfileOpError code) noexcept { return Outcome(-static_cast<std::int64_t>(code)); }

  constexpr bool ok() const noexcept { return value_ >= 0; }
  // Bytes moved; 0 when nothing was because of an error.
  constexpr std::uint64_t count() const noexcept { return ok() ? static_cast<std::uint64_t>(value_) : 0; }
  // The errno or 50xx code of a failure; 0 when there is none.
  constexpr int error() const noexcept { return ok() ? 0 : static_cast<int>(-value_); }
  constexpr std::int64_t value() const noexcept { return value_; }

  friend constexpr bool operator==(Outcome, Outcome) noexcept = default;

 private:
  explicit constexpr Outcome(std::int64_t value) noexcept : value_(value) {}
  std::int64_t value_;
};

}  // namespace sluice::base
