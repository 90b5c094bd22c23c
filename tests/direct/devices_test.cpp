// SPDX-License-Identifier: Apache-2.0
// Several devices: each is tried for itself, and one whose memory I/O cannot reach is left to the CPU.
#include <gtest/gtest.h>

#include <algorithm>

#include "direct/direct_fixture.h"
#include "support/cuda_driver.h"

namespace sluice::direct {
namespace {

using namespace support;

// with_backing.sh gave memory to the first two of three devices.
class DirectDevices : public DirectTest {
 protected:
  void SetUp() override {
    DirectTest::SetUp();
    if (!IsSkipped() && cuda()->devices < 3) GTEST_SKIP() << "this takes three devices, two of them with backing";
  }
};

TEST_F(DirectDevices, AreTriedOneByOne) {
  const ScratchFile scratch(kMebibyte);
  const OpenFile file(scratch);
  for (const int device : {1, 0}) {
    const Memory memory(MemoryKind::device, kMebibyte, device);
    const Meter direct(SLUICE_PATH_P2PDMA, SLUICE_REASON_DIRECT);
    ASSERT_EQ(read_file(file.handle(), memory.address(), kMebibyte), moved(kMebibyte));
    EXPECT_TRUE(same_bytes(scratch.content(), memory.get()));
    EXPECT_EQ(direct.so_far(), (Count{1, kMebibyte}));
  }
  const std::vector<Pair> known = pairs();
  ASSERT_EQ(known.size(), 2U);
  EXPECT_EQ(known[0].gpu, 1);
  EXPECT_EQ(known[1].gpu, 0);
}

TEST_F(DirectDevices, WithoutBackingAreTheCpus) {
  const ScratchFile scratch(kMebibyte);
  const OpenFile file(scratch);
  const Memory memory(MemoryKind::device, kMebibyte, 2);
  EXPECT_STREQ(explain(file.handle(), memory.address()).reason_name, "soft_gpu");
  ASSERT_EQ(read_file(file.handle(), memory.address(), kMebibyte), moved(kMebibyte));
  EXPECT_TRUE(same_bytes(scratch.content(), memory.get()));
}

}  // namespace
}  // namespace sluice::direct
