// SPDX-License-Identifier: Apache-2.0
// Links, ports and regions of libcufile_rdma.so.1, over the stand-in for libibverbs.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "rdma/fake_verbs.h"
#include "rdma/verbs/interface.h"

namespace {

sockaddr_in address_of(const char* text) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  ::inet_pton(AF_INET, text, &address.sin_addr);
  return address;
}

class Link : public ::testing::Test {
 protected:
  void TearDown() override {
    fake_verbs_fail(nullptr, 0, 0);
    for (unsigned port = 0; port < 3; ++port) fake_verbs_set_port(port, true);
    for (sluice_rdma_link_t* link : open_) sluice_rdma_link_close(link);
    const FakeCounts counts = fake_verbs_counts();
    EXPECT_EQ(counts.queue_pairs, 0U);
    EXPECT_EQ(counts.completion_queues, 0U);
    EXPECT_EQ(counts.regions, 0U);
  }

  int open(const char* address, unsigned count) {
    const sockaddr_in there = address_of(address);
    sluice_rdma_link_t* link = nullptr;
    const int answer = sluice_rdma_link_open(reinterpret_cast<const sockaddr*>(&there), count, &link, own_.data());
    if (answer == 0) open_.push_back(link);
    return answer;
  }
  int connect(unsigned count) {
    std::array<sluice_rdma_endpoint_t, SLUICE_RDMA_MOST_QUEUE_PAIRS> theirs{};
    for (unsigned pair = 0; pair < count; ++pair) {
      theirs[pair] = own_[pair];
      theirs[pair].qp = 0x900 + pair;
    }
    return sluice_rdma_link_connect(open_.back(), theirs.data(), count);
  }
  void close_last() {
    sluice_rdma_link_close(open_.back());
    open_.pop_back();
  }
  static const sluice::verbs::Slot* slot(const char* address) {
    const sluice::verbs::Board* const board = sluice_rdma_links_board();
    for (unsigned number = 0; number < board->slots; ++number) {
      if (std::string(board->slot[number].port.address) == address) return &board->slot[number];
    }
    return nullptr;
  }

  std::vector<sluice_rdma_link_t*> open_;
  std::array<sluice_rdma_endpoint_t, SLUICE_RDMA_MOST_QUEUE_PAIRS> own_{};
};

std::map<std::string, sluice_rdma_port_t> ports() {
  std::map<std::string, sluice_rdma_port_t> all;
  const auto note = [](const sluice_rdma_port_t* port, void* there) {
    (*static_cast<std::map<std::string, sluice_rdma_port_t>*>(there))[port->address] = *port;
  };
  EXPECT_EQ(sluice_rdma_ports(note, &all), 0) << sluice_rdma_error();
  return all;
}

TEST_F(Link, PortsAreToldOnceForEachAddressByRoceV2) {
  const auto all = ports();
  ASSERT_EQ(all.size(), 3U);
  EXPECT_STREQ(all.at("10.0.0.1").device, "fake0");
  EXPECT_EQ(all.at("10.0.1.2").port, 2);
  for (const auto& [address, port] : all) {
    EXPECT_EQ(port.gid_index, 1) << address << ": v1 is at index 0";
    EXPECT_EQ(port.ethernet, 1);
    EXPECT_EQ(port.mtu, 5);
  }
}

TEST_F(Link, APortThatIsDownIsLeftOut) {
  fake_verbs_set_port(0, false);
  EXPECT_EQ(ports().size(), 2U);
  EXPECT_EQ(open("10.0.0.1", 1), ENODEV);
  EXPECT_STREQ(sluice_rdma_error(), "no port that is up has the address 10.0.0.1");
}

TEST_F(Link, WithoutTheCallForAllGidsTheyAreAskedOneByOne) {
  fake_verbs_fail("_ibv_query_gid_table", EOPNOTSUPP, -1);
  EXPECT_EQ(ports().size(), 3U);
  EXPECT_EQ(ports().at("10.0.1.1").gid_index, 1) << "the last one of an address, which is v2";
}

TEST_F(Link, TellsItsQueuePairsAndConnectsThemInOrder) {
  ASSERT_EQ(open("10.0.1.2", 4), 0) << sluice_rdma_error();
  for (unsigned pair = 0; pair < 4; ++pair) {
    EXPECT_EQ(own_[pair].has_gid, 1);
    EXPECT_EQ(own_[pair].gid[15], 2);
    EXPECT_LE(own_[pair].psn, 0xffffffU);
    EXPECT_EQ(fake_verbs_other_end(own_[pair].qp), 0U);
  }
  ASSERT_EQ(connect(4), 0) << sluice_rdma_error();
  for (unsigned pair = 0; pair < 4; ++pair) EXPECT_EQ(fake_verbs_other_end(own_[pair].qp), 0x900 + pair);
  sluice_rdma_port_t port{};
  sluice_rdma_link_port(open_.back(), &port);
  EXPECT_STREQ(port.address, "10.0.1.2");
  EXPECT_EQ(port.links, 1U);
}

