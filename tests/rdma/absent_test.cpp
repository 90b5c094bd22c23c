// SPDX-License-Identifier: Apache-2.0
// Without a libibverbs.so.1 that can be used: one answer, with the cause. By itself, with none to find.
#include <gtest/gtest.h>

#include <cerrno>
#include <string>

#include "sluice_rdma.h"

namespace {

TEST(WithoutVerbs, EachQuestionIsAnsweredWithTheCause) {
  const auto no_visitor = [](const sluice_rdma_port_t*, void*) { ADD_FAILURE() << "there is no port"; };
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(sluice_rdma_ports(no_visitor, nullptr), ENOSYS);
    EXPECT_EQ(std::string(sluice_rdma_error()).find("libibverbs.so.1 cannot be used: "), 0U) << sluice_rdma_error();
  }
  sluice_rdma_link_t* link = nullptr;
  sluice_rdma_endpoint_t own{};
  EXPECT_EQ(sluice_rdma_link_open(nullptr, 1, &link, &own), ENOSYS);
  EXPECT_EQ(link, nullptr);
}

}  // namespace
