// SPDX-License-Identifier: Apache-2.0
// One client: what it has opened, its links, and the thread that reads its requests. Everything it can have is bounded.
#pragma once

#include <atomic>
#include <map>
#include <thread>

#include "net/channel.h"
#include "server/mover.h"

namespace rdma_files {

class Session {
 public:
  static constexpr std::size_t kMostFiles = 256;
  static constexpr std::size_t kMostLinks = 16;

  // `socket`: not yet known to be a client that knows the secret; this is found out by the session's own thread.
  Session(Socket socket, const Folder& folder, const Secret& secret, std::chrono::milliseconds time, Counts& counts);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  bool has_ended() const noexcept { return ended_; }

 private:
  void run(const Secret& secret);
  void serve(const Request& request);
  void serve(std::uint32_t id, const Open& open);
  void serve(std::uint32_t id, const Close& close);
  void serve(std::uint32_t id, const Link& link);
  void serve(std::uint32_t id, const Transfer& transfer);
  void answer(const Answer& answer) noexcept;

  const Folder& folder_;
  const std::chrono::milliseconds time_;
  Counts& counts_;
  const SharedSocket socket_;
  const std::string address_;  // of this machine, as the client has reached it
  std::unique_ptr<Channel> channel_;
  std::shared_ptr<Device> device_;  // null before the first link
  std::map<std::uint32_t, std::shared_ptr<const ServedFile>> files_;
  std::uint32_t next_file_ = 1;
  std::map<std::uint32_t, std::unique_ptr<Mover>> links_;  // by the client's queue pair
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

}  // namespace rdma_files
