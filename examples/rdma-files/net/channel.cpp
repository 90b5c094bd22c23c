// SPDX-License-Identifier: Apache-2.0
#include "net/channel.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <cerrno>
#include <stdexcept>
#include <system_error>

namespace rdma_files {

namespace {

constexpr std::size_t shortest_secret = 16;
constexpr std::size_t longest_secret = 4096;

Hello new_hello() {
  std::array<std::uint8_t, 32> random{};
  if (::getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size())) {
    throw std::system_error(errno, std::generic_category(), "getrandom");
  }
  return hello_of(random);
}

Hello received_hello(const Socket& socket, Deadline deadline) {
  Hello hello{};
  socket.receive_all(hello, deadline);
  if (!is_hello(hello)) throw std::system_error(EPROTO, std::generic_category(), "the other end speaks something else");
  return hello;
}

void require_proof(const Socket& socket, const Digest& wanted, Deadline deadline) {
  Digest got{};
  socket.receive_all(got, deadline);
  if (!same(got, wanted)) throw std::system_error(EACCES, std::generic_category(), "the other end has another secret");
}

}  // namespace

Secret secret_from(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat about {};
  if (fd.get() < 0 || ::fstat(fd.get(), &about) != 0) throw std::system_error(errno, std::generic_category(), path);
  if ((about.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    throw std::runtime_error(path + " can be read by others: chmod 600 " + path);
  }
  Secret secret(longest_secret);
  const ssize_t got = ::read(fd.get(), secret.data(), secret.size());
  if (got < static_cast<ssize_t>(shortest_secret)) {
    throw std::runtime_error(path + " holds fewer than 16 bytes: head -c 32 /dev/urandom > " + path);
  }
  secret.resize(static_cast<std::size_t>(got));
  return secret;
}

std::unique_ptr<Channel> Channel::as_server(SharedSocket socket, const Secret& secret, std::chrono::milliseconds time) {
  const Deadline deadline = after(time);
  const Hello own = new_hello();
  socket->send_all(own, deadline);
  const Hello theirs = received_hello(*socket, deadline);
  require_proof(*socket, proof(secret, Role::client, own, theirs), deadline);
  socket->send_all(proof(secret, Role::server, own, theirs), deadline);
  const Keys keys{FrameKey(secret, Role::server, own, theirs), FrameKey(secret, Role::client, own, theirs)};
  return std::unique_ptr<Channel>(new Channel(std::move(socket), keys, time));
}

std::unique_ptr<Channel> Channel::as_client(SharedSocket socket, const Secret& secret, std::chrono::milliseconds time) {
  const Deadline deadline = after(time);
  const Hello theirs = received_hello(*socket, deadline);
  const Hello own = new_hello();
  socket->send_all(own, deadline);
  socket->send_all(proof(secret, Role::client, theirs, own), deadline);
  try {
    require_proof(*socket, proof(secret, Role::server, theirs, own), deadline);
  } catch (const std::system_error& error) {
    // A server says no by closing.
    if (error.code().value() != ECONNRESET) throw;
    throw std::system_error(EACCES, std::generic_category(), "the server has refused the secret");
  }
  const Keys keys{FrameKey(secret, Role::client, theirs, own), FrameKey(secret, Role::server, theirs, own)};
  return std::unique_ptr<Channel>(new Channel(std::move(socket), keys, time));
}

void Channel::send(const Payload& payload) {
  const std::scoped_lock lock(sending_);
  socket_->send_all(keys_.sending.seal(payload), after(time_));
}

Payload Channel::receive() {
  socket_->wait_readable(kNever);
  const Deadline deadline = after(time_);
  std::array<std::uint8_t, kFrameHead> head{};
  socket_->receive_all(head, deadline);
  const std::optional<std::size_t> length = FrameKey::rest_length(head);
  Payload rest(length.value_or(0));
  if (length) socket_->receive_all(rest, deadline);
  const std::optional<Bytes> payload = keys_.receiving.open(rest);
  if (!payload) throw std::system_error(EPROTO, std::generic_category(), "a message is not the other end's next");
  return {payload->begin(), payload->end()};
}

}  // namespace rdma_files
