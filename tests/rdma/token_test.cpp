// SPDX-License-Identifier: Apache-2.0
// The text that describes memory to a server: written and read, byte by byte, and nothing but that form is taken.
#include <gtest/gtest.h>

#include <array>
#include <cctype>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>

#include "sluice_rdma.h"

namespace {

constexpr std::string_view known = "00007f1c40000000:00100000:0000a1b2:0000:00011c:1:00000000000000000000ffff0a000001";

sluice_rdma_token_t known_token() {
  sluice_rdma_token_t token{};
  token.address = 0x7f1c40000000;
  token.size = 1 << 20;
  token.rkey = 0xa1b2;
  token.qp = 0x11c;
  token.has_gid = 1;
  token.gid[10] = token.gid[11] = 0xff;
  token.gid[12] = 10;
  token.gid[15] = 1;
  return token;
}

std::string written(const sluice_rdma_token_t& token) {
  std::array<char, SLUICE_RDMA_TOKEN_LENGTH + 1> text{};
  text.fill('~');
  return sluice_rdma_token_write(&token, text.data()) == 0 ? std::string(text.data()) : "";
}

bool same(const sluice_rdma_token_t& one, const sluice_rdma_token_t& other) {
  return one.address == other.address && one.size == other.size && one.rkey == other.rkey && one.lid == other.lid &&
         one.qp == other.qp && one.has_gid == other.has_gid && std::memcmp(one.gid, other.gid, sizeof one.gid) == 0;
}

TEST(Token, IsTheKnownText) {
  EXPECT_EQ(written(known_token()), known);
  EXPECT_EQ(known.size(), std::size_t{SLUICE_RDMA_TOKEN_LENGTH});
}

TEST(Token, IsReadBack) {
  sluice_rdma_token_t token{};
  ASSERT_EQ(sluice_rdma_token_read(known.data(), known.size(), &token), 0);
  EXPECT_TRUE(same(token, known_token()));
}

TEST(Token, DigitsOfEitherCaseAreTheSame) {
  std::string upper(known);
  for (char& digit : upper) digit = static_cast<char>(std::toupper(digit));
  sluice_rdma_token_t token{};
  ASSERT_EQ(sluice_rdma_token_read(upper.data(), upper.size(), &token), 0);
  EXPECT_TRUE(same(token, known_token()));
}

TEST(Token, TheLargestValuesFit) {
  sluice_rdma_token_t token{~std::uint64_t{0}, ~0u, ~0u, 0xffff, 0xffffff, 1, {}};
  std::memset(token.gid, 0xff, sizeof token.gid);
  const std::string text = written(token);
  ASSERT_EQ(text.size(), std::size_t{SLUICE_RDMA_TOKEN_LENGTH});
  sluice_rdma_token_t read{};
  ASSERT_EQ(sluice_rdma_token_read(text.data(), text.size(), &read), 0);
  EXPECT_TRUE(same(read, token));
}

TEST(Token, AFieldThatDoesNotFitIsNotWritten) {
  sluice_rdma_token_t token = known_token();
  token.qp = 0x1000000;
  std::array<char, SLUICE_RDMA_TOKEN_LENGTH + 1> text{};
  EXPECT_EQ(sluice_rdma_token_write(&token, text.data()), EINVAL);
  token = known_token();
  token.has_gid = 2;
  EXPECT_EQ(sluice_rdma_token_write(&token, text.data()), EINVAL);
  EXPECT_EQ(sluice_rdma_token_write(nullptr, text.data()), EINVAL);
  EXPECT_EQ(sluice_rdma_token_write(&token, nullptr), EINVAL);
  EXPECT_STREQ(text.data(), "");
}

TEST(Token, WithoutAGidItsPlaceHoldsZeros) {
  sluice_rdma_token_t token = known_token();
  token.has_gid = 0;
  token.lid = 0x1234;
  const std::string text = written(token);
  EXPECT_EQ(text.substr(35), "1234:00011c:0:" + std::string(32, '0'));
  std::string wrong = text;
  wrong.back() = '1';
  EXPECT_EQ(sluice_rdma_token_read(wrong.data(), wrong.size(), &token), EINVAL);
}

TEST(Token, ATextOfAnotherLengthIsNone) {
  const std::string longer = std::string(known) + "0";
  sluice_rdma_token_t token{};
  for (std::size_t length = 0; length <= longer.size(); ++length) {
    const int answer = sluice_rdma_token_read(longer.data(), length, &token);
    EXPECT_EQ(answer, length == known.size() ? 0 : EINVAL) << length;
  }
  EXPECT_EQ(sluice_rdma_token_read(nullptr, known.size(), &token), EINVAL);
  EXPECT_EQ(sluice_rdma_token_read(known.data(), known.size(), nullptr), EINVAL);
}

// Each place with each byte: taken where the form allows it, and then it is what stands there.
TEST(Token, EachByteAtEachPlaceIsJudged) {
  for (std::size_t place = 0; place < known.size(); ++place) {
    for (int byte = 0; byte < 256; ++byte) {
      std::string text(known);
      text[place] = static_cast<char>(byte);
      const bool is_colon = known[place] == ':';
      bool fits = is_colon ? byte == ':' : std::isxdigit(byte) != 0;
      if (place == 47) fits = byte == '1';  // with a GID behind it, 0 is a contradiction
      sluice_rdma_token_t token = known_token();
      const int answer = sluice_rdma_token_read(text.data(), text.size(), &token);
      ASSERT_EQ(answer, fits ? 0 : EINVAL) << "place " << place << ", byte " << byte;
      std::string lower = text;
      for (char& digit : lower) digit = static_cast<char>(std::tolower(static_cast<unsigned char>(digit)));
      ASSERT_EQ(written(token), fits ? lower : std::string(known)) << "place " << place << ", byte " << byte;
    }
  }
}

TEST(Token, RandomOnesComeBack) {
  std::mt19937_64 random(20261126);
  for (int round = 0; round < 20000; ++round) {
    sluice_rdma_token_t token{};
    token.address = random();
    token.size = static_cast<std::uint32_t>(random());
    token.rkey = static_cast<std::uint32_t>(random());
    token.lid = static_cast<std::uint16_t>(random());
    token.qp = static_cast<std::uint32_t>(random() & 0xffffff);
    token.has_gid = static_cast<std::uint8_t>(random() & 1);
    if (token.has_gid != 0) {
      for (auto& byte : token.gid) byte = static_cast<std::uint8_t>(random());
    }
    const std::string text = written(token);
    sluice_rdma_token_t read{};
    ASSERT_EQ(sluice_rdma_token_read(text.data(), text.size(), &read), 0) << text;
    ASSERT_TRUE(same(read, token)) << text;
  }
}

}  // namespace
