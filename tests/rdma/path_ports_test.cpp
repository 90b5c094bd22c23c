// SPDX-License-Identifier: Apache-2.0
// By which port the path `rdma` goes: what fails, takes turns, is listed, ranked and configured.
#include <cerrno>
#include <cstdlib>
#include <map>
#include <vector>

#include "rdma/path_fixture.h"

namespace sluice::rdma_test {
namespace {

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

TEST_F(RdmaPath, WithALimitListAndPriorityAreHonouredAsEver) {
  ::setenv("SLUICE_OPERATION_TIMEOUT_MS", "60000", 1);
  ASSERT_TRUE(served_.connect("10.0.0.1"));
  ASSERT_TRUE(served_.connect("10.0.1.1"));
  ASSERT_TRUE(served_.connect("10.0.1.2"));
  served_.list = {"10.0.0.1", "10.0.1.2"};
  served_.ranked = {"10.0.1.1", "10.0.0.1", "10.0.1.2"};
  const Memory memory(usual_memory(), 4096);
  const Registration registration(memory);
  for (int round = 0; round < 3; ++round) EXPECT_EQ(read_file(handle(), memory.address(), 4096), moved(4096));
  EXPECT_EQ(ports_of(served_.tokens()), (std::map<int, int>{{1, 3}}));
  EXPECT_EQ(served_.lists_asked, 1);
  EXPECT_EQ(served_.priorities_asked, 6);
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

}  // namespace
}  // namespace sluice::rdma_test
