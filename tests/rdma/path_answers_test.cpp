// SPDX-License-Identifier: Apache-2.0
// What comes of what operations answer on the path `rdma`: short counts, refusals, errors, and nothing in time.
#include <cerrno>
#include <chrono>
#include <future>
#include <memory>
#include <utility>

#include "rdma/path_fixture.h"

namespace sluice::rdma_test {
namespace {

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

TEST_F(RdmaPath, AListThatHangsLeavesTheFileToHostMemoryUntilItAnswers) {
  ::setenv("SLUICE_OPERATION_TIMEOUT_MS", "1000", 1);
  ASSERT_TRUE(served_.connect("10.0.0.1"));
  Hang hang;
  served_.before_list = [&, first = true]() mutable {
    if (std::exchange(first, false)) hang.here();
  };
  const Memory memory(usual_memory(), served_.content.size() + 100);
  const Registration registration(memory);
  read_and_compare(memory);
  EXPECT_EQ(served_.with_token, 0);
  EXPECT_EQ(served_.lists_asked, 1);
  EXPECT_EQ(explained(memory.address()).reason, "rdma_refused");
  hang.end();
  // It is asked again after a pause.
  const auto limit = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (served_.with_token == 0 && std::chrono::steady_clock::now() < limit) read_and_compare(memory);
  EXPECT_GT(served_.with_token, 0);
  EXPECT_EQ(served_.lists_asked, 2);
}

TEST_F(RdmaPath, APriorityThatHangsLeavesTheFileToHostMemory) {
  ::setenv("SLUICE_OPERATION_TIMEOUT_MS", "1000", 1);
  ASSERT_TRUE(served_.connect("10.0.0.1"));
  ASSERT_TRUE(served_.connect("10.0.1.1"));
  Hang hang;
  served_.before_priority = [&] { hang.here(); };
  const Memory memory(usual_memory(), served_.content.size() + 100);
  const Registration registration(memory);
  read_and_compare(memory);
  EXPECT_EQ(served_.with_token, 0);
  EXPECT_EQ(served_.priorities_asked, 1) << "the other port is not asked about";
  EXPECT_EQ(explained(memory.address()).reason, "rdma_refused");
  hang.end();
}

}  // namespace
}  // namespace sluice::rdma_test
