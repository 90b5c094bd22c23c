// SPDX-License-Identifier: Apache-2.0
#include "wire/frames.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace rdma_files {
namespace {

const std::vector<std::uint8_t> secret(32, 7);

Hello hello(std::uint8_t value) {
  std::array<std::uint8_t, 32> random{};
  random.fill(value);
  return hello_of(random);
}

// What came behind the head of a frame.
Bytes rest_of(const Payload& frame) {
  return Bytes(frame).subspan(kFrameHead);
}

struct Pair {
  FrameKey sender{secret, Role::client, hello(1), hello(2)};
  FrameKey receiver{secret, Role::client, hello(1), hello(2)};
};

TEST(RdmaFilesFrames, ComeOutAsTheyWentIn) {
  Pair keys;
  for (const std::size_t length : {std::size_t{1}, std::size_t{100}, kMostPayload}) {
    const Payload payload(length, 3);
    const Payload frame = keys.sender.seal(payload);
    const auto rest = FrameKey::rest_length(std::span(frame).first<kFrameHead>());
    ASSERT_EQ(rest, frame.size() - kFrameHead);
    const auto got = keys.receiver.open(rest_of(frame));
    ASSERT_TRUE(got);
    EXPECT_TRUE(std::ranges::equal(*got, payload));
  }
}

TEST(RdmaFilesFrames, AChangedByteIsNoticed) {
  Pair keys;
  const Payload frame = keys.sender.seal(Payload(20, 3));
  for (std::size_t i = kFrameHead; i < frame.size(); ++i) {
    Payload changed = frame;
    changed[i] ^= 1U;
    FrameKey receiver = keys.receiver;
    EXPECT_FALSE(receiver.open(rest_of(changed))) << i;
  }
}

TEST(RdmaFilesFrames, TwiceOrOutOfOrderIsNoticed) {
  Pair keys;
  const Payload first = keys.sender.seal(Payload(20, 3));
  const Payload second = keys.sender.seal(Payload(20, 4));
  FrameKey early = keys.receiver;
  EXPECT_FALSE(early.open(rest_of(second)));
  EXPECT_TRUE(keys.receiver.open(rest_of(first)));
  EXPECT_FALSE(keys.receiver.open(rest_of(first)));
}

TEST(RdmaFilesFrames, KeysDifferByDirectionConnectionAndSecret) {
  const Payload frame = FrameKey(secret, Role::client, hello(1), hello(2)).seal(Payload(20, 3));
  EXPECT_TRUE(FrameKey(secret, Role::client, hello(1), hello(2)).open(rest_of(frame)));
  EXPECT_FALSE(FrameKey(secret, Role::server, hello(1), hello(2)).open(rest_of(frame)));
  EXPECT_FALSE(FrameKey(secret, Role::client, hello(1), hello(3)).open(rest_of(frame)));
  EXPECT_FALSE(FrameKey(secret, Role::client, hello(2), hello(1)).open(rest_of(frame)));
  EXPECT_FALSE(FrameKey(std::vector<std::uint8_t>(32, 8), Role::client, hello(1), hello(2)).open(rest_of(frame)));
}

TEST(RdmaFilesFrames, ProofsAreOfOneRoleAndOneConnection) {
  const Digest client = proof(secret, Role::client, hello(1), hello(2));
  EXPECT_NE(client, proof(secret, Role::server, hello(1), hello(2)));
  EXPECT_NE(client, proof(secret, Role::client, hello(1), hello(3)));
  EXPECT_EQ(client, proof(secret, Role::client, hello(1), hello(2)));
}

TEST(RdmaFilesFrames, LengthsAreBounded) {
  const auto length = [](std::uint32_t value) {
    std::array<std::uint8_t, kFrameHead> head{};
    for (std::size_t i = 0; i < kFrameHead; ++i) head[i] = static_cast<std::uint8_t>(value >> (8 * i));
    return FrameKey::rest_length(head);
  };
  EXPECT_FALSE(length(0));
  EXPECT_TRUE(length(1));
  EXPECT_TRUE(length(kMostPayload));
  EXPECT_FALSE(length(kMostPayload + 1));
  EXPECT_FALSE(length(0xffffffff));
}

TEST(RdmaFilesFrames, AHelloOfAnotherVersionIsNone) {
  Hello other = hello(1);
  EXPECT_TRUE(is_hello(other));
  ++other[4];
  EXPECT_FALSE(is_hello(other));
}

}  // namespace
}  // namespace rdma_files
