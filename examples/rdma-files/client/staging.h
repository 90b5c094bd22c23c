// SPDX-License-Identifier: Apache-2.0
// Memory of this library's own that a server may read and write: for calls that come without a token.
#pragma once

#include <condition_variable>
#include <mutex>

#include "client/link_group.h"

namespace rdma_files {

class Staging {
 public:
  static constexpr std::size_t kSlots = 4;
  static constexpr std::size_t kSlot = std::size_t{4} << 20U;

  // Made with the group whose pairs reach it; does not need the group later on.
  explicit Staging(const OwnGroup& group);

  class Lease {
   public:
    Lease(Staging& of, std::size_t slot) : of_(&of), slot_(slot) {}
    Lease(Lease&& other) noexcept : of_(std::exchange(other.of_, nullptr)), slot_(other.slot_) {}
    Lease& operator=(Lease&&) = delete;
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    ~Lease();
    std::uint8_t* memory() const noexcept { return of_->memory_.data() + slot_ * kSlot; }
    Token token(std::uint32_t size) const;

   private:
    Staging* of_;
    std::size_t slot_;
  };
  // Throws std::system_error, ETIMEDOUT: all are in use for so long.
  Lease lease(std::chrono::milliseconds time);

 private:
  const std::shared_ptr<Device> device_;
  std::vector<std::uint8_t> memory_;
  const VerbsMemory region_;
  const Token whole_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::size_t> free_;
};

}  // namespace rdma_files
