// SPDX-License-Identifier: Apache-2.0
// What client and server say to each other on the control channel. Numbers are little-endian. A message is read whole
// or not at all: each has one length, nothing may be left over, and no number is believed before its range was looked
// at.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "wire/token.h"

namespace rdma_files {

inline constexpr std::size_t kMostPayload = 512;  // bytes of one message
inline constexpr std::size_t kLongestName = 255;

// One end of a reliable connection (RC), before the two are joined.
struct Peer {
  Gid gid{};
  std::uint16_t lid = 0;
  std::uint32_t queue_pair = 0;  // 24 bits, as its first packet's number
  std::uint32_t first_packet = 0;
  std::uint8_t mtu = 0;  // as verbs number them: 1 is 256 bytes, 5 is 4096

  friend bool operator==(const Peer&, const Peer&) = default;
};

enum class Direction : std::uint8_t { read, write };

enum OpenFlags : std::uint8_t { kOpenWrite = 1, kOpenCreate = 2, kOpenTruncate = 4 };

struct Open {
  std::uint8_t flags = 0;
  std::string name;
};
struct Close {
  std::uint32_t file = 0;
};
// Joins a queue pair of the server's to this one of the client's.
struct Link {
  Peer client;
};
struct Transfer {
  Direction direction = Direction::read;
  std::uint32_t file = 0;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  std::uint64_t into = 0;        // where in the token's memory
  std::uint32_t queue_pair = 0;  // of the client's, linked before; that of the token only tells which link it came with
  Token token;
};

struct Request {
  std::uint32_t id = 0;
  std::variant<Open, Close, Link, Transfer> what;
};

// One for each request, in whatever order they come to their ends.
struct Answer {
  std::uint32_t id = 0;
  std::int32_t error = 0;    // an errno; 0: it went well
  bool link_lost = false;    // the queue pair has to be linked again before its next transfer
  std::uint32_t number = 0;  // of the file that was opened; transfers that a link may have waiting
  std::uint64_t bytes = 0;   // moved; or the size of the file that was opened
  Peer server{};             // of the link
};

using Payload = std::vector<std::uint8_t>;

Payload packed(const Request& request);
Payload packed(const Answer& answer);
std::optional<Request> read_request(std::span<const std::uint8_t> payload);
std::optional<Answer> read_answer(std::span<const std::uint8_t> payload);

// A name of one file, not a way through folders: not empty, no slash, no zero byte, neither "." nor "..".
bool is_plain_name(const std::string& name) noexcept;

}  // namespace rdma_files
