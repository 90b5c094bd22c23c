// SPDX-License-Identifier: Apache-2.0
#include "wire/message.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace rdma_files {
namespace {

Peer peer() {
  Peer peer{.lid = 7, .queue_pair = 0xabcdef, .first_packet = 0x123456, .mtu = 3};
  peer.gid[0] = 0xfe;
  peer.gid[15] = 9;
  return peer;
}

Transfer transfer() {
  return {.direction = Direction::write,
          .file = 3,
          .offset = 1ULL << 40U,
          .length = 4096,
          .into = 100,
          .queue_pair = 0x11,
          .token = {.address = 0x1000, .size = 8192, .key = 5, .lid = 0, .queue_pair = 0x10, .gid = Gid{}}};
}

TEST(RdmaFilesMessage, RequestsArriveAsTheyWereSent) {
  const auto open = read_request(packed(Request{1, Open{kOpenWrite | kOpenCreate, "model.bin"}}));
  ASSERT_TRUE(open);
  EXPECT_EQ(open->id, 1U);
  EXPECT_EQ(std::get<Open>(open->what).name, "model.bin");
  EXPECT_EQ(std::get<Open>(open->what).flags, kOpenWrite | kOpenCreate);
  const auto close = read_request(packed(Request{2, Close{77}}));
  ASSERT_TRUE(close);
  EXPECT_EQ(std::get<Close>(close->what).file, 77U);
  const auto link = read_request(packed(Request{3, Link{peer()}}));
  ASSERT_TRUE(link);
  EXPECT_EQ(std::get<Link>(link->what).client, peer());
  const auto moved = read_request(packed(Request{4, transfer()}));
  ASSERT_TRUE(moved);
  const Transfer& got = std::get<Transfer>(moved->what);
  EXPECT_EQ(got.direction, Direction::write);
  EXPECT_EQ(got.offset, 1ULL << 40U);
  EXPECT_EQ(got.length, 4096U);
  EXPECT_EQ(got.into, 100U);
  EXPECT_EQ(got.queue_pair, 0x11U);
  EXPECT_EQ(got.token, transfer().token);
}

TEST(RdmaFilesMessage, AnswersArriveAsTheyWereSent) {
  const auto answer = read_answer(packed(Answer{9, EIO, true, 5, 1ULL << 50U, peer()}));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->id, 9U);
  EXPECT_EQ(answer->error, EIO);
  EXPECT_TRUE(answer->link_lost);
  EXPECT_EQ(answer->number, 5U);
  EXPECT_EQ(answer->bytes, 1ULL << 50U);
  EXPECT_EQ(answer->server, peer());
}

TEST(RdmaFilesMessage, WhatIsCutOrTooLongIsNone) {
  for (const Request& request :
       {Request{1, Open{0, "a"}}, Request{2, Close{1}}, Request{3, Link{peer()}}, Request{4, transfer()}}) {
    const Payload whole = packed(request);
    for (std::size_t length = 0; length < whole.size(); ++length) {
      EXPECT_FALSE(read_request(std::span(whole).first(length))) << whole.size() << ' ' << length;
    }
    Payload longer = whole;
    longer.push_back(0);
    EXPECT_FALSE(read_request(longer));
    EXPECT_LE(whole.size(), kMostPayload);
  }
  const Payload whole = packed(Answer{});
  for (std::size_t length = 0; length < whole.size(); ++length)
    EXPECT_FALSE(read_answer(std::span(whole).first(length)));
}

TEST(RdmaFilesMessage, ATransferOutsideOfItsMemoryIsNone) {
  Transfer outside = transfer();
  outside.into = 4097;
  EXPECT_FALSE(read_request(packed(Request{1, outside})));
  outside.into = UINT64_MAX;
  EXPECT_FALSE(read_request(packed(Request{1, outside})));
  outside = transfer();
  outside.offset = INT64_MAX - 4095ULL;
  EXPECT_FALSE(read_request(packed(Request{1, outside}))) << "offsets are signed";
}

TEST(RdmaFilesMessage, OddNumbersAreNone) {
  Peer odd = peer();
  odd.queue_pair = 1U << 24U;
  EXPECT_FALSE(read_request(packed(Request{1, Link{odd}})));
  odd = peer();
  odd.mtu = 6;
  EXPECT_FALSE(read_request(packed(Request{1, Link{odd}})));
  EXPECT_FALSE(read_request(packed(Request{1, Open{kOpenTruncate, "a"}}))) << "empties a file that it may not write";
  EXPECT_FALSE(read_request(packed(Request{1, Open{8, "a"}})));
  EXPECT_FALSE(read_answer(packed(Answer{.error = -1})));
  EXPECT_FALSE(read_answer(packed(Answer{.error = 4096})));
}

TEST(RdmaFilesMessage, NamesLeadThroughNoFolder) {
  for (const char* name : {"a", "model.bin", "..a", "a..", "..."}) EXPECT_TRUE(is_plain_name(name)) << name;
  for (const char* name : {"", ".", "..", "/", "a/b", "../a", "/etc/passwd"}) {
    EXPECT_FALSE(is_plain_name(name)) << name;
    EXPECT_FALSE(read_request(packed(Request{1, Open{0, name}}))) << name;
  }
  EXPECT_FALSE(is_plain_name(std::string("a\0b", 3)));
  EXPECT_TRUE(is_plain_name(std::string(255, 'a')));
  EXPECT_FALSE(is_plain_name(std::string(256, 'a')));
}

}  // namespace
}  // namespace rdma_files