TEST_F(Link, WithoutAnAddressTheFirstPortThatIsUpIsTaken) {
  fake_verbs_set_port(0, false);
  sluice_rdma_link_t* link = nullptr;
  ASSERT_EQ(sluice_rdma_link_open(nullptr, 1, &link, own_.data()), 0) << sluice_rdma_error();
  open_.push_back(link);
  EXPECT_EQ(own_[0].gid[14], 1);
}

TEST_F(Link, TheBoardNamesTheNewestLinkAndForgetsThoseThatAreClosed) {
  ASSERT_EQ(open("10.0.0.1", 2), 0);
  ASSERT_EQ(connect(2), 0);
  const std::uint32_t first = own_[0].qp;
  const sluice::verbs::Slot* const there = slot("10.0.0.1");
  ASSERT_NE(there, nullptr);
  EXPECT_EQ(there->state, std::uint64_t{1} << 32 | first);
  ASSERT_EQ(open("10.0.0.1", 1), 0);
  EXPECT_EQ(there->state, std::uint64_t{1} << 32 | first) << "it is not connected yet";
  ASSERT_EQ(connect(1), 0);
  EXPECT_EQ(there->state, std::uint64_t{2} << 32 | own_[0].qp);
  close_last();
  EXPECT_EQ(there->state, std::uint64_t{1} << 32 | first);
  close_last();
  EXPECT_EQ(there->state, 0U);
}

TEST_F(Link, WrongArgumentsAreRefusedWithACause) {
  EXPECT_EQ(open("10.0.0.1", 0), EINVAL);
  EXPECT_EQ(open("10.0.0.1", SLUICE_RDMA_MOST_QUEUE_PAIRS + 1), EINVAL);
  EXPECT_STREQ(sluice_rdma_error(), "a link has 1 to 16 queue pairs");
  sockaddr other{};
  other.sa_family = AF_INET6;
  sluice_rdma_link_t* link = nullptr;
  EXPECT_EQ(sluice_rdma_link_open(&other, 1, &link, own_.data()), EINVAL);
  EXPECT_EQ(sluice_rdma_ports(nullptr, nullptr), EINVAL);
  ASSERT_EQ(open("10.0.0.1", 2), 0);
  EXPECT_EQ(connect(1), EINVAL);
  EXPECT_STREQ(sluice_rdma_error(), "the link has 2 queue pairs, not 1");
  sluice_rdma_endpoint_t wrong[2] = {own_[0], own_[1]};
  wrong[1].psn = 0x1000000;
  EXPECT_EQ(sluice_rdma_link_connect(open_.back(), wrong, 2), EINVAL);
  ASSERT_EQ(connect(2), 0);
  EXPECT_EQ(connect(2), ENOTCONN);
  sluice_rdma_link_close(nullptr);
}

// What was made before a step that fails is taken down again: TearDown counts.
TEST_F(Link, EachStepThatFailsIsToldAndLeavesNothing) {
  for (const char* function : {"ibv_create_cq", "ibv_create_qp", "ibv_modify_qp"}) {
    fake_verbs_fail(function, ENOMEM, 1);
    EXPECT_EQ(open("10.0.0.1", 4), ENOMEM) << function;
    EXPECT_NE(std::string(sluice_rdma_error()).find("fake0"), std::string::npos) << sluice_rdma_error();
    EXPECT_EQ(fake_verbs_counts().queue_pairs, 0U) << function;
    ASSERT_EQ(open("10.0.0.1", 4), 0) << "after " << function;
    close_last();
  }
  ASSERT_EQ(open("10.0.0.1", 1), 0);
  fake_verbs_fail("ibv_modify_qp", ETIMEDOUT, 1);
  EXPECT_EQ(connect(1), ETIMEDOUT);
}

TEST_F(Link, AnAdapterThatServesFewReadsIsConnectedAllTheSame) {
  ASSERT_EQ(open("10.0.0.1", 1), 0);
  fake_verbs_fail("ibv_modify_qp", EINVAL, 1);
  EXPECT_EQ(connect(1), 0) << sluice_rdma_error();
}

