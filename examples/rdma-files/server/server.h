// SPDX-License-Identifier: Apache-2.0
// Takes clients on one or more addresses, until it is told to end.
#pragma once

#include <list>
#include <vector>

#include "server/session.h"

namespace rdma_files {

struct ServerSettings {
  std::string folder;
  std::vector<Endpoint> listen;
  Secret secret;
  std::chrono::milliseconds time{30'000};
};

class Server {
 public:
  static constexpr std::size_t kMostSessions = 64;

  explicit Server(ServerSettings settings);

  // Returns when `end`, a descriptor, becomes readable.
  void run(int end);
  const Counts& counts() const noexcept { return counts_; }
  const std::vector<Listener>& listeners() const noexcept { return listeners_; }

 private:
  const ServerSettings settings_;
  const Folder folder_;
  Counts counts_;
  std::vector<Listener> listeners_;
  std::list<Session> sessions_;
};

}  // namespace rdma_files
