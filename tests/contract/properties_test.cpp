// SPDX-License-Identifier: Apache-2.0
// The driver's properties: their defaults, their limits, and that a change shows.
#include <gtest/gtest.h>

#include <cstdint>

#include "sluice.h"
#include "support/calls.h"
#include "support/cuda_driver.h"

namespace sluice::contract::properties_test {
namespace {

using namespace support;

constexpr std::size_t kHuge = std::size_t{1} << 40U;

CUfileDrvProps_t properties() {
  CUfileDrvProps_t properties{};
  EXPECT_EQ(code(cuFileDriverGetProperties(&properties)), CU_FILE_SUCCESS);
  return properties;
}

// Leaves each property at its default, whatever a test has set.
class Properties : public CufileTest {
 protected:
  void SetUp() override {
    CufileTest::SetUp();
    ASSERT_EQ(code(cuFileDriverOpen()), CU_FILE_SUCCESS);
  }
  void TearDown() override {
    cuFileDriverSetPollMode(false, 4);
    cuFileDriverSetMaxDirectIOSize(stock_direct_io_kib());
    cuFileDriverSetMaxCacheSize(131072);
    cuFileDriverSetMaxPinnedMemSize(33554432);
    CufileTest::TearDown();
  }
};

TEST_F(Properties, RefuseNull) {
  EXPECT_EQ(code(cuFileDriverGetProperties(nullptr)), CU_FILE_INVALID_VALUE);
}

TEST_F(Properties, AreToldWithoutOpening) {
  close_driver_fully();
  EXPECT_EQ(properties().max_batch_io_size, 128U);
  EXPECT_EQ(cuFileUseCount(), 0);
}

TEST_F(Properties, HaveTheirDefaults) {
  const CUfileDrvProps_t found = properties();
  EXPECT_EQ(found.nvfs.poll_thresh_size, 4U);
  EXPECT_EQ(found.nvfs.max_direct_io_size, stock_direct_io_kib());
  EXPECT_EQ(found.nvfs.dcontrolflags, 1U << CU_FILE_ALLOW_COMPAT_MODE);
  EXPECT_EQ(found.max_device_cache_size, 131072U);
  EXPECT_EQ(found.max_device_pinned_mem_size, 33554432U);
  EXPECT_EQ(found.max_batch_io_size, 128U);
  EXPECT_EQ(found.max_batch_io_timeout_msecs, 5U);
}

TEST_F(Properties, TellOfAllFeaturesOfTheVersion) {
  EXPECT_EQ(properties().fflags, 1U << CU_FILE_DYN_ROUTING_SUPPORTED | 1U << CU_FILE_BATCH_IO_SUPPORTED |
                                     1U << CU_FILE_STREAMS_SUPPORTED | 1U << CU_FILE_PARALLEL_IO_SUPPORTED);
}

TEST_F(Properties, TellOfNoCacheOfABuffer) {
  EXPECT_EQ(properties().per_buffer_cache_size, 0U);
}

TEST_F(Properties, TellNoKernelDriverWhereThereIsNone) {
  if (access("/proc/driver/nvidia-fs/version", F_OK) == 0) GTEST_SKIP() << "nvidia-fs is loaded here";
  const CUfileDrvProps_t found = properties();
  EXPECT_EQ(found.nvfs.major_version, 0U);
  EXPECT_EQ(found.nvfs.minor_version, 0U);
  EXPECT_EQ(found.nvfs.dstatusflags, 0U);
}

TEST_F(Properties, PollModeShows) {
  EXPECT_EQ(code(cuFileDriverSetPollMode(true, 8)), CU_FILE_SUCCESS);
  EXPECT_EQ(properties().nvfs.poll_thresh_size, 8U);
  EXPECT_EQ(properties().nvfs.dcontrolflags & (1U << CU_FILE_USE_POLL_MODE), 1U << CU_FILE_USE_POLL_MODE);
  EXPECT_EQ(code(cuFileDriverSetPollMode(false, 4)), CU_FILE_SUCCESS);
  EXPECT_EQ(properties().nvfs.dcontrolflags & (1U << CU_FILE_USE_POLL_MODE), 0U);
}

TEST_F(Properties, PollModeRefusesSizesThatAreNoMultipleOf4KiB) {
  for (const std::size_t size : {std::size_t{7}, std::size_t{0}}) {
    EXPECT_EQ(code(cuFileDriverSetPollMode(true, size)), CU_FILE_DRIVER_UNSUPPORTED_LIMIT) << size;
  }
  EXPECT_EQ(properties().nvfs.poll_thresh_size, 4U);
}

TEST_F(Properties, MaxDirectIoSizeShows) {
  EXPECT_EQ(code(cuFileDriverSetMaxDirectIOSize(1024)), CU_FILE_SUCCESS);
  EXPECT_EQ(properties().nvfs.max_direct_io_size, 1024U);
}

TEST_F(Properties, MaxDirectIoSizeRefusesWhatLiesOutsideItsLimits) {
  for (const std::size_t size : {std::size_t{7}, std::size_t{0}, std::size_t{100}, kHuge}) {
    EXPECT_EQ(code(cuFileDriverSetMaxDirectIOSize(size)), CU_FILE_DRIVER_UNSUPPORTED_LIMIT) << size;
  }
  EXPECT_EQ(properties().nvfs.max_direct_io_size, stock_direct_io_kib());
}

TEST_F(Properties, MaxCacheSizeShows) {
  EXPECT_EQ(code(cuFileDriverSetMaxCacheSize(65536)), CU_FILE_SUCCESS);
  EXPECT_EQ(properties().max_device_cache_size, 65536U);
}

TEST_F(Properties, MaxCacheSizeMayBeZero) {
  EXPECT_EQ(code(cuFileDriverSetMaxCacheSize(0)), CU_FILE_SUCCESS);
}

TEST_F(Properties, MaxCacheSizeRefusesWhatLiesOutsideItsLimits) {
  EXPECT_EQ(code(cuFileDriverSetMaxCacheSize(7)), CU_FILE_DRIVER_UNSUPPORTED_LIMIT);
  EXPECT_EQ(code(cuFileDriverSetMaxCacheSize(kHuge)), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(properties().max_device_cache_size, 131072U);
}

TEST_F(Properties, MaxPinnedMemorySizeShows) {
  EXPECT_EQ(code(cuFileDriverSetMaxPinnedMemSize(65536)), CU_FILE_SUCCESS);
  EXPECT_EQ(properties().max_device_pinned_mem_size, 65536U);
}

TEST_F(Properties, MaxPinnedMemorySizeMayBeZero) {
  EXPECT_EQ(code(cuFileDriverSetMaxPinnedMemSize(0)), CU_FILE_SUCCESS);
}

TEST_F(Properties, MaxPinnedMemorySizeRefusesWhatLiesOutsideItsLimits) {
  EXPECT_EQ(code(cuFileDriverSetMaxPinnedMemSize(7)), CU_FILE_DRIVER_UNSUPPORTED_LIMIT);
  EXPECT_EQ(code(cuFileDriverSetMaxPinnedMemSize(kHuge)), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(code(cuFileDriverSetMaxPinnedMemSize(SIZE_MAX)), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(properties().max_device_pinned_mem_size, 33554432U);
}

TEST_F(Properties, OfTransfersCanBeSetWithoutOpening) {
  close_driver_fully();
  EXPECT_EQ(code(cuFileDriverSetPollMode(false, 8)), CU_FILE_SUCCESS);
  EXPECT_EQ(code(cuFileDriverSetMaxDirectIOSize(1024)), CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileUseCount(), 0);
}

TEST_F(Properties, OfMemoryOpenTheDriverWhenTheyAreSetOrAskedFor) {
  close_driver_fully();
  EXPECT_EQ(code(cuFileDriverSetMaxCacheSize(65536)), CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileUseCount(), 1);
  close_driver_fully();
  EXPECT_EQ(code(cuFileDriverSetMaxPinnedMemSize(65536)), CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileUseCount(), 1);
  if (cuda() == nullptr) return;
  close_driver_fully();
  std::size_t size = 0;
  EXPECT_EQ(code(cuFileGetBARSizeInKB(0, &size)), CU_FILE_SUCCESS);
  EXPECT_EQ(cuFileUseCount(), 1);
}

TEST_F(Properties, NoSettingBreaksTransfers) {
  cuFileDriverSetMaxDirectIOSize(64);
  cuFileDriverSetMaxCacheSize(0);
  cuFileDriverSetMaxPinnedMemSize(0);
  const ScratchFile file(300001);
  const Fd fd = file.open(O_RDONLY);
  const Handle handle(fd);
  const Memory memory(usual_memory(), 300001);
  EXPECT_EQ(read_file(handle.get(), memory.address(), 300001), moved(300001));
  EXPECT_TRUE(same_bytes(file.content(), memory.get()));
}

TEST_F(Properties, BarSizeRefusesUnknownDevicesAndNull) {
  std::size_t size = 1;
  EXPECT_EQ(code(cuFileGetBARSizeInKB(99, &size)), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(code(cuFileGetBARSizeInKB(-1, &size)), CU_FILE_INVALID_VALUE);
  EXPECT_EQ(code(cuFileGetBARSizeInKB(0, nullptr)), CU_FILE_INVALID_VALUE);
  if (cuda() != nullptr) {
    EXPECT_EQ(code(cuFileGetBARSizeInKB(0, &size)), CU_FILE_SUCCESS);
  }
}

}  // namespace
}  // namespace sluice::contract::properties_test
