// SPDX-License-Identifier: Apache-2.0
#include "client/connection.h"

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace rdma_files {

Connection::Connection(const Endpoint& server, const Secret& secret, std::chrono::milliseconds time)
    : socket_(std::make_shared<const Socket>(Socket::connected_to(server, time))),
      local_address_(socket_->local_address()),
      time_(time),
      channel_(Channel::as_client(socket_, secret, time)) {
  receiver_ = std::thread([this] { receive(); });
}

Connection::~Connection() {
  give_up();
  receiver_.join();
}

void Connection::fail(int error, const char* what) {
  throw std::system_error(error, std::generic_category(), what);
}

bool Connection::is_alive() const {
  const std::scoped_lock lock(mutex_);
  return !failed_;
}

// An answer that no call waits for is of a server that has lost count: the connection is given up.
void Connection::receive() {
  try {
    for (;;) {
      const std::optional<Answer> answer = read_answer(channel_->receive());
      const std::scoped_lock lock(mutex_);
      const auto found = answer ? under_way_.find(answer->id) : under_way_.end();
      if (found == under_way_.end() || found->second.answer) break;
      found->second.answer = answer;
      changed_.notify_all();
    }
  } catch (const std::exception&) {
    // Whatever it was: those that wait are told below.
  }
  give_up();
}

std::uint32_t Connection::enter(std::uint32_t pair, std::unique_lock<std::mutex>& lock) {
  const bool in_time = changed_.wait_for(lock, time_, [this, pair] {
    return failed_ ||
           (under_way_.size() < kMostUnderWay && (pair == 0 || pairs_.at(pair).under_way < pairs_.at(pair).most));
  });
  if (failed_) fail(ECONNRESET, "the connection to the server is lost");
  if (!in_time) fail(ETIMEDOUT, "the server takes no more requests");
  if (pair != 0) ++pairs_.at(pair).under_way;
  under_way_[next_id_] = {.pair = pair};
  return next_id_++;
}

std::uint32_t Connection::begin(decltype(Request::what) what) {
  std::unique_lock lock(mutex_);
  const std::uint32_t id = enter(0, lock);
  lock.unlock();
  channel_->send(packed(Request{id, std::move(what)}));
  return id;
}

Answer Connection::wait(std::uint32_t id) {
  std::unique_lock lock(mutex_);
  const auto found = under_way_.find(id);
  const bool in_time = changed_.wait_for(lock, time_, [&] { return failed_ || found->second.answer; });
  const UnderWay ended = found->second;
  // Until the connection is given up, a late answer belongs here.
  if (!ended.answer && !failed_) fail(in_time ? EPROTO : ETIMEDOUT, "the server does not answer in time");
  under_way_.erase(found);
  if (ended.pair != 0) --pairs_.at(ended.pair).under_way;
  changed_.notify_all();
  if (!ended.answer) fail(ECONNRESET, "the connection to the server is lost");
  return *ended.answer;
}

void Connection::add(std::unique_ptr<LinkGroup> group, MemoryOf memory) {
  const std::vector<Peer> own = group->own();
  std::vector<Peer> servers;
  std::size_t most = 0;
  for (const Peer& peer : own) {
    const Answer answer = ask(Link{peer});
    if (answer.error != 0) fail(answer.error, "the server does not link");
    servers.push_back(answer.server);
    most = std::clamp<std::size_t>(answer.number, 1, kMostOfPair);
  }
  group->connect(servers);
  const std::scoped_lock lock(mutex_);
  if (failed_) fail(ECONNRESET, "the connection to the server is lost");
  for (const Peer& peer : own) pairs_[peer.queue_pair] = {.memory = memory, .gid = peer.gid, .most = most};
  groups_.push_back(std::move(group));
}

std::uint32_t Connection::begin(Transfer transfer, MemoryOf memory) {
  std::unique_lock lock(mutex_);
  // A key is good for pairs of its own protection domain only.
  const auto fits = [&](const Pair& pair) {
    return pair.memory == memory && pair.gid == transfer.token.gid.value_or(Gid{});
  };
  const auto best = std::ranges::min_element(
      pairs_, {}, [&fits](const auto& entry) { return fits(entry.second) ? entry.second.under_way : SIZE_MAX; });
  if (best == pairs_.end() || !fits(best->second)) throw NotLinked();
  transfer.queue_pair = best->first;
  const std::uint32_t id = enter(best->first, lock);
  lock.unlock();
  channel_->send(packed(Request{id, transfer}));
  return id;
}

void Connection::give_up() noexcept {
  socket_->shut_down();
  std::vector<std::unique_ptr<LinkGroup>> gone;
  const std::scoped_lock lock(mutex_);
  failed_ = true;
  groups_.swap(gone);
  gone.clear();
  changed_.notify_all();
}

}  // namespace rdma_files
