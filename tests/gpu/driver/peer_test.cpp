// SPDX-License-Identifier: Apache-2.0
// Two devices. Skipped where there is one.
#include "fixture.h"

namespace sluice::gpu_suite {
namespace {

// Contexts of both devices; that of device 0 is current.
class Peers : public Driver {
 protected:
  void SetUp() override {
    Driver::SetUp();
    int count = 0;
    ASSERT_EQ(cuda::success, cuDeviceGetCount(&count));
    if (count < 2) GTEST_SKIP() << "needs two devices; this machine has one";
    ASSERT_EQ(cuda::success, cuDevicePrimaryCtxRetain(&other_, 1));
  }
  void TearDown() override {
    if (other_ != nullptr) cuDevicePrimaryCtxRelease_v2(1);
    Driver::TearDown();
  }
  cuda::Context other() const { return other_; }

  // Memory on device 1.
  Ptr allocate_there(std::size_t size) const {
    Ptr pointer = 0;
    EXPECT_EQ(cuda::success, cuCtxPushCurrent_v2(other_));
    EXPECT_EQ(cuda::success, cuMemAlloc_v2(&pointer, size));
    EXPECT_EQ(cuda::success, cuCtxPopCurrent_v2(nullptr));
    return pointer;
  }

 private:
  cuda::Context other_ = nullptr;
};

TEST_F(Peers, HaveDifferentContexts) {
  EXPECT_NE(context(), other());
}

TEST_F(Peers, MemoryKnowsItsDevice) {
  const Ptr there = allocate_there(4096);
  int ordinal = -1;
  ASSERT_EQ(cuda::success, cuPointerGetAttribute(&ordinal, cuda::pointer_attribute_device_ordinal, there));
  EXPECT_EQ(1, ordinal);
  EXPECT_EQ(cuda::success, cuMemFree_v2(there)) << "from whatever context";
}

TEST_F(Peers, CopiesBetweenDevicesAreRight) {
  const auto expected = pattern(100000, 1);
  const DeviceBuffer here(100000);
  const DeviceBuffer back(100000);
  const Ptr there = allocate_there(100000);
  ASSERT_EQ(cuda::success, cuMemcpyHtoD_v2(here.at(), expected.data(), expected.size()));
  ASSERT_EQ(cuda::success, cuMemcpyPeer(there, other(), here.at(), context(), expected.size()));
  ASSERT_EQ(cuda::success, cuMemcpyPeer(back.at(), context(), there, other(), expected.size()));
  EXPECT_EQ(expected, back.bytes());
  ASSERT_EQ(cuda::success, cuMemcpy(back.at(), there, expected.size())) << "the addresses say enough";
  EXPECT_EQ(expected, back.bytes());
  EXPECT_EQ(cuda::success, cuMemFree_v2(there));
}

TEST_F(Peers, CopiesBetweenDevicesKeepTheOrderOfTheirStream) {
  const auto expected = pattern(100000, 2);
  const PinnedBuffer from(100000);
  const PinnedBuffer back(100000);
  const DeviceBuffer here(100000);
  const Ptr there = allocate_there(100000);
  std::copy(expected.begin(), expected.end(), from.data());
  const Stream stream;
  ASSERT_EQ(cuda::success, cuMemcpyHtoDAsync_v2(here.at(), from.data(), expected.size(), stream.get()));
  ASSERT_EQ(cuda::success, cuMemcpyPeerAsync(there, other(), here.at(), context(), expected.size(), stream.get()));
  ASSERT_EQ(cuda::success, cuMemsetD8Async(here.at(), 0, expected.size(), stream.get()));
  ASSERT_EQ(cuda::success, cuMemcpyPeerAsync(here.at(), context(), there, other(), expected.size(), stream.get()));
  ASSERT_EQ(cuda::success, cuMemcpyDtoHAsync_v2(back.data(), here.at(), expected.size(), stream.get()));
  ASSERT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
  EXPECT_EQ(expected, std::vector<std::uint8_t>(back.data(), back.data() + back.size()));
  EXPECT_EQ(cuda::success, cuMemFree_v2(there));
}

TEST_F(Peers, AccessIsEnabledOnce) {
  int can = 0;
  ASSERT_EQ(cuda::success, cuDeviceCanAccessPeer(&can, 0, 1));
  if (can == 0) GTEST_SKIP() << "these devices cannot reach each other";
  ASSERT_EQ(cuda::success, cuCtxEnablePeerAccess(other(), 0));
  EXPECT_EQ(cuda::error_peer_access_already_enabled, cuCtxEnablePeerAccess(other(), 0));
  ASSERT_EQ(cuda::success, cuCtxDisablePeerAccess(other()));
  EXPECT_EQ(cuda::error_peer_access_not_enabled, cuCtxDisablePeerAccess(other()));
}

}  // namespace
}  // namespace sluice::gpu_suite
