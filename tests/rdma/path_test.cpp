// SPDX-License-Identifier: Apache-2.0
// The path `rdma` through the public face: operations get a text for registered memory, the server behind them reaches
// that memory and no other, and what cannot go so goes through host memory, with its reason.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <future>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>

#include "rdma/fake_verbs.h"
#include "rdma/served_file.h"
#include "sluice.h"
#include "support/batch.h"
#include "support/calls.h"
#include "support/cuda_driver.h"

namespace sluice::rdma_test {
namespace {

using namespace support;

constexpr std::size_t kMiB = std::size_t{1} << 20U;

class RdmaPath : public CufileTest {
 protected:
  void SetUp() override {
    CufileTest::SetUp();
    regions_before_ = fake_verbs_counts().regions;
    dma_bufs_before_ = fake_verbs_counts().dma_buf_regions_made;
    served_.content = random_bytes(4 * kMiB + 5, 1);
  }
  void TearDown() override {
    handle_.reset();
    close_driver_fully();
    fake_verbs_fail(nullptr, 0, 0);
    EXPECT_EQ(fake_verbs_counts().regions, regions_before_) << "regions outlive their buffers";
    for (const char* name : {"SLUICE_OPERATION_TIMEOUT_MS", "CUFILE_ENV_PATH_JSON", "CUFILE_FORCE_COMPAT_MODE"}) {
      ::unsetenv(name);
    }
    CufileTest::TearDown();
  }

  struct Registered {
    explicit Registered(CUfileHandle_t made) : handle(made) {}
    ~Registered() { cuFileHandleDeregister(handle); }
    Registered(const Registered&) = delete;
    Registered& operator=(const Registered&) = delete;
    CUfileHandle_t handle;
  };
  CUfileHandle_t handle() {
    if (!handle_) {
      CUfileDescr_t description{};
      description.type = CU_FILE_HANDLE_TYPE_USERSPACE_FS;
      description.handle.fd = fd_.get();
      description.fs_ops = &served_.operations;
      CUfileHandle_t made = nullptr;
      EXPECT_EQ(code(cuFileHandleRegister(&made, &description)), CU_FILE_SUCCESS) << sluice_last_error();
      handle_ = std::make_unique<Registered>(made);
    }
    return handle_->handle;
  }

