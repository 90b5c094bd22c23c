// SPDX-License-Identifier: Apache-2.0
#include "wire/sha256.h"

#include <algorithm>
#include <bit>

namespace rdma_files {

namespace {

constexpr std::array<std::uint32_t, 64> round{
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

}  // namespace

void Sha256::take_block(const std::uint8_t* block) noexcept {
  std::array<std::uint32_t, 64> w{};
  for (std::size_t i = 0; i < 16; ++i) {
    w[i] = std::uint32_t{block[4 * i]} << 24U | std::uint32_t{block[4 * i + 1]} << 16U |
           std::uint32_t{block[4 * i + 2]} << 8U | block[4 * i + 3];
  }
  for (std::size_t i = 16; i < 64; ++i) {
    const std::uint32_t early = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ w[i - 15] >> 3U;
    const std::uint32_t late = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ w[i - 2] >> 10U;
    w[i] = w[i - 16] + early + w[i - 7] + late;
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (std::size_t i = 0; i < 64; ++i) {
    const std::uint32_t choice = (e & f) ^ (~e & g);
    const std::uint32_t most = (a & b) ^ (a & c) ^ (b & c);
    const std::uint32_t one = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + choice + round[i] + w[i];
    const std::uint32_t two = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + most;
    h = g;
    g = f;
    f = e;
    e = d + one;
    d = c;
    c = b;
    b = a;
    a = one + two;
  }
  const std::array<std::uint32_t, 8> mixed{a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < 8; ++i) state_[i] += mixed[i];
}

void Sha256::add(Bytes bytes) noexcept {
  length_ += bytes.size();
  for (const std::uint8_t byte : bytes) {
    block_[filled_++] = byte;
    if (filled_ == block_.size()) {
      take_block(block_.data());
      filled_ = 0;
    }
  }
}

Digest Sha256::digest() noexcept {
  const std::uint64_t bits = length_ * 8;
  static constexpr std::array<std::uint8_t, 64> padding{0x80};
  add(Bytes(padding).first(1 + (119 - filled_) % 64));
  std::array<std::uint8_t, 8> end{};
  for (std::size_t i = 0; i < 8; ++i) end[i] = static_cast<std::uint8_t>(bits >> (56 - 8 * i));
  add(end);
  Digest result{};
  for (std::size_t i = 0; i < 32; ++i) result[i] = static_cast<std::uint8_t>(state_[i / 4] >> (24 - 8 * (i % 4)));
  return result;
}

Hmac::Hmac(Bytes key) noexcept {
  if (key.size() > key_.size()) {
    Sha256 shorter;
    shorter.add(key);
    std::ranges::copy(shorter.digest(), key_.begin());
  } else {
    std::ranges::copy(key, key_.begin());
  }
  std::array<std::uint8_t, 64> padded{};
  std::ranges::transform(key_, padded.begin(),
                         [](std::uint8_t byte) { return static_cast<std::uint8_t>(byte ^ 0x36U); });
  inner_.add(padded);
}

Hmac& Hmac::add(Bytes bytes) noexcept {
  inner_.add(bytes);
  return *this;
}

Digest Hmac::digest() noexcept {
  std::array<std::uint8_t, 64> padded{};
  std::ranges::transform(key_, padded.begin(),
                         [](std::uint8_t byte) { return static_cast<std::uint8_t>(byte ^ 0x5cU); });
  Sha256 outer;
  outer.add(padded);
  outer.add(inner_.digest());
  return outer.digest();
}

bool same(Bytes one, Bytes other) noexcept {
  if (one.size() != other.size()) return false;
  std::uint8_t difference = 0;
  for (std::size_t i = 0; i < one.size(); ++i) difference = static_cast<std::uint8_t>(difference | (one[i] ^ other[i]));
  return difference == 0;
}

}  // namespace rdma_files
