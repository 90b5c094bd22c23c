// SPDX-License-Identifier: Apache-2.0
#include "wire/frames.h"

#include <algorithm>
#include <string_view>

namespace rdma_files {

namespace {

constexpr std::array<std::uint8_t, 5> magic{'R', 'D', 'M', 'F', 1};  // the last is the version

Bytes bytes_of(std::string_view text) noexcept {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

Digest derive(Bytes secret, std::string_view purpose, const Hello& server, const Hello& client) noexcept {
  return Hmac(secret).add(bytes_of(purpose)).add(server).add(client).digest();
}

}  // namespace

Hello hello_of(std::span<const std::uint8_t, 32> random) noexcept {
  Hello hello{};
  std::ranges::copy(random, std::ranges::copy(magic, hello.begin()).out);
  return hello;
}

bool is_hello(Bytes bytes) noexcept {
  return bytes.size() == kHelloLength && std::ranges::equal(bytes.first(magic.size()), magic);
}

// Purposes have one length, so that no other split of the same bytes means the same.
Digest proof(Bytes secret, Role role, const Hello& server, const Hello& client) noexcept {
  return derive(secret, role == Role::server ? "proof server" : "proof client", server, client);
}

FrameKey::FrameKey(Bytes secret, Role sender, const Hello& server, const Hello& client) noexcept
    : key_(derive(secret, sender == Role::server ? "frame server" : "frame client", server, client)) {}

std::array<std::uint8_t, kTagLength> FrameKey::tag(Bytes payload) noexcept {
  std::array<std::uint8_t, 16> head{};
  for (std::size_t i = 0; i < 8; ++i) {
    head[i] = static_cast<std::uint8_t>(number_ >> (8 * i));
    head[8 + i] = static_cast<std::uint8_t>(std::uint64_t{payload.size()} >> (8 * i));
  }
  ++number_;
  const Digest whole = Hmac(key_).add(head).add(payload).digest();
  std::array<std::uint8_t, kTagLength> short_one{};
  std::copy_n(whole.begin(), kTagLength, short_one.begin());
  return short_one;
}

Payload FrameKey::seal(Bytes payload) {
  Payload frame(kFrameHead);
  for (std::size_t i = 0; i < kFrameHead; ++i) frame[i] = static_cast<std::uint8_t>(payload.size() >> (8 * i));
  frame.insert(frame.end(), payload.begin(), payload.end());
  const auto end = tag(payload);
  frame.insert(frame.end(), end.begin(), end.end());
  return frame;
}

std::optional<std::size_t> FrameKey::rest_length(std::span<const std::uint8_t, kFrameHead> head) noexcept {
  std::size_t length = 0;
  for (std::size_t i = 0; i < kFrameHead; ++i) length |= std::size_t{head[i]} << (8 * i);
  if (length == 0 || length > kMostPayload) return std::nullopt;
  return length + kTagLength;
}

std::optional<Bytes> FrameKey::open(Bytes rest) noexcept {
  if (rest.size() <= kTagLength) return std::nullopt;
  const Bytes payload = rest.first(rest.size() - kTagLength);
  if (!same(tag(payload), rest.last(kTagLength))) return std::nullopt;
  return payload;
}

}  // namespace rdma_files
