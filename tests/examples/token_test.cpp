// SPDX-License-Identifier: Apache-2.0
#include "wire/token.h"

#include <gtest/gtest.h>

namespace rdma_files {
namespace {

constexpr const char* kText = "00007f0012345000:00100000:0000a1b2:0003:0000c4:1:00000000000000000000ffff0a000001";

Token token() {
  Token token{.address = 0x7f0012345000, .size = 0x100000, .key = 0xa1b2, .lid = 3, .queue_pair = 0xc4, .gid = Gid{}};
  (*token.gid)[10] = (*token.gid)[11] = 0xff;
  (*token.gid)[12] = 10;
  (*token.gid)[15] = 1;
  return token;
}

TEST(RdmaFilesToken, IsWrittenAsItIsRead) {
  EXPECT_EQ(text_of(token()), kText);
  ASSERT_TRUE(read_token(kText).has_value());
  EXPECT_EQ(*read_token(kText), token());
}

TEST(RdmaFilesToken, WithoutAGid) {
  Token plain = token();
  plain.gid.reset();
  EXPECT_EQ(text_of(plain).substr(47), "0:00000000000000000000000000000000");
  EXPECT_EQ(read_token(text_of(plain)), plain);
}

TEST(RdmaFilesToken, TakesDigitsOfEitherCase) {
  std::string text = kText;
  text.replace(26, 8, "0000A1B2");
  EXPECT_EQ(read_token(text), token());
}

TEST(RdmaFilesToken, AnotherFormIsNone) {
  const std::string good = kText;
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string text = good;
    text[i] = good[i] == ':' ? '0' : 'g';
    EXPECT_FALSE(read_token(text)) << text;
    EXPECT_FALSE(read_token(good.substr(0, i))) << i;
  }
  EXPECT_FALSE(read_token(good + "0"));
  std::string text = good;
  text[47] = '2';
  EXPECT_FALSE(read_token(text)) << "a GID is there or not";
}

TEST(RdmaFilesToken, MemoryDoesNotWrapAround) {
  Token last = token();
  last.address = UINT64_MAX - 10;
  last.size = 10;
  EXPECT_TRUE(read_token(text_of(last)));
  last.size = 11;
  EXPECT_FALSE(read_token(text_of(last)));
}

TEST(RdmaFilesToken, PartsLieInside) {
  const Token whole = token();
  EXPECT_EQ(part_of(whole, 0, whole.size), whole.address);
  EXPECT_EQ(part_of(whole, whole.size, 0), whole.address + whole.size);
  EXPECT_EQ(part_of(whole, 5, whole.size - 5), whole.address + 5);
  EXPECT_FALSE(part_of(whole, 5, whole.size - 4));
  EXPECT_FALSE(part_of(whole, whole.size + 1, 0));
  EXPECT_FALSE(part_of(whole, 1, UINT64_MAX));
  EXPECT_FALSE(part_of(whole, UINT64_MAX, 1));
}

}  // namespace
}  // namespace rdma_files
