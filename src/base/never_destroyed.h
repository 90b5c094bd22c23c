// SPDX-License-Identifier: Apache-2.0
// What a process has one of and works with to its very end: exit handlers and the last destructors of threads still use
// it. It stands in static memory, so that there is nothing to allocate the first time that it is asked for.
#pragma once

#include <cstddef>
#include <new>

namespace sluice::base {

// For a function's static; with a T that other threads use, that function is the one to ask.
template <typename T>
class NeverDestroyed {
 public:
  NeverDestroyed() { ::new (place_) T; }
  NeverDestroyed(const NeverDestroyed&) = delete;
  NeverDestroyed& operator=(const NeverDestroyed&) = delete;

  T& get() noexcept { return *std::launder(reinterpret_cast<T*>(place_)); }
  // A new one takes its place, and what the old one held is left: for the child of a fork.
  void make_anew() { ::new (place_) T; }

 private:
  alignas(T) std::byte place_[sizeof(T)];
};

}  // namespace sluice::base
