// SPDX-License-Identifier: Apache-2.0
// Enumerations as they come through the C ABI, where a caller may pass any integer: reading one that is no enumerator
// is undefined in C++, so its bytes are read instead.
#pragma once

#include <cstring>
#include <type_traits>

namespace sluice::base {

template <typename Enum>
int number_of(const Enum& foreign) noexcept {
  static_assert(std::is_enum_v<Enum> && sizeof(Enum) == sizeof(int));
  int number = 0;
  std::memcpy(&number, &foreign, sizeof number);
  return number;
}

}  // namespace sluice::base
