// SPDX-License-Identifier: Apache-2.0
// Against the examples of FIPS 180-4 and RFC 4231.
#include "wire/sha256.h"

#include <gtest/gtest.h>

#include <string>

namespace rdma_files {
namespace {

Bytes bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

std::string hex(const Digest& digest) {
  std::string text;
  for (const std::uint8_t byte : digest) {
    text += "0123456789abcdef"[byte >> 4U];
    text += "0123456789abcdef"[byte & 15U];
  }
  return text;
}

std::string sha256(const std::string& text) {
  Sha256 hash;
  hash.add(bytes_of(text));
  return hex(hash.digest());
}

std::string hmac(const std::string& key, const std::string& text) {
  return hex(Hmac(bytes_of(key)).add(bytes_of(text)).digest());
}

TEST(RdmaFilesSha256, KnownMessages) {
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256(std::string(1'000'000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(RdmaFilesSha256, PiecesMakeTheSameAsTheWhole) {
  const std::string text(300, 'x');
  for (std::size_t cut = 0; cut <= text.size(); cut += 7) {
    Sha256 hash;
    hash.add(bytes_of(text.substr(0, cut)));
    hash.add(bytes_of(text.substr(cut)));
    EXPECT_EQ(hex(hash.digest()), sha256(text)) << cut;
  }
}

TEST(RdmaFilesHmac, KnownMessages) {
  EXPECT_EQ(hmac(std::string(20, '\x0b'), "Hi There"),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hmac("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hmac(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First"),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(RdmaFilesSha256, SameTellsTheLastByteApart) {
  EXPECT_TRUE(same(bytes_of("abc"), bytes_of("abc")));
  EXPECT_FALSE(same(bytes_of("abc"), bytes_of("abd")));
  EXPECT_FALSE(same(bytes_of("abc"), bytes_of("ab")));
  EXPECT_TRUE(same({}, {}));
}

}  // namespace
}  // namespace rdma_files
