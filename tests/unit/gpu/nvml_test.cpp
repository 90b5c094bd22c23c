// SPDX-License-Identifier: Apache-2.0
// What is asked of NVIDIA's management library, by one that the test brings along.
#include "gpu/nvml.h"

#include <gtest/gtest.h>

namespace sluice::gpu {
namespace {

constexpr cuda::Uuid kNobody{};
constexpr cuda::Uuid kKnown{{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255}};

TEST(Nvml, TellsTheWindowOfADeviceByItsAddress) {
  EXPECT_EQ(bar_bytes_by_nvml("0000:CB:00.0", kNobody, SLUICE_TEST_NVML), std::uint64_t{256} << 30);
}

TEST(Nvml, TellsItByTheUuidWhereTheAddressMeansNothing) {
  EXPECT_EQ(bar_bytes_by_nvml("0000:01:00.0", kKnown, SLUICE_TEST_NVML), std::uint64_t{64} << 20);
}

TEST(Nvml, KnowsNothingOfOtherDevicesNorWhereItIsMissing) {
  EXPECT_EQ(bar_bytes_by_nvml("0000:01:00.0", kNobody, SLUICE_TEST_NVML), 0u);
  EXPECT_EQ(bar_bytes_by_nvml("0000:CB:00.0", kKnown, "/no/such/library.so"), 0u);
  EXPECT_EQ(bar_bytes_by_nvml("0000:CB:00.0", kKnown, "libdl.so.2"), 0u) << "a library of another kind";
}

}  // namespace
}  // namespace sluice::gpu
