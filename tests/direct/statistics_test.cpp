// SPDX-License-Identifier: Apache-2.0
// What the statistics of a program say of the direct path.
#include <gtest/gtest.h>

#include <memory>

#include "direct/direct_fixture.h"

namespace sluice::direct {
namespace {

using namespace support;

class DirectStatistics : public DirectTest {
 protected:
  void SetUp() override {
    DirectTest::SetUp();
    if (IsSkipped()) return;
    ASSERT_EQ(code(cuFileSetStatsLevel(3)), CU_FILE_SUCCESS);
    ASSERT_EQ(code(cuFileDriverOpen()), CU_FILE_SUCCESS);
    cuFileStatsReset();
    ASSERT_EQ(code(cuFileStatsStart()), CU_FILE_SUCCESS);
  }
  void TearDown() override {
    cuFileStatsStop();
    cuFileStatsReset();
    close_driver_fully();
    cuFileSetStatsLevel(0);
  }
};

TEST_F(DirectStatistics, PropertiesTellOfADirectWayOnceItIsProven) {
  const auto flags = [] {
    CUfileDrvProps_t properties{};
    cuFileDriverGetProperties(&properties);
    return properties.nvfs.dstatusflags;
  };
  EXPECT_EQ(flags() & (1U << CU_FILE_NVME_P2P_SUPPORTED), 0U);
  const ScratchFile scratch(kMebibyte);
  const OpenFile file(scratch);
  const Memory memory(MemoryKind::device, kMebibyte);
  ASSERT_STREQ(explain(file.handle(), memory.address()).path_name, "p2pdma");
  EXPECT_NE(flags() & (1U << CU_FILE_NVME_P2P_SUPPORTED), 0U);
}

TEST_F(DirectStatistics, TellTheDrivesTransfersFromTheCpus) {
  const ScratchFile scratch(kMebibyte);
  const OpenFile file(scratch);
  const Memory memory(MemoryKind::device, kMebibyte);
  ASSERT_STREQ(explain(file.handle(), memory.address()).path_name, "p2pdma");
  ASSERT_EQ(read_file(file.handle(), memory.address(), kMebibyte), moved(kMebibyte));
  ASSERT_EQ(write_file(file.handle(), memory.address(), kMebibyte), moved(kMebibyte));
  ASSERT_EQ(read_file(file.handle(), memory.address(), 100, 1), moved(100));
  const auto stats = std::make_unique<CUfileStatsLevel3_t>();
  ASSERT_EQ(code(cuFileGetStatsL3(stats.get())), CU_FILE_SUCCESS);
  ASSERT_EQ(stats->num_gpus, 1U);
  const CUfilePerGpuStats_t& device = stats->per_gpu_stats[0];
  EXPECT_EQ(device.n_p2p_reads, 1U);
  EXPECT_EQ(device.n_posix_reads, 1U);
  EXPECT_EQ(device.n_p2p_writes, 1U);
  EXPECT_EQ(device.n_posix_writes, 0U);
}

}  // namespace
}  // namespace sluice::direct
