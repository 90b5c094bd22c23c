// SPDX-License-Identifier: Apache-2.0
// Staging buffers of one context besides the first one, as far as there are any.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>

#include "gpu/session.h"
#include "staging/staging_buffer.h"

namespace sluice::staging {

class MoreBuffers {
 public:
  static constexpr std::size_t most = 9;

  MoreBuffers(const gpu::Session& session, std::size_t wanted) noexcept {
    while (count_ < wanted && count_ < most) {
      leases_[count_].emplace(StagingLease::take(session));
      if (!*leases_[count_]) return;
      pointers_[count_] = &*leases_[count_];
      ++count_;
    }
  }
  MoreBuffers(const MoreBuffers&) = delete;
  MoreBuffers& operator=(const MoreBuffers&) = delete;

  std::span<StagingLease* const> all() const noexcept { return {pointers_.data(), count_}; }
  std::size_t count() const noexcept { return count_; }

 private:
  std::array<std::optional<StagingLease>, most> leases_;
  std::array<StagingLease*, most> pointers_{};
  std::size_t count_ = 0;
};

}  // namespace sluice::staging
