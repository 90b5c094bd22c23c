// SPDX-License-Identifier: Apache-2.0
// A call that is answered by an error: the code that the protocol wants, the cause, and what to do about it.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace sluice::csi {

// The numbers are gRPC's.
enum class Code : std::uint8_t {
  invalid_argument = 3,
  not_found = 5,
  already_exists = 6,
  resource_exhausted = 8,
  failed_precondition = 9,
  aborted = 10,
  out_of_range = 11,
  unsupported = 12,
  internal = 13,
};

class Refusal : public std::runtime_error {
 public:
  Refusal(Code code, const std::string& text) : std::runtime_error(text), code_(code) {}
  Code code() const noexcept { return code_; }

 private:
  Code code_;
};

[[noreturn]] inline void refuse(Code code, const std::string& text) {
  throw Refusal(code, text);
}

// "mounting /dev/nvme0n1 at /x: No space left on device"; ENOSPC and EDQUOT are no room, the rest is internal.
[[noreturn]] void refuse_errno(const std::string& doing, int error);

}  // namespace sluice::csi
