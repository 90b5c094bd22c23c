// SPDX-License-Identifier: Apache-2.0
// Sixteen streams that wait: they take all hardware queues, as many as streams of whatever kind have.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>

#include "shared_word.h"

namespace sluice::gpu_suite {

class WaitingStreams {
 public:
  WaitingStreams() = default;
  ~WaitingStreams() { word_.store(1); }
  WaitingStreams(const WaitingStreams&) = delete;
  WaitingStreams& operator=(const WaitingStreams&) = delete;

  Ptr word() const { return word_.at(); }
  void wait() const {
    for (const Stream& stream : streams_) {
      ASSERT_EQ(cuda::success, cuStreamWaitValue32_v2(stream.get(), word_.at(), 1, cuda::wait_value_eq));
    }
  }

  // The work of `other` ends while they wait. Then they need wait no longer.
  void expect_passed_by(cuda::Stream other) const {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (cuStreamQuery(other) == cuda::error_not_ready && std::chrono::steady_clock::now() < until) {
    }
    EXPECT_EQ(cuda::success, cuStreamQuery(other));
    EXPECT_EQ(cuda::error_not_ready, cuStreamQuery(streams_[0].get()));
    word_.store(1);
    for (const Stream& stream : streams_) EXPECT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
  }

 private:
  const Shared<std::uint32_t> word_{0};
  std::array<Stream, 16> streams_;
};

}  // namespace sluice::gpu_suite
