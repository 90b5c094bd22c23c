// SPDX-License-Identifier: Apache-2.0
// The path `rdma` through the public face: operations get a text for registered memory, the server behind them reaches
// that memory and no other, and what cannot go so goes through host memory, with its reason.
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <thread>
#include <vector>

#include "rdma/path_fixture.h"
#include "support/batch.h"
#include "support/cuda_driver.h"

namespace sluice::rdma_test {
namespace {

TEST_F(RdmaPath, RegisteredMemoryOfEachKindIsReadAndWrittenByTheServer) {
  ASSERT_TRUE(served_.connect("10.0.0.1"));
  for (const MemoryKind kind : {MemoryKind::plain, MemoryKind::pinned, MemoryKind::device}) {
    if (!available(kind)) continue;
    SCOPED_TRACE(name_of(kind));
    const Memory memory(kind, served_.content.size() + 100);
    const Registration registration(memory);
    const std::uint64_t before = bytes_by(SLUICE_PATH_RDMA);
    read_and_compare(memory);
    EXPECT_EQ(bytes_by(SLUICE_PATH_RDMA) - before, served_.content.size());
    const Bytes fresh = random_bytes(100000, 9);
    memory.put(11, fresh);
    EXPECT_EQ(write_file(handle(), memory.address(), fresh.size(), 5, 11), moved(fresh.size()));
    EXPECT_TRUE(same_bytes(fresh, std::span(served_.content).subspan(5, fresh.size())));
    EXPECT_EQ(explained(memory.address()).path, "rdma");
  }
  EXPECT_EQ(served_.in_host_memory, 0);
}

TEST_F(RdmaPath, WithoutALinkTheOperationsGetHostMemory) {
  const Memory memory(usual_memory(), served_.content.size() + 100);
  const Registration registration(memory);
  read_and_compare(memory);
  EXPECT_EQ(served_.with_token, 0);
  EXPECT_EQ(explained(memory.address()).reason, "rdma_not_connected");
  EXPECT_EQ(explained(memory.address()).path, "userspace");
}

TEST_F(RdmaPath, ALinkThatComesAfterTheBufferIsUsedAndOneThatGoesIsNot) {
  const Memory memory(usual_memory(), served_.content.size() + 100);
  const Registration registration(memory);
  read_and_compare(memory);
  ASSERT_TRUE(served_.connect("10.0.0.1"));
  read_and_compare(memory);
  EXPECT_GT(served_.with_token, 0);
  const int before = served_.with_token;
  served_.disconnect();
  read_and_compare(memory);
  EXPECT_EQ(served_.with_token, before);
}

TEST_F(RdmaPath, MemoryThatIsNotRegisteredGoesThroughHostMemory) {
  ASSERT_TRUE(served_.connect("10.0.0.1"));
  const Memory memory(usual_memory(), served_.content.size() + 100);
  read_and_compare(memory);
  EXPECT_EQ(served_.with_token, 0);
  EXPECT_EQ(explained(memory.address()).reason, "rdma_unregistered");
}

TEST_F(RdmaPath, AFileSystemThatNeverAskedForItIsServedAsEver) {
  served_.operations.getRDMADeviceList = nullptr;
  const Memory memory(usual_memory(), served_.content.size() + 100);
  const Registration registration(memory);
  read_and_compare(memory);
  EXPECT_EQ(explained(memory.address()).reason, "caller_operations");
}

TEST_F(RdmaPath, TheExplanationNamesPortAndKey) {
  ASSERT_TRUE(served_.connect("10.0.1.2"));
  const Memory memory(usual_memory(), 4096);
  const Registration registration(memory);
  const Told told = explained(memory.address());
  EXPECT_EQ(told.path, "rdma");
  EXPECT_EQ(told.reason, "served_by_rdma");
  EXPECT_NE(told.detail.find("RDMA: fake1 port 2 (10.0.1.2), key by "), std::string::npos) << told.detail;
}

TEST_F(RdmaPath, DeviceMemoryIsRegisteredAsADmaBufWhereTheDriverGivesOne) {
  if (!available(MemoryKind::device)) GTEST_SKIP() << "there is no device";
  ASSERT_TRUE(served_.connect("10.0.0.1"));
  const bool exports = std::getenv("SLUICE_SOFTGPU_DMA_BUF") != nullptr;
  const Memory memory(MemoryKind::device, served_.content.size() + 100);
  const Registration registration(memory);
  read_and_compare(memory);
  EXPECT_EQ(fake_verbs_counts().dma_buf_regions_made - dma_bufs_before_, exports ? 1U : 0U);
  EXPECT_NE(explained(memory.address()).detail.find(exports ? "key by dma-buf" : "key by peer memory"),
            std::string::npos);
}

TEST_F(RdmaPath, AnAdapterThatTakesNoMemoryIsToldOfWithItsAnswer) {
  ASSERT_TRUE(served_.connect("10.0.0.1"));
  fake_verbs_fail("ibv_reg_mr", EPERM, -1);
  fake_verbs_fail("ibv_reg_dmabuf_mr", EPERM, -1);
  const Memory memory(usual_memory(), served_.content.size() + 100);
  const Registration registration(memory);
  read_and_compare(memory);
  const Told told = explained(memory.address());
  EXPECT_EQ(told.reason, "rdma_no_key");
  EXPECT_NE(told.detail.find("does not register this memory"), std::string::npos) << told.detail;
}

TEST_F(RdmaPath, ManagedMemoryGoesThroughHostMemory) {
  if (!available(MemoryKind::managed)) GTEST_SKIP() << "there is no device";
  ASSERT_TRUE(served_.connect("10.0.0.1"));
  const Memory memory(MemoryKind::managed, served_.content.size() + 100);
  const Registration registration(memory);
  read_and_compare(memory);
  EXPECT_EQ(explained(memory.address()).reason, "managed_memory");
}

TEST_F(RdmaPath, WritesStayOutOfItWhereTheConfigurationSaysSo) {
  configure(R"("gds_rdma_write_support": false)");
  ASSERT_TRUE(served_.connect("10.0.0.1"));
  const Memory memory(usual_memory(), 4096);
  const Registration registration(memory);
  EXPECT_EQ(write_file(handle(), memory.address(), 4096), moved(4096));
  EXPECT_EQ(served_.with_token, 0);
  EXPECT_EQ(explained(memory.address(), CUFILE_WRITE).reason, "rdma_writes_off");
  EXPECT_EQ(read_file(handle(), memory.address(), 4096), moved(4096));
  EXPECT_EQ(served_.with_token, 1);
}

TEST_F(RdmaPath, AnAccessMaskWithoutWritesMakesTheServersWritesFail) {
  configure(R"("rdma_access_mask": "0x4")");
  ASSERT_TRUE(served_.connect("10.0.0.1"));
  const Memory memory(usual_memory(), served_.content.size() + 100);
  const Registration registration(memory);
  read_and_compare(memory);
  EXPECT_GT(served_.in_host_memory, 0) << "the server was refused, and host memory took over";
}

TEST_F(RdmaPath, BatchesGoTheSameWay) {
  ASSERT_TRUE(served_.connect("10.0.0.1"));
  constexpr std::size_t entries = 16;
  const Memory memory(usual_memory(), entries * 65536);
  const Registration registration(memory);
  Batch batch(entries);
  for (std::size_t i = 0; i < entries; ++i) batch.read(handle(), memory, 65536, i * 65536, i * 65536);
  for (const ssize_t count : batch.run()) EXPECT_EQ(count, 65536);
  EXPECT_TRUE(same_bytes(std::span(served_.content).first(memory.size()), memory.get()));
  EXPECT_EQ(served_.with_token, static_cast<int>(entries));
}

TEST_F(RdmaPath, StreamsGoTheSameWay) {
  if (!available(MemoryKind::device)) GTEST_SKIP() << "there is no device";
  ASSERT_TRUE(served_.connect("10.0.0.1"));
  const Memory memory(MemoryKind::device, 65536);
  const Registration registration(memory);
  EXPECT_EQ(read_file(handle(), memory.address(), 1), moved(1)) << "the file system has been asked for its list by now";
  const Stream stream;
  std::size_t size = 65536;
  off_t file_offset = 0;
  off_t buffer_offset = 0;
  ssize_t count = 0;
  ASSERT_EQ(
      code(cuFileReadAsync(handle(), memory.address(), &size, &file_offset, &buffer_offset, &count, stream.get())),
      CU_FILE_SUCCESS);
  stream.synchronize();
  EXPECT_EQ(count, 65536);
  EXPECT_TRUE(same_bytes(std::span(served_.content).first(65536), memory.get()));
  EXPECT_EQ(served_.with_token, 2);
  EXPECT_EQ(served_.in_host_memory, 0);
}

TEST_F(RdmaPath, ManyThreadsMoveTheirOwnBytes) {
  ASSERT_TRUE(served_.connect("10.0.0.1"));
  ASSERT_TRUE(served_.connect("10.0.1.1"));
  const CUfileHandle_t there = handle();
  std::vector<std::thread> threads;
  for (unsigned number = 0; number < 6; ++number) {
    threads.emplace_back([&, number] {
      const Memory memory(MemoryKind::plain, 50000);
      for (int round = 0; round < 60; ++round) {
        const Registration registration(memory);
        const std::size_t at = (number * 7919 + static_cast<std::size_t>(round) * 104729) % (4 * kMiB - 50000);
        EXPECT_EQ(read_file(there, memory.address(), 50000, static_cast<off_t>(at)), moved(50000));
        EXPECT_TRUE(same_bytes(std::span(served_.content).subspan(at, 50000), memory.get()));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(served_.in_host_memory, 0);
}

TEST_F(RdmaPath, KeysAreGoneWithTheBufferAndWithTheDriver) {
  ASSERT_TRUE(served_.connect("10.0.0.1"));
  const Memory memory(usual_memory(), 4096);
  {
    const Registration registration(memory);
    EXPECT_EQ(read_file(handle(), memory.address(), 4096), moved(4096));
    EXPECT_EQ(fake_verbs_counts().regions, regions_before_ + 1);
  }
  EXPECT_EQ(fake_verbs_counts().regions, regions_before_);
  const sluice_rdma_token_t last = served_.tokens().back();
  EXPECT_EQ(fake_verbs_remote_write(last.qp, last.rkey, last.address, "x", 1), EACCES);
  ASSERT_EQ(code(cuFileBufRegister(memory.address(), memory.size(), 0)), CU_FILE_SUCCESS);
  EXPECT_EQ(read_file(handle(), memory.address(), 4096), moved(4096));
  handle_.reset();
  close_driver_fully();
  EXPECT_EQ(fake_verbs_counts().regions, regions_before_);
}

TEST_F(RdmaPath, AChildOfForkGoesThroughHostMemoryAndItsParentGoesOn) {
  ASSERT_TRUE(served_.connect("10.0.0.1"));
  const Memory memory(MemoryKind::plain, 4096);
  const Registration registration(memory);
  EXPECT_EQ(read_file(handle(), memory.address(), 4096), moved(4096));
  const int before = served_.with_token;
  const pid_t child = ::fork();
  if (child == 0) {
    const bool read = read_file(handle(), memory.address(), 4096) == moved(4096);
    ::_exit(read && served_.with_token == before && served_.in_host_memory > 0 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(read_file(handle(), memory.address(), 4096), moved(4096));
  EXPECT_EQ(served_.with_token, before + 1);
}

TEST_F(RdmaPath, PlainAndForcedModesKeepToHostMemory) {
  ::setenv("CUFILE_FORCE_COMPAT_MODE", "true", 1);
  ASSERT_TRUE(served_.connect("10.0.0.1"));
  const Memory memory(usual_memory(), served_.content.size() + 100);
  const Registration registration(memory);
  read_and_compare(memory);
  EXPECT_EQ(served_.with_token, 0);
  EXPECT_EQ(explained(memory.address()).reason, "forced_by_configuration");
}

}  // namespace
}  // namespace sluice::rdma_test
