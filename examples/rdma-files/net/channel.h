// SPDX-License-Identifier: Apache-2.0
// A control channel: a socket whose two ends have shown that they know the secret. One thread sends at a time, one
// receives.
#pragma once

#include <memory>
#include <mutex>

#include "net/socket.h"
#include "wire/frames.h"

namespace rdma_files {

using SharedSocket = std::shared_ptr<const Socket>;  // others may shut it down
using Secret = std::vector<std::uint8_t>;

// The contents of a file that only its owner can read, of 16 bytes at least. Throws std::runtime_error.
Secret secret_from(const std::string& path);

class Channel {
 public:
  // Each takes part in the exchange in the role named, within this time. Throws std::system_error; EACCES: the other
  // end does not know the secret.
  static std::unique_ptr<Channel> as_server(SharedSocket socket, const Secret& secret, std::chrono::milliseconds time);
  static std::unique_ptr<Channel> as_client(SharedSocket socket, const Secret& secret, std::chrono::milliseconds time);

  // A message has this long to go out, or to come in once it has begun.
  void send(const Payload& payload);
  Payload receive();

 private:
  struct Keys {
    FrameKey sending;
    FrameKey receiving;
  };
  Channel(SharedSocket socket, Keys keys, std::chrono::milliseconds time)
      : socket_(std::move(socket)), keys_(keys), time_(time) {}

  const SharedSocket socket_;
  Keys keys_;
  const std::chrono::milliseconds time_;
  std::mutex sending_;
};

}  // namespace rdma_files
