// SPDX-License-Identifier: Apache-2.0
#include "server/server.h"

#include <poll.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

namespace rdma_files {

Server::Server(ServerSettings settings) : settings_(std::move(settings)), folder_(settings_.folder) {
  for (const Endpoint& endpoint : settings_.listen) listeners_.emplace_back(endpoint);
}

void Server::run(int end) {
  std::vector<pollfd> watched{{end, POLLIN, 0}};
  for (const Listener& listener : listeners_) watched.push_back({listener.fd(), POLLIN, 0});
  for (;;) {
    if (::poll(watched.data(), watched.size(), -1) < 0 && errno != EINTR) {
      throw std::system_error(errno, std::generic_category(), "poll");
    }
    if (watched.front().revents != 0) break;
    for (std::size_t i = 0; i < listeners_.size(); ++i) {
      if (watched[i + 1].revents == 0) continue;
      sessions_.remove_if([](const Session& session) { return session.has_ended(); });
      try {
        Socket client = listeners_[i].accepted();
        // One too many is closed at once: its client goes to another address, or comes again.
        if (sessions_.size() >= kMostSessions) continue;
        sessions_.emplace_back(std::move(client), folder_, settings_.secret, settings_.time, counts_);
      } catch (const std::system_error& error) {
        std::fprintf(stderr, "rdma-files-server: a client was not taken: %s\n", error.what());
      }
    }
  }
  sessions_.clear();
}

}  // namespace rdma_files
