// SPDX-License-Identifier: Apache-2.0
// Kernels that cannot be loaded: what waits for them hears of it.
#include "gpu/loading.h"

#include <gtest/gtest.h>

#include <optional>
#include <thread>

#include "gpu/cuda_api.h"

namespace sluice::gpu {
namespace {

class NotLoaded : public ::testing::Test {
 protected:
  void SetUp() override {
    if (gpu::driver() != nullptr) GTEST_SKIP() << "a driver is loaded here";
  }

  Kernels kernels_{nullptr, 0};
};

TEST_F(NotLoaded, ThreadsThatWaitGoOn) {
  const std::uint32_t seen = kernels_.news.now();
  std::thread waiter([&] { kernels_.news.wait_beyond(seen, std::nullopt); });
  begin_loading(kernels_);
  const bool told = kernels_.news.now() != seen;
  EXPECT_TRUE(told);
  if (!told) kernels_.news.advance();
  waiter.join();
}

TEST_F(NotLoaded, IsNotTriedAgain) {
  begin_loading(kernels_);
  EXPECT_TRUE(KernelLoadWait(kernels_).until_tried(0));
  EXPECT_FALSE(KernelLoadHold::in(kernels_));
  EXPECT_FALSE(is_loading());
}

}  // namespace
}  // namespace sluice::gpu
