// SPDX-License-Identifier: Apache-2.0
// How the two ends of a control channel know each other, and how each message is known to be theirs.
//
//   server -> client   Hello: magic, version, a random number
//   client -> server   Hello of its own, and its proof
//   server -> client   its proof
//
// A proof is HMAC-SHA256, by the shared secret, over a word for the role and both Hellos: neither a proof of another
// connection nor one of the other end will do. Each direction then has a key made in the same way. A frame is the
// payload's length, the payload and 16 bytes of the HMAC over the frame's number, length and payload: what is changed,
// left out or sent twice is noticed. The secret is not sent, the messages are not hidden, and the data that adapters
// move is neither.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "wire/message.h"
#include "wire/sha256.h"

namespace rdma_files {

inline constexpr std::size_t kHelloLength = 37;
inline constexpr std::size_t kTagLength = 16;
inline constexpr std::size_t kFrameHead = 4;

using Hello = std::array<std::uint8_t, kHelloLength>;

Hello hello_of(std::span<const std::uint8_t, 32> random) noexcept;
bool is_hello(Bytes bytes) noexcept;

enum class Role : std::uint8_t { server, client };

Digest proof(Bytes secret, Role role, const Hello& server, const Hello& client) noexcept;

// One direction of a channel. Both ends have one for each, which count alike.
class FrameKey {
 public:
  FrameKey(Bytes secret, Role sender, const Hello& server, const Hello& client) noexcept;

  // The whole frame.
  Payload seal(Bytes payload);
  // How many bytes come behind this head; nothing where it is no head of a frame.
  static std::optional<std::size_t> rest_length(std::span<const std::uint8_t, kFrameHead> head) noexcept;
  // The payload in what came behind a head; nothing where it is not the other end's next frame.
  std::optional<Bytes> open(Bytes rest) noexcept;

 private:
  std::array<std::uint8_t, kTagLength> tag(Bytes payload) noexcept;

  Digest key_;
  std::uint64_t number_ = 0;
};

}  // namespace rdma_files
