// For how many requests something is left alone after it did not go well: the longer, the more often that happens in a
// row.
#pragma once

#include <algorithm>
#include <cstdint>

namespace sluice::engine {

class Rest {
 public:
  static constexpr std::uint32_t shortest = 8;

  void begin(std::uint32_t longest) noexcept {
    last_ = std::clamp(last_ * 2, shortest, longest);
    left_ = last_;
  }
  // Asked once a request.
  bool is_over() noexcept {
    if (left_ == 0) return true;
    --left_;
    return false;
  }
  // It went well: the next rest is a short one.
  void forget() noexcept { last_ = 0; }

 private:
  std::uint32_t left_ = 0;
  std::uint32_t last_ = 0;
};

}  // namespace sluice::engine
