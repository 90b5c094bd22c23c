// SPDX-License-Identifier: Apache-2.0
// SHA-256 (FIPS 180-4) and HMAC-SHA256 (RFC 2104). Written out here, so that the example needs libibverbs and nothing
// else: a handful of short messages a transfer is hashed, never the data, so the speed of a library would not be felt.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace rdma_files {

using Bytes = std::span<const std::uint8_t>;
using Digest = std::array<std::uint8_t, 32>;

class Sha256 {
 public:
  void add(Bytes bytes) noexcept;
  Digest digest() noexcept;  // ends it

 private:
  void take_block(const std::uint8_t* block) noexcept;

  std::array<std::uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::uint8_t, 64> block_{};
  std::size_t filled_ = 0;
  std::uint64_t length_ = 0;
};

// Of a message that comes in parts.
class Hmac {
 public:
  explicit Hmac(Bytes key) noexcept;
  Hmac& add(Bytes bytes) noexcept;
  Digest digest() noexcept;

 private:
  std::array<std::uint8_t, 64> key_{};
  Sha256 inner_;
};

// Takes the same time wherever the two differ, so that the time tells nothing of a secret.
bool same(Bytes one, Bytes other) noexcept;

}  // namespace rdma_files
