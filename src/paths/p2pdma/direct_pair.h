// SPDX-License-Identifier: Apache-2.0
// What is known of I/O between the memory of one device and one file system or block device, and what has come of it.
// Lives as long as the driver's life.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "gpu/pinnable.h"
#include "paths/tried_pair.h"

namespace sluice::paths {

class DirectPair final : public TriedPair {
 public:
  // `refusal` is the provider's; empty where it serves the device.
  DirectPair(gpu::Provider* provider, int device, std::string storage, const std::string& refusal)
      : TriedPair(device, std::move(storage), refusal), provider_(provider) {
    if (provider == nullptr || !refusal.empty()) begin_with(facts::TrialResult::no_provider);
  }

  gpu::Provider& provider() const noexcept { return *provider_; }  // unless the reach is no_provider

  // Polling was asked for, and the drive has no queue for it: not tried again.
  bool can_be_polled() const noexcept { return !unpollable_.load(std::memory_order_relaxed); }
  void cannot_be_polled() noexcept { unpollable_.store(true, std::memory_order_relaxed); }
  void count_moved(bool polled) noexcept {
    count_transfer();
    if (polled) polled_.fetch_add(1, std::memory_order_relaxed);
  }
  std::uint64_t polled() const noexcept { return polled_.load(std::memory_order_relaxed); }

 private:
  gpu::Provider* const provider_;
  std::atomic<std::uint64_t> polled_{0};
  std::atomic<bool> unpollable_{false};
};

}  // namespace sluice::paths
