// SPDX-License-Identifier: Apache-2.0
// Numbers in the place of enumerators, as a C program may pass them.
#pragma once

namespace sluice::fuzz {

// Volatile, for the compiler knows the enumerations.
template <typename Enum>
Enum number_as(int value) {
  volatile int hidden = value;
  return static_cast<Enum>(hidden);
}

}  // namespace sluice::fuzz
