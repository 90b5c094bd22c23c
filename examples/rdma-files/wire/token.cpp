// SPDX-License-Identifier: Apache-2.0
#include "wire/token.h"

namespace rdma_files {

namespace {

std::optional<std::uint64_t> digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return std::nullopt;
}

// Takes one field off the front, and the colon behind it unless it is the last.
std::optional<std::uint64_t> take(std::string_view& text, std::size_t width, bool last = false) {
  if (text.size() < width + (last ? 0 : 1)) return std::nullopt;
  std::uint64_t value = 0;
  for (const char c : text.substr(0, width)) {
    const std::optional<std::uint64_t> four = digit(c);
    if (!four) return std::nullopt;
    value = value << 4U | *four;
  }
  text.remove_prefix(width);
  if (last) return value;
  if (text.front() != ':') return std::nullopt;
  text.remove_prefix(1);
  return value;
}

void put(std::string& text, std::uint64_t value, std::size_t width) {
  for (std::size_t i = width; i-- > 0;) text += "0123456789abcdef"[value >> (4 * i) & 15U];
}

}  // namespace

std::optional<Token> read_token(std::string_view text) {
  if (text.size() != kTokenLength) return std::nullopt;
  const auto address = take(text, 16);
  const auto size = address ? take(text, 8) : std::nullopt;
  const auto key = size ? take(text, 8) : std::nullopt;
  const auto lid = key ? take(text, 4) : std::nullopt;
  const auto queue_pair = lid ? take(text, 6) : std::nullopt;
  const auto has_gid = queue_pair ? take(text, 1) : std::nullopt;
  if (!has_gid || *has_gid > 1) return std::nullopt;
  Gid gid{};
  for (std::uint8_t& byte : gid) {
    const auto two = take(text, 2, true);
    if (!two) return std::nullopt;
    byte = static_cast<std::uint8_t>(*two);
  }
  // Memory does not wrap around.
  if (*address + *size < *address) return std::nullopt;
  return Token{.address = *address,
               .size = static_cast<std::uint32_t>(*size),
               .key = static_cast<std::uint32_t>(*key),
               .lid = static_cast<std::uint16_t>(*lid),
               .queue_pair = static_cast<std::uint32_t>(*queue_pair),
               .gid = *has_gid == 1 ? std::optional<Gid>(gid) : std::nullopt};
}

std::string text_of(const Token& token) {
  std::string text;
  text.reserve(kTokenLength);
  const auto field = [&text](std::uint64_t value, std::size_t width) {
    put(text, value, width);
    text += ':';
  };
  field(token.address, 16);
  field(token.size, 8);
  field(token.key, 8);
  field(token.lid, 4);
  field(token.queue_pair & 0xffffffU, 6);
  field(token.gid ? 1 : 0, 1);
  for (const std::uint8_t byte : token.gid.value_or(Gid{})) put(text, byte, 2);
  return text;
}

std::optional<std::uint64_t> part_of(const Token& token, std::uint64_t into, std::uint64_t length) noexcept {
  if (into > token.size || length > token.size - into) return std::nullopt;
  return token.address + into;
}

}  // namespace rdma_files
