// SPDX-License-Identifier: Apache-2.0
// The text that describes memory to a server. No allocation: one is written for each operation of a file system's.
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "sluice_rdma.h"

namespace {

constexpr std::array<unsigned, 6> digits = {16, 8, 8, 4, 6, 1};
constexpr unsigned gid_digits = 32;

char* put(char* text, std::uint64_t value, unsigned count) noexcept {
  for (unsigned place = count; place > 0; --place) *text++ = "0123456789abcdef"[(value >> (4 * (place - 1))) & 15];
  return text;
}

int value_of(char digit) noexcept {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  return digit >= 'A' && digit <= 'F' ? digit - 'A' + 10 : -1;
}

bool take(const char*& text, unsigned count, std::uint64_t& value) noexcept {
  value = 0;
  for (unsigned place = 0; place < count; ++place) {
    const int digit = value_of(*text++);
    if (digit < 0) return false;
    value = value << 4 | static_cast<unsigned>(digit);
  }
  return true;
}

}  // namespace

extern "C" int sluice_rdma_token_write(const sluice_rdma_token_t* token, char* text) {
  if (token == nullptr || text == nullptr || token->qp > 0xffffff || token->has_gid > 1) return EINVAL;
  const std::array<std::uint64_t, 6> fields = {token->address, token->size, token->rkey,
                                               token->lid,     token->qp,   token->has_gid};
  for (std::size_t field = 0; field < fields.size(); ++field) {
    text = put(text, fields[field], digits[field]);
    *text++ = ':';
  }
  for (const std::uint8_t byte : token->gid) text = put(text, token->has_gid != 0 ? byte : 0, 2);
  *text = '\0';
  return 0;
}

extern "C" int sluice_rdma_token_read(const char* text, size_t length, sluice_rdma_token_t* token) {
  if (text == nullptr || token == nullptr || length != SLUICE_RDMA_TOKEN_LENGTH) return EINVAL;
  std::array<std::uint64_t, 6> fields{};
  for (std::size_t field = 0; field < fields.size(); ++field) {
    if (!take(text, digits[field], fields[field]) || *text++ != ':') return EINVAL;
  }
  sluice_rdma_token_t read{};
  for (std::uint8_t& byte : read.gid) {
    std::uint64_t value = 0;
    if (!take(text, 2, value)) return EINVAL;
    byte = static_cast<std::uint8_t>(value);
    if (fields[5] == 0 && byte != 0) return EINVAL;
  }
  if (fields[5] > 1) return EINVAL;
  read.address = fields[0];
  read.size = static_cast<std::uint32_t>(fields[1]);
  read.rkey = static_cast<std::uint32_t>(fields[2]);
  read.lid = static_cast<std::uint16_t>(fields[3]);
  read.qp = static_cast<std::uint32_t>(fields[4]);
  read.has_gid = static_cast<std::uint8_t>(fields[5]);
  *token = read;
  return 0;
}

static_assert(16 + 8 + 8 + 4 + 6 + 1 + gid_digits + 6 == SLUICE_RDMA_TOKEN_LENGTH);
