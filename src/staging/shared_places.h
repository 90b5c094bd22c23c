// SPDX-License-Identifier: Apache-2.0
// Places for the chunks of one large read that kernels of several devices carry: host memory in one piece, which is
// pinned for all contexts, so that each of them takes any chunk. The process has few, and keeps them.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "gpu/session.h"

namespace sluice::staging {

class SharedPlaces {
 public:
  static constexpr std::size_t room = std::size_t{32} << 20U;

  SharedPlaces() = default;
  // With the session's context current. Empty when all are taken, or none can be had.
  static SharedPlaces take(const gpu::Session& session) noexcept;
  SharedPlaces(SharedPlaces&& other) noexcept : memory_(std::exchange(other.memory_, nullptr)) {}
  SharedPlaces& operator=(SharedPlaces&&) = delete;
  SharedPlaces(const SharedPlaces&) = delete;
  SharedPlaces& operator=(const SharedPlaces&) = delete;
  ~SharedPlaces();

  explicit operator bool() const noexcept { return memory_ != nullptr; }
  // A little more than the room: places may begin off a page boundary.
  std::byte* memory() const noexcept { return memory_; }

 private:
  explicit SharedPlaces(std::byte* memory) noexcept : memory_(memory) {}
  std::byte* memory_ = nullptr;
};

// A child of fork has none of its parent's.
void shared_places_after_fork_in_child() noexcept;

}  // namespace sluice::staging