TEST_F(Link, ARegionIsReachedByItsKeyUntilItIsClosed) {
  ASSERT_EQ(open("10.0.0.1", 1), 0);
  ASSERT_EQ(connect(1), 0);
  std::array<char, 4096> memory{};
  const auto address = reinterpret_cast<std::uint64_t>(memory.data());
  sluice::verbs::Region* region = nullptr;
  std::uint32_t key = 0;
  ASSERT_EQ(sluice_rdma_region_open(slot("10.0.0.1")->adapter, address, memory.size(), -1, 0, 7, &region, &key), 0);
  EXPECT_EQ(fake_verbs_remote_write(own_[0].qp, key, address + 1, "abc", 3), 0);
  EXPECT_EQ(std::string(memory.data() + 1, 3), "abc");
  EXPECT_EQ(fake_verbs_remote_write(own_[0].qp, key, address + 4094, "abc", 3), ERANGE);
  sluice_rdma_region_close(region);
  EXPECT_EQ(fake_verbs_remote_write(own_[0].qp, key, address, "x", 1), EACCES);
}

TEST_F(Link, AKeyIsNoGoodOnTheOtherAdapter) {
  ASSERT_EQ(open("10.0.0.1", 1), 0);
  ASSERT_EQ(connect(1), 0);
  ASSERT_EQ(open("10.0.1.1", 1), 0);
  ASSERT_EQ(connect(1), 0);
  std::array<char, 64> memory{};
  const auto address = reinterpret_cast<std::uint64_t>(memory.data());
  sluice::verbs::Region* region = nullptr;
  std::uint32_t key = 0;
  ASSERT_EQ(sluice_rdma_region_open(slot("10.0.0.1")->adapter, address, memory.size(), -1, 0, 7, &region, &key), 0);
  EXPECT_EQ(fake_verbs_remote_write(own_[0].qp, key, address, "x", 1), EACCES);
  sluice_rdma_region_close(region);
}

TEST_F(Link, MemoryThatIsRefusedIsToldWithAHint) {
  ASSERT_EQ(open("10.0.0.1", 1), 0);
  sluice::verbs::Region* region = nullptr;
  std::uint32_t key = 0;
  EXPECT_EQ(sluice_rdma_region_open(0, 4096, 4096, -1, 0, 7, &region, &key), EFAULT);
  char byte = 0;
  fake_verbs_fail("ibv_reg_mr", ENOMEM, 1);
  EXPECT_EQ(sluice_rdma_region_open(0, reinterpret_cast<std::uint64_t>(&byte), 1, -1, 0, 7, &region, &key), ENOMEM);
  EXPECT_NE(std::string(sluice_rdma_error()).find("ulimit -l"), std::string::npos) << sluice_rdma_error();
  EXPECT_EQ(sluice_rdma_region_open(99, 4096, 4096, -1, 0, 7, &region, &key), ENODEV);
}

// A child may not touch what its parent has with the adapter, and can have links of its own.
TEST_F(Link, AChildOfForkHasNoneOfItsParentsLinksAndClosesNothingOfThem) {
  ASSERT_EQ(open("10.0.0.1", 2), 0);
  ASSERT_EQ(connect(2), 0);
  char byte = 0;
  const auto address = reinterpret_cast<std::uint64_t>(&byte);
  sluice::verbs::Region* region = nullptr;
  std::uint32_t key = 0;
  ASSERT_EQ(sluice_rdma_region_open(slot("10.0.0.1")->adapter, address, 1, -1, 0, 7, &region, &key), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const unsigned pairs = fake_verbs_counts().queue_pairs;
    if (sluice_rdma_links_board()->slots != 0) ::_exit(1);
    sluice_rdma_link_close(open_.back());
    sluice_rdma_region_close(region);
    if (fake_verbs_counts().queue_pairs != pairs || fake_verbs_counts().regions != 1) ::_exit(2);
    if (open("10.0.0.1", 1) != 0 || connect(1) != 0) ::_exit(3);
    ::_exit(slot("10.0.0.1")->state == (std::uint64_t{1} << 32 | own_[0].qp) ? 0 : 4);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(fake_verbs_remote_write(own_[0].qp, key, address, "x", 1), 0) << "the parent's is as it was";
  sluice_rdma_region_close(region);
}

TEST_F(Link, ManyThreadsOpenConnectAndCloseAtATime) {
  std::vector<std::thread> threads;
  for (int number = 0; number < 4; ++number) {
    threads.emplace_back([] {
      for (int round = 0; round < 200; ++round) {
        std::array<sluice_rdma_endpoint_t, 2> own{};
        sluice_rdma_link_t* link = nullptr;
        ASSERT_EQ(sluice_rdma_link_open(nullptr, 2, &link, own.data()), 0) << sluice_rdma_error();
        ASSERT_EQ(sluice_rdma_link_connect(link, own.data(), 2), 0) << sluice_rdma_error();
        sluice_rdma_link_close(link);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(slot("10.0.0.1")->state, 0U);
}

}  // namespace
