// SPDX-License-Identifier: Apache-2.0
// Managed memory: reached by the host and by devices, at one address.
#include "loaded_kernel.h"

namespace sluice::gpu_suite {
namespace {

class Managed : public Driver {
 protected:
  void SetUp() override {
    Driver::SetUp();
    ASSERT_EQ(cuda::success, cuMemAllocManaged(&address_, size, cuda::attach_global));
  }
  void TearDown() override {
    EXPECT_EQ(cuda::success, cuMemFree_v2(address_));
    Driver::TearDown();
  }
  Ptr at(std::size_t offset = 0) const { return address_ + offset; }
  std::uint8_t* bytes() const { return reinterpret_cast<std::uint8_t*>(address_); }
  static constexpr std::size_t size = 8192;
  static constexpr cuda::MemoryLocation device{cuda::location_device, 0};

 private:
  Ptr address_ = 0;
};

TEST_F(Managed, IsTheHostsToo) {
  bytes()[0] = 1;
  bytes()[size - 1] = 2;
  std::uint8_t back = 0;
  ASSERT_EQ(cuda::success, cuMemcpyDtoH_v2(&back, at(size - 1), 1));
  EXPECT_EQ(2, back);
}

TEST_F(Managed, ShowsTheHostWhatAFillWrote) {
  const Stream stream;
  ASSERT_EQ(cuda::success, cuMemsetD8Async(at(), 9, size, stream.get()));
  ASSERT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
  EXPECT_EQ(9, bytes()[0]);
  EXPECT_EQ(9, bytes()[size - 1]);
}

TEST_F(Managed, ShowsTheHostWhatAKernelWrote) {
  const StoreKernel store;
  const Stream stream;
  ASSERT_EQ(cuda::success, store.launch(stream.get(), at(4), 0x03030303));
  ASSERT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
  EXPECT_EQ(3, bytes()[5]);
}

TEST_F(Managed, IsCopiedToAndFrom) {
  const auto expected = pattern(size, 1);
  const DeviceBuffer other(size);
  ASSERT_EQ(cuda::success, cuMemcpyHtoD_v2(at(), expected.data(), size));
  ASSERT_EQ(cuda::success, cuMemcpyDtoD_v2(other.at(), at(), size));
  ASSERT_EQ(cuda::success, cuCtxSynchronize());
  EXPECT_EQ(expected, other.bytes());
  EXPECT_EQ(expected, std::vector<std::uint8_t>(bytes(), bytes() + size));
}

TEST_F(Managed, IsPrefetchedInTheOrderOfTheStream) {
  const Stream stream;
  std::fill_n(bytes(), size, std::uint8_t{4});
  ASSERT_EQ(cuda::success, cuMemPrefetchAsync_v2(at(), size, device, 0, stream.get()));
  ASSERT_EQ(cuda::success, cuMemPrefetchAsync_v2(at(), size, {cuda::location_host, 0}, 0, stream.get()));
  ASSERT_EQ(cuda::success, cuStreamSynchronize(stream.get()));
  EXPECT_EQ(std::vector<std::uint8_t>(size, 4), std::vector<std::uint8_t>(bytes(), bytes() + size));
}

TEST_F(Managed, IsPrefetchedToDevicesThatThereAre) {
  EXPECT_EQ(cuda::error_invalid_device, cuMemPrefetchAsync_v2(at(), size, {cuda::location_device, 77}, 0, nullptr));
}

TEST_F(Managed, TakesAdvice) {
  for (const int advice :
       {cuda::advise_read_mostly, cuda::advise_not_read_mostly, cuda::advise_preferred_location,
        cuda::advise_no_preferred_location, cuda::advise_accessed_by, cuda::advise_not_accessed_by}) {
    EXPECT_EQ(cuda::success, cuMemAdvise_v2(at(), size, advice, device)) << advice;
  }
  EXPECT_EQ(cuda::error_invalid_value, cuMemAdvise_v2(at(), size, 99, device));
}

TEST_F(Managed, IsWhatPlainDeviceMemoryIsNot) {
  const DeviceBuffer plain(4096);
  EXPECT_EQ(cuda::error_invalid_value, cuMemPrefetchAsync_v2(plain.at(), 4096, device, 0, nullptr));
  EXPECT_EQ(cuda::error_invalid_value, cuMemAdvise_v2(plain.at(), 4096, cuda::advise_read_mostly, device));
}

}  // namespace
}  // namespace sluice::gpu_suite
