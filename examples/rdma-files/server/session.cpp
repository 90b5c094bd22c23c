// SPDX-License-Identifier: Apache-2.0
#include "server/session.h"

#include <cerrno>
#include <cstdio>
#include <exception>
#include <system_error>

namespace rdma_files {

Session::Session(Socket socket, const Folder& folder, const Secret& secret, std::chrono::milliseconds time,
                 Counts& counts)
    : folder_(folder),
      time_(time),
      counts_(counts),
      socket_(std::make_shared<const Socket>(std::move(socket))),
      address_(socket_->local_address()) {
  thread_ = std::thread([this, &secret] { run(secret); });
}

Session::~Session() {
  socket_->shut_down();
  thread_.join();
}

void Session::run(const Secret& secret) {
  try {
    channel_ = Channel::as_server(socket_, secret, time_);
    ++counts_.sessions;
    for (;;) {
      const std::optional<Request> request = read_request(channel_->receive());
      if (!request) throw std::system_error(EPROTO, std::generic_category(), "a request that is none");
      std::visit([&](const auto& what) { serve(request->id, what); }, request->what);
    }
  } catch (const std::system_error& error) {
    if (!channel_ && error.code().value() == EACCES) ++counts_.refused_secrets;
    // The usual end is that the client has gone.
    if (error.code().value() != ECONNRESET)
      std::fprintf(stderr, "rdma-files-server: a session ends: %s\n", error.what());
  } catch (const std::exception& error) {  // no memory, say: the other sessions go on
    std::fprintf(stderr, "rdma-files-server: a session ends: %s\n", error.what());
  }
  socket_->shut_down();
  links_.clear();
  ended_ = true;
}

void Session::answer(const Answer& answer) noexcept {
  try {
    channel_->send(packed(answer));
  } catch (const std::exception&) {
    // The session's thread notices, too.
    socket_->shut_down();
  }
}

void Session::serve(std::uint32_t id, const Open& open) {
  if (files_.size() >= kMostFiles) return answer({.id = id, .error = EMFILE});
  const Folder::Opened opened = folder_.open(open);
  if (opened.error != 0) return answer({.id = id, .error = opened.error});
  while (files_.contains(next_file_)) ++next_file_;
  files_[next_file_] = opened.file;
  answer({.id = id, .number = next_file_++, .bytes = opened.size});
}

void Session::serve(std::uint32_t id, const Close& close) {
  // A transfer under way has a share of the file.
  answer({.id = id, .error = files_.erase(close.file) == 1 ? 0 : EBADF});
}

void Session::serve(std::uint32_t id, const Link& link) {
  const std::uint32_t pair = link.client.queue_pair;
  if (!links_.contains(pair) && links_.size() >= kMostLinks) return answer({.id = id, .error = EUSERS});
  try {
    if (!device_) device_ = Device::with_address(address_);
    links_.erase(pair);
    const auto& mover = links_[pair] = std::make_unique<Mover>(device_, link.client, time_, counts_);
    answer({.id = id, .number = Mover::kWaiting, .server = mover->own()});
  } catch (const std::system_error& error) {
    links_.erase(pair);
    std::fprintf(stderr, "rdma-files-server: no link: %s\n", error.what());
    answer({.id = id, .error = error.code().value()});
  }
}

void Session::serve(std::uint32_t id, const Transfer& transfer) {
  const auto file = files_.find(transfer.file);
  if (file == files_.end()) return answer({.id = id, .error = EBADF});
  // The memory is reached by a queue pair that this client has linked, on the adapter that it has named then, or not at
  // all.
  const auto link = links_.find(transfer.queue_pair);
  const bool linked = link != links_.end() && transfer.token.gid.value_or(Gid{}) == link->second->client().gid;
  if (!linked) return answer({.id = id, .error = ENOTCONN, .link_lost = true});
  const bool taken = link->second->take(
      {transfer, file->second, [this, id](const Mover::Result& result) {
         answer({.id = id, .error = result.error, .link_lost = result.link_lost, .bytes = result.bytes});
       }});
  if (!taken) answer({.id = id, .error = EBUSY});
}

}  // namespace rdma_files
