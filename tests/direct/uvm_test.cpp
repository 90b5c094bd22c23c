// SPDX-License-Identifier: Apache-2.0
// NVIDIA's UVM driver as a provider, on a machine that has it: as far as that driver lets it go, step by step. What it
// refuses is no failure of this test; not saying which step it was is.
#include <gtest/gtest.h>

#include <iostream>
#include <string>

#include "base/unique_fd.h"
#include "gpu/memory.h"
#include "gpu/pinnable.h"
#include "gpu/session.h"
#include "gpu/uvm_provider.h"

namespace sluice::gpu {
namespace {

class Uvm : public ::testing::Test {
 protected:
  void SetUp() override {
    if (device_count() == 0) GTEST_SKIP() << "there is no CUDA driver or no device";
    if (driver()->soft) GTEST_SKIP() << "the soft GPU has no UVM";
    ASSERT_EQ(provider(), &uvm_provider());
  }
};

TEST_F(Uvm, ServesTheDeviceOrSaysWhichStepWasRefused) {
  const std::string refusal = uvm_provider().refusal(0);
  std::cout << "UVM device P2P: " << (refusal.empty() ? "the whole sequence succeeds" : refusal) << "\n";
  RecordProperty("refusal", refusal);
  if (!refusal.empty()) {
    EXPECT_NE(refusal.find(": "), std::string::npos) << "neither step nor answer: " << refusal;
  }
}

TEST_F(Uvm, RefusesTheSameWayTwice) {
  EXPECT_EQ(uvm_provider().refusal(0), uvm_provider().refusal(0));
}

TEST_F(Uvm, MapsNothingOfADeviceThatItRefuses) {
  if (uvm_provider().refusal(0).empty()) GTEST_SKIP() << "this device is served";
  facts::BufferFacts memory;
  memory.kind = facts::MemoryKind::device;
  memory.device = 0;
  const Session session(memory);
  ASSERT_EQ(session.status(), cuda::success);
  cuda::DevicePtr address = 0;
  ASSERT_EQ(driver()->mem_alloc(&address, std::size_t{1} << 21), cuda::success);
  EXPECT_FALSE(uvm_provider().map(inspect(address), address, 4096));
}

TEST_F(Uvm, ExportsADmaBufWhereTheDriverHasThem) {
  facts::BufferFacts memory;
  memory.kind = facts::MemoryKind::device;
  memory.device = 0;
  const Session session(memory);
  ASSERT_EQ(session.status(), cuda::success);
  cuda::DevicePtr address = 0;
  ASSERT_EQ(driver()->mem_alloc(&address, std::size_t{1} << 21), cuda::success);
  const base::UniqueFd exported(uvm_provider().export_dma_buf(inspect(address), address, std::size_t{1} << 21));
  std::cout << "dma-buf of device memory: " << (exported ? "exported" : "not exported") << "\n";
}

}  // namespace
}  // namespace sluice::gpu
