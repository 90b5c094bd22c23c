// SPDX-License-Identifier: Apache-2.0
#include "client/staging.h"

#include <cerrno>
#include <system_error>

namespace rdma_files {

Staging::Staging(const OwnGroup& group)
    : device_(group.device()),
      memory_(kSlots * kSlot),
      region_(group.registered(memory_.data(), memory_.size())),
      whole_(group.token_of(*region_, 0, static_cast<std::uint32_t>(memory_.size()))) {
  for (std::size_t slot = 0; slot < kSlots; ++slot) free_.push_back(slot);
}

Staging::Lease::~Lease() {
  if (of_ == nullptr) return;
  const std::scoped_lock lock(of_->mutex_);
  of_->free_.push_back(slot_);
  of_->changed_.notify_one();
}

Token Staging::Lease::token(std::uint32_t size) const {
  Token token = of_->whole_;
  token.address += slot_ * kSlot;
  token.size = size;
  return token;
}

Staging::Lease Staging::lease(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, time, [this] { return !free_.empty(); })) {
    throw std::system_error(ETIMEDOUT, std::generic_category(), "no staging memory comes free");
  }
  const std::size_t slot = free_.back();
  free_.pop_back();
  return {*this, slot};
}

}  // namespace rdma_files