  struct Told {
    std::string path, reason, detail;
  };
  Told explained(const void* memory, CUfileOpcode_t opcode = CUFILE_READ) {
    sluice_explanation_t words{};
    EXPECT_EQ(code(sluice_explain(handle(), memory, 0, opcode, 4096, 0, &words)), CU_FILE_SUCCESS);
    return {words.path_name, words.reason_name, words.detail};
  }
  static std::uint64_t bytes_by(sluice_path_t path, bool reads = true) {
    std::vector<sluice_path_counter_t> counters(std::size_t{SLUICE_PATH_COUNT} * SLUICE_REASON_COUNT);
    std::size_t count = 0;
    EXPECT_EQ(code(sluice_path_counters(counters.data(), counters.size(), &count)), CU_FILE_SUCCESS);
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (counters[i].path == path) bytes += reads ? counters[i].read_bytes : counters[i].written_bytes;
    }
    return bytes;
  }
  void configure(const std::string& properties) {
    json_ = std::make_unique<ScratchFile>(1);
    const Fd file = json_->open(O_WRONLY | O_TRUNC);
    const std::string text = "{\"properties\": {" + properties + "}}";
    ASSERT_EQ(::write(file.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
    ::setenv("CUFILE_ENV_PATH_JSON", json_->path().c_str(), 1);
  }
  // Every byte, in the middle of memory that stays as it was.
  void read_and_compare(const Memory& memory) {
    const std::size_t size = served_.content.size();
    memory.fill(7);
    EXPECT_EQ(read_file(handle(), memory.address(), memory.size() - 3, 0, 3), moved(size));
    EXPECT_TRUE(all_bytes(7, memory.get(0, 3)));
    EXPECT_TRUE(same_bytes(served_.content, memory.get(3, size)));
    EXPECT_TRUE(all_bytes(7, memory.get(3 + size, memory.size() - 3 - size)));
  }

  ScratchFile file_{4096};
  Fd fd_ = file_.open(O_RDWR);
  ServedFile served_;
  std::unique_ptr<Registered> handle_;
  std::unique_ptr<ScratchFile> json_;
  unsigned regions_before_ = 0;
  unsigned dma_bufs_before_ = 0;
};

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

TEST_F(RdmaPath, ShortAnswersAreContinuedEachWithATextOfItsOwn) {
  ASSERT_TRUE(served_.connect("10.0.0.1"));
  served_.most = 700001;
  const Memory memory(usual_memory(), served_.content.size() + 100);
  const Registration registration(memory);
  read_and_compare(memory);
  const auto tokens = served_.tokens();
  ASSERT_EQ(tokens.size(), 7U) << "six pieces, and the end of the file";
  for (std::size_t i = 1; i < tokens.size(); ++i)
    EXPECT_EQ(tokens[i].address - tokens[0].address, std::min<std::size_t>(i * 700001, served_.content.size()));
}

TEST_F(RdmaPath, ARefusalInMidWayGoesOnThroughHostMemoryAndCountsOnBoth) {
  ASSERT_TRUE(served_.connect("10.0.0.1"));
  for (const int error : {EOPNOTSUPP, ENOSYS, EREMOTEIO}) {
    SCOPED_TRACE(error);
    handle_.reset();
    served_.most = kMiB;
    served_.refuse_rdma = error;
    served_.fail_at = served_.with_token + 2;
    const Memory memory(usual_memory(), served_.content.size() + 100);
    const Registration registration(memory);
    const std::uint64_t by_rdma = bytes_by(SLUICE_PATH_RDMA);
    const std::uint64_t by_host = bytes_by(SLUICE_PATH_USERSPACE);
    read_and_compare(memory);
    EXPECT_EQ(bytes_by(SLUICE_PATH_RDMA) - by_rdma, 2 * kMiB);
    EXPECT_EQ(bytes_by(SLUICE_PATH_USERSPACE) - by_host, served_.content.size() - 2 * kMiB);
    EXPECT_EQ(explained(memory.address()).reason, "rdma_refused");
    const int asked = served_.with_token;
    read_and_compare(memory);
    EXPECT_EQ(served_.with_token, asked) << "it is left alone for a while";
  }
}

TEST_F(RdmaPath, OtherErrorsAreTheTransfersOwn) {
  ASSERT_TRUE(served_.connect("10.0.0.1"));
  served_.refuse_rdma = EDQUOT;
  const Memory memory(usual_memory(), 4096);
  const Registration registration(memory);
  EXPECT_EQ(read_file(handle(), memory.address(), 4096), failed(EDQUOT));
  EXPECT_EQ(write_file(handle(), memory.address(), 4096), failed(EDQUOT));
  EXPECT_EQ(served_.in_host_memory, 0);
}

TEST_F(RdmaPath, AnErrorBehindMovedBytesLeavesTheirCount) {
  ASSERT_TRUE(served_.connect("10.0.0.1"));
  served_.most = 1000;
  served_.refuse_rdma = EIO;
  served_.fail_at = 3;
  const Memory memory(usual_memory(), 10000);
  const Registration registration(memory);
  EXPECT_EQ(read_file(handle(), memory.address(), 10000), moved(3000));
}

TEST_F(RdmaPath, WhenOnePortFailsTheOtherGoesOn) {
  ASSERT_TRUE(served_.connect("10.0.0.1"));
  ASSERT_TRUE(served_.connect("10.0.1.1"));
  const std::uint8_t bad = 0;  // the last but one byte of the GID tells the adapters apart
  served_.instead = [&](const sluice_rdma_token_t& token) -> ssize_t {
    if (token.gid[14] == bad) {
      errno = EREMOTEIO;
      return -1;
    }
    const int answer = fake_verbs_remote_write(token.qp, token.rkey, token.address, served_.content.data(), token.size);
    EXPECT_EQ(answer, 0);
    return static_cast<ssize_t>(token.size);
  };
  const Memory memory(usual_memory(), 4096);
  const Registration registration(memory);
  for (int round = 0; round < 4; ++round) {
    memory.fill(0);
    EXPECT_EQ(read_file(handle(), memory.address(), 4096), moved(4096));
    EXPECT_TRUE(same_bytes(std::span(served_.content).first(4096), memory.get()));
  }
  EXPECT_EQ(served_.in_host_memory, 0);
}

std::map<int, int> ports_of(const std::vector<sluice_rdma_token_t>& tokens) {
  std::map<int, int> ports;
  for (const auto& token : tokens) ++ports[token.gid[14] * 256 + token.gid[15]];
  return ports;
}

TEST_F(RdmaPath, PortsTakeTurns) {
  ASSERT_TRUE(served_.connect("10.0.0.1"));
  ASSERT_TRUE(served_.connect("10.0.1.1"));
  const Memory memory(usual_memory(), 4096);
  const Registration registration(memory);
  for (int round = 0; round < 10; ++round) EXPECT_EQ(read_file(handle(), memory.address(), 4096), moved(4096));
  EXPECT_EQ(ports_of(served_.tokens()), (std::map<int, int>{{1, 5}, {257, 5}}));
}

TEST_F(RdmaPath, TheFileSystemsListAndItsPriorityAreHonoured) {
  ASSERT_TRUE(served_.connect("10.0.0.1"));
  ASSERT_TRUE(served_.connect("10.0.1.1"));
  ASSERT_TRUE(served_.connect("10.0.1.2"));
  served_.list = {"10.0.1.1", "10.0.1.2", "192.0.2.9"};
  served_.ranked = {"10.0.0.1", "10.0.1.2"};
  const Memory memory(usual_memory(), 4096);
  const Registration registration(memory);
  for (int round = 0; round < 6; ++round) EXPECT_EQ(read_file(handle(), memory.address(), 4096), moved(4096));
  EXPECT_EQ(ports_of(served_.tokens()), (std::map<int, int>{{258, 6}}));
  EXPECT_EQ(served_.lists_asked, 1);
  EXPECT_EQ(served_.priorities_asked, 12);
}

TEST_F(RdmaPath, TheConfiguredAddressesAreAllThatAreUsed) {
  configure(R"("rdma_dev_addr_list": ["10.0.1.2"], "rdma_load_balancing_policy": "FirstFit")");
  ASSERT_TRUE(served_.connect("10.0.0.1"));
  ASSERT_TRUE(served_.connect("10.0.1.2"));
  const Memory memory(usual_memory(), 4096);
  const Registration registration(memory);
  EXPECT_EQ(read_file(handle(), memory.address(), 4096), moved(4096));
  EXPECT_EQ(ports_of(served_.tokens()), (std::map<int, int>{{258, 1}}));
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

TEST_F(RdmaPath, AnOperationThatHangsEndsTheTransferAndItsKey) {
  ::setenv("SLUICE_OPERATION_TIMEOUT_MS", "1000", 1);
  ASSERT_TRUE(served_.connect("10.0.0.1"));
  std::promise<void> go_on;
  std::promise<int> late_answer;
  served_.instead = [&](const sluice_rdma_token_t& token) -> ssize_t {
    const sluice_rdma_token_t kept = token;
    go_on.get_future().wait();
    const char byte = 'x';
    late_answer.set_value(fake_verbs_remote_write(kept.qp, kept.rkey, kept.address, &byte, 1));
    return 1;
  };
  const Memory memory(usual_memory(), 4096);
  const Registration registration(memory);
  memory.fill(9);
  EXPECT_EQ(read_file(handle(), memory.address(), 4096), failed(ETIMEDOUT));
  EXPECT_EQ(explained(memory.address()).reason, "rdma_revoked");
  EXPECT_NE(explained(memory.address()).detail.find("key revoked"), std::string::npos);
  go_on.set_value();
  std::future<int> answer = late_answer.get_future();
  ASSERT_EQ(answer.wait_for(std::chrono::minutes(1)), std::future_status::ready);
  EXPECT_EQ(answer.get(), EACCES) << "the server comes too late to write";
  EXPECT_TRUE(all_bytes(9, memory.get()));
}

TEST_F(RdmaPath, ABufferThatIsRegisteredAnewHasANewKey) {
  ::setenv("SLUICE_OPERATION_TIMEOUT_MS", "1000", 1);
  ASSERT_TRUE(served_.connect("10.0.0.1"));
  std::promise<void> go_on;
  std::promise<void> gone;
  served_.instead = [&](const sluice_rdma_token_t&) -> ssize_t {
    go_on.get_future().wait();
    gone.set_value();
    return 1;
  };
  const Memory memory(usual_memory(), served_.content.size() + 100);
  auto registration = std::make_unique<Registration>(memory);
  EXPECT_EQ(read_file(handle(), memory.address(), 4096), failed(ETIMEDOUT));
  go_on.set_value();
  ASSERT_EQ(gone.get_future().wait_for(std::chrono::minutes(1)), std::future_status::ready);
  served_.instead = nullptr;
  read_and_compare(memory);
  EXPECT_GT(served_.in_host_memory, 0);
  registration = nullptr;
  registration = std::make_unique<Registration>(memory);
  const int before = served_.in_host_memory;
  read_and_compare(memory);
  EXPECT_EQ(served_.in_host_memory, before);
}

TEST_F(RdmaPath, WithALimitOperationsThatAreInTimeAreAsEver) {
  ::setenv("SLUICE_OPERATION_TIMEOUT_MS", "60000", 1);
  ASSERT_TRUE(served_.connect("10.0.0.1"));
  const Memory memory(usual_memory(), served_.content.size() + 100);
  read_and_compare(memory);  // in pieces, by memory of the thread's
  const Bytes fresh = random_bytes(3 * kMiB, 4);
  memory.put(0, fresh);
  EXPECT_EQ(write_file(handle(), memory.address(), fresh.size()), moved(fresh.size()));
  EXPECT_TRUE(same_bytes(fresh, std::span(served_.content).first(fresh.size())));
  const Registration registration(memory);
  read_and_compare(memory);
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
