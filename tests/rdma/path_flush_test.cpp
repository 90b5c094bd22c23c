// SPDX-License-Identifier: Apache-2.0
// Whether a read is flushed before it counts: where the driver says that the device sees writes of adapters late. The
// soft GPU's flush fails when it is told to, which shows where it was called.
#include <cstdlib>
#include <string>

#include "rdma/path_fixture.h"

namespace sluice::rdma_test {
namespace {

std::string knob(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

class RdmaFlush : public RdmaPath {
 protected:
  void SetUp() override {
    if (knob("SLUICE_SOFTGPU_FAIL").find("cuFlushGPUDirectRDMAWrites") == std::string::npos) {
      GTEST_SKIP() << "SLUICE_SOFTGPU_FAIL names no flush";
    }
    RdmaPath::SetUp();
    ASSERT_TRUE(available(MemoryKind::device));
    ASSERT_TRUE(served_.connect("10.0.0.1"));
  }

  Transfer read(const Memory& memory) { return read_file(handle(), memory.address(), served_.content.size()); }
};

// The second flush fails, and so does the second read, though all its bytes came.
TEST_F(RdmaFlush, EachReadIntoTheDeviceIsFlushedOnceAndNothingElse) {
  ASSERT_EQ(knob("SLUICE_SOFTGPU_FAIL"), "cuFlushGPUDirectRDMAWrites:2:999");
  const Memory memory(MemoryKind::device, served_.content.size());
  const Registration registration(memory);
  served_.most = kMiB;
  EXPECT_EQ(read(memory), moved(memory.size())) << "several texts, one flush";
  EXPECT_TRUE(same_bytes(served_.content, memory.get()));
  EXPECT_EQ(write_file(handle(), memory.address(), memory.size()), moved(memory.size()));
  const Memory host(MemoryKind::pinned, served_.content.size());
  const Registration of_host(host);
  EXPECT_EQ(read(host), moved(host.size()));
  EXPECT_EQ(read_file(handle(), memory.address(), 4096, static_cast<off_t>(served_.content.size())), moved(0));
  EXPECT_EQ(read(memory).count, -1);
  EXPECT_EQ(read(memory), moved(memory.size()));
  EXPECT_EQ(served_.in_host_memory, 0);
}

// Each flush would fail.
TEST_F(RdmaFlush, IsNotThereWhereTheDeviceSeesWritesInOrder) {
  ASSERT_EQ(knob("SLUICE_SOFTGPU_RDMA_ORDERING"), "100");
  const Memory memory(MemoryKind::device, served_.content.size());
  const Registration registration(memory);
  for (int round = 0; round < 3; ++round) EXPECT_EQ(read(memory), moved(memory.size()));
  EXPECT_TRUE(same_bytes(served_.content, memory.get()));
  EXPECT_EQ(served_.in_host_memory, 0);
}

class RdmaUnseen : public RdmaPath {};

// Reads would count bytes that the device may not see.
TEST_F(RdmaUnseen, MemoryThatSeesWritesLateAndCannotBeFlushedHasNoKey) {
  if (knob("SLUICE_SOFTGPU_RDMA") != "2") GTEST_SKIP() << "wants SLUICE_SOFTGPU_RDMA=2";
  ASSERT_TRUE(served_.connect("10.0.0.1"));
  const Memory memory(MemoryKind::device, served_.content.size() + 100);
  const Registration registration(memory);
  read_and_compare(memory);
  EXPECT_EQ(served_.with_token, 0);
  const Told told = explained(memory.address());
  EXPECT_EQ(told.reason, "rdma_no_key");
  EXPECT_NE(told.detail.find("no flush for the host"), std::string::npos) << told.detail;
  const Memory host(MemoryKind::pinned, served_.content.size() + 100);
  const Registration of_host(host);
  read_and_compare(host);
  EXPECT_GT(served_.with_token, 0);
}

}  // namespace
}  // namespace sluice::rdma_test
