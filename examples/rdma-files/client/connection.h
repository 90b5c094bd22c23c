// SPDX-License-Identifier: Apache-2.0
// One control channel to one address of a server, the requests that are under way on it, and the links made through it.
#pragma once

#include <cerrno>
#include <condition_variable>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>

#include "client/link_group.h"
#include "net/channel.h"

namespace rdma_files {

// Whose memory a link reaches: that which this library has registered, or that of a token which came with a call.
enum class MemoryOf { client, caller };

// No queue pair is linked that reaches the memory of a token: nothing was sent, and the connection is none the worse
// for it.
struct NotLinked : std::system_error {
  NotLinked()
      : std::system_error(EREMOTEIO, std::generic_category(), "no queue pair of this memory's adapter is linked") {}
};

class Connection {
 public:
  static constexpr std::size_t kMostUnderWay = 64;  // requests
  static constexpr std::size_t kMostOfPair = 4;     // transfers

  // Throws std::system_error: no server there, another secret, no answer in time.
  Connection(const Endpoint& server, const Secret& secret, std::chrono::milliseconds time);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  const std::string& local_address() const noexcept { return local_address_; }
  bool is_alive() const;

  // Sends a request, whose answer is then waited for. Both throw std::system_error where the connection has failed, or
  // does not answer in time; such a connection is given up by its user.
  std::uint32_t begin(decltype(Request::what) what);
  Answer wait(std::uint32_t id);
  Answer ask(decltype(Request::what) what) { return wait(begin(std::move(what))); }

  // Joins all pairs of the group to the server's, and keeps it. Throws as above, or what the server or the adapter
  // says.
  void add(std::unique_ptr<LinkGroup> group, MemoryOf memory);
  // Begins a transfer on that pair of the token's adapter that has the fewest under way; throws NotLinked, too.
  std::uint32_t begin(Transfer transfer, MemoryOf memory);

  // No more requests, no more links: when it returns, no server can reach memory by them any more. All waits fail.
  void give_up() noexcept;

 private:
  struct UnderWay {
    std::optional<Answer> answer{};
    std::uint32_t pair = 0;  // 0: no transfer
  };
  struct Pair {
    MemoryOf memory = MemoryOf::client;
    Gid gid{};
    std::size_t under_way = 0;
    std::size_t most = 0;
  };

  void receive();
  std::uint32_t enter(std::uint32_t pair, std::unique_lock<std::mutex>& lock);
  [[noreturn]] static void fail(int error, const char* what);

  const SharedSocket socket_;
  const std::string local_address_;
  const std::chrono::milliseconds time_;
  const std::unique_ptr<Channel> channel_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::uint32_t next_id_ = 1;
  std::map<std::uint32_t, UnderWay> under_way_;
  std::map<std::uint32_t, Pair> pairs_;  // by number
  std::vector<std::unique_ptr<LinkGroup>> groups_;
  bool failed_ = false;
  std::thread receiver_;
};

}  // namespace rdma_files
