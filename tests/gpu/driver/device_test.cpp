// SPDX-License-Identifier: Apache-2.0
// Devices.
#include <array>
#include <cstring>
#include <string>

#include "fixture.h"

namespace sluice::gpu_suite {
namespace {

int device_count() {
  int count = 0;
  EXPECT_EQ(cuda::success, cuDeviceGetCount(&count));
  return count;
}

TEST(Devices, ThereIsOne) {
  EXPECT_GE(device_count(), 1);
}

TEST(Devices, AnOrdinalBeyondTheLastIsInvalid) {
  cuda::Device device = 0;
  EXPECT_EQ(cuda::error_invalid_device, cuDeviceGet(&device, device_count()));
  EXPECT_EQ(cuda::error_invalid_device, cuDeviceGet(&device, -1));
}

TEST(Devices, ANullPointerForTheAnswerIsInvalid) {
  EXPECT_EQ(cuda::error_invalid_value, cuDeviceGet(nullptr, 0));
  EXPECT_EQ(cuda::error_invalid_value, cuDeviceGetCount(nullptr));
}

TEST(Devices, HaveAName) {
  std::array<char, 128> name{};
  ASSERT_EQ(cuda::success, cuDeviceGetName(name.data(), static_cast<int>(name.size()), 0));
  EXPECT_STRNE("", name.data());
  if (driver_is_soft()) {
    EXPECT_STREQ("Sluice soft GPU", name.data());
  }
}

TEST(Devices, AnInvalidOneHasNoName) {
  std::array<char, 128> name{};
  EXPECT_EQ(cuda::error_invalid_device, cuDeviceGetName(name.data(), static_cast<int>(name.size()), 4711));
}

TEST(Devices, HaveDifferentUuids) {
  for (int one = 0; one < device_count(); ++one) {
    cuda::Uuid first{};
    ASSERT_EQ(cuda::success, cuDeviceGetUuid_v2(&first, one));
    EXPECT_NE(0, std::memcmp(&first, std::array<char, 16>{}.data(), 16));
    for (int other = one + 1; other < device_count(); ++other) {
      cuda::Uuid second{};
      ASSERT_EQ(cuda::success, cuDeviceGetUuid_v2(&second, other));
      EXPECT_NE(0, std::memcmp(&first, &second, sizeof first));
    }
  }
}

TEST(Devices, HaveMemory) {
  std::size_t bytes = 0;
  ASSERT_EQ(cuda::success, cuDeviceTotalMem_v2(&bytes, 0));
  EXPECT_GT(bytes, std::size_t{1} << 20U);
}

TEST(Devices, AreFoundByTheirPciId) {
  for (int ordinal = 0; ordinal < device_count(); ++ordinal) {
    std::array<char, 32> id{};
    ASSERT_EQ(cuda::success, cuDeviceGetPCIBusId(id.data(), static_cast<int>(id.size()), ordinal));
    EXPECT_EQ(12U, std::string(id.data()).size()) << id.data();
    cuda::Device found = -1;
    ASSERT_EQ(cuda::success, cuDeviceGetByPCIBusId(&found, id.data()));
    EXPECT_EQ(ordinal, found);
  }
}

TEST(Devices, ThePciIdAgreesWithTheAttributes) {
  std::array<char, 32> id{};
  ASSERT_EQ(cuda::success, cuDeviceGetPCIBusId(id.data(), static_cast<int>(id.size()), 0));
  int domain = 0;
  int bus = 0;
  int slot = 0;
  ASSERT_EQ(cuda::success, cuDeviceGetAttribute(&domain, 50, 0));
  ASSERT_EQ(cuda::success, cuDeviceGetAttribute(&bus, 33, 0));
  ASSERT_EQ(cuda::success, cuDeviceGetAttribute(&slot, 34, 0));
  std::array<char, 32> expected{};
  std::snprintf(expected.data(), expected.size(), "%04x:%02x:%02x", domain, bus, slot);
  std::string given(id.data());
  for (char& letter : given) letter = static_cast<char>(std::tolower(letter));
  EXPECT_EQ(std::string(expected.data()) + ".0", given);
}

TEST(Devices, HaveWhatWeRelyOn) {
  const auto attribute = [](int number) {
    int value = -1;
    EXPECT_EQ(cuda::success, cuDeviceGetAttribute(&value, number, 0)) << number;
    return value;
  };
  EXPECT_EQ(1, attribute(41)) << "unified addressing";
  EXPECT_EQ(1, attribute(19)) << "mapped host memory";
  EXPECT_EQ(1, attribute(83)) << "managed memory";
  EXPECT_EQ(1, attribute(91)) << "host pointers of registered memory";
  EXPECT_EQ(1, attribute(99)) << "host registration";
  EXPECT_EQ(32, attribute(10)) << "warp size";
  EXPECT_GE(attribute(75), 3) << "compute capability";
  EXPECT_GE(attribute(40), 1) << "copy engines";
}

TEST(Devices, AnAttributeThatDoesNotExistIsInvalid) {
  int value = 0;
  EXPECT_EQ(cuda::error_invalid_value, cuDeviceGetAttribute(&value, 100000, 0));
  EXPECT_EQ(cuda::error_invalid_value, cuDeviceGetAttribute(nullptr, 41, 0));
}

TEST(Devices, OneCannotBeItsOwnPeer) {
  int can = -1;
  ASSERT_EQ(cuda::success, cuDeviceCanAccessPeer(&can, 0, 0));
  EXPECT_EQ(0, can);
}

}  // namespace
}  // namespace sluice::gpu_suite
