// SPDX-License-Identifier: Apache-2.0
// The text that cuFile hands to a file system's operations for registered memory (cufileRDMAInfo::desc_str, version 1):
// hex fields joined by colons, of a fixed width: address 16, size 8, key 8, LID 4, queue pair 6, whether a GID follows
// 1, GID 32.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rdma_files {

using Gid = std::array<std::uint8_t, 16>;

struct Token {
  std::uint64_t address = 0;  // of the memory, as the adapter knows it
  std::uint32_t size = 0;
  std::uint32_t key = 0;
  std::uint16_t lid = 0;
  std::uint32_t queue_pair = 0;  // 24 bits
  std::optional<Gid> gid;

  friend bool operator==(const Token&, const Token&) = default;
};

inline constexpr std::size_t kTokenLength = 81;

std::optional<Token> read_token(std::string_view text);
std::string text_of(const Token& token);

// Where a part of the memory lies; nothing unless all of it is inside.
std::optional<std::uint64_t> part_of(const Token& token, std::uint64_t into, std::uint64_t length) noexcept;

}  // namespace rdma_files
