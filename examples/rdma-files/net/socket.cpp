// SPDX-License-Identifier: Apache-2.0
#include "net/socket.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <stdexcept>
#include <system_error>

namespace rdma_files {

namespace {

[[noreturn]] void fail(const std::string& what, int error = errno) {
  throw std::system_error(error, std::generic_category(), what);
}

sockaddr_in address_of(const Endpoint& endpoint) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(endpoint.port);
  if (::inet_pton(AF_INET, endpoint.address.c_str(), &address.sin_addr) != 1) {
    throw std::invalid_argument("\"" + endpoint.address + "\" is no IPv4 address");
  }
  return address;
}

sockaddr_in local_of(int fd) {
  sockaddr_in address{};
  socklen_t length = sizeof address;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) fail("getsockname");
  return address;
}

Fd new_socket() {
  Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd.get() < 0) fail("socket");
  return fd;
}

int milliseconds_until(Deadline deadline) {
  if (deadline == kNever) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 1 << 30));
}

}  // namespace

Endpoint endpoint_of(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  Endpoint endpoint;
  if (colon != std::string::npos) {
    endpoint.address = text.substr(0, colon);
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, endpoint.port);
    if (error == std::errc() && stop == end) {
      static_cast<void>(address_of(endpoint));
      return endpoint;
    }
  }
  throw std::invalid_argument("\"" + text + "\" is not ADDRESS:PORT, such as 192.0.2.1:7471");
}

void wait_for(int fd, short events, Deadline deadline) {
  for (;;) {
    pollfd entry{fd, events, 0};
    const int ready = ::poll(&entry, 1, milliseconds_until(deadline));
    if (ready > 0) return;
    if (ready == 0) fail("the other end", ETIMEDOUT);
    if (errno != EINTR) fail("poll");
  }
}

Socket::Socket(Fd fd) : fd_(std::move(fd)) {
  // A peer whose machine is gone is noticed, too, when nothing is asked of it.
  const auto set = [this](int level, int name, int value) {
    if (::setsockopt(fd_.get(), level, name, &value, sizeof value) != 0 && errno != EOPNOTSUPP) fail("setsockopt");
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
}

Socket Socket::connected_to(const Endpoint& to, std::chrono::milliseconds time) {
  Fd fd = new_socket();
  const sockaddr_in address = address_of(to);
  const std::string name = to.address + ":" + std::to_string(to.port);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    if (errno != EINPROGRESS) fail(name);
    wait_for(fd.get(), POLLOUT, after(time));
    int error = 0;
    socklen_t length = sizeof error;
    ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) fail(name, error);
  }
  return Socket(std::move(fd));
}

void Socket::send_all(std::span<const std::uint8_t> bytes, Deadline deadline) const {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      wait_for(fd_.get(), POLLOUT, deadline);
    } else if (errno != EINTR) {
      fail("send");
    }
  }
}

void Socket::receive_all(std::span<std::uint8_t> bytes, Deadline deadline) const {
  while (!bytes.empty()) {
    const ssize_t got = ::recv(fd_.get(), bytes.data(), bytes.size(), 0);
    if (got > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(got));
    } else if (got == 0) {
      fail("the other end has closed the connection", ECONNRESET);
    } else if (errno == EAGAIN) {
      wait_for(fd_.get(), POLLIN, deadline);
    } else if (errno != EINTR) {
      fail("receive");
    }
  }
}

void Socket::wait_readable(Deadline deadline) const {
  wait_for(fd_.get(), POLLIN, deadline);
}

void Socket::shut_down() const noexcept {
  ::shutdown(fd_.get(), SHUT_RDWR);
}

std::string Socket::local_address() const {
  const sockaddr_in address = local_of(fd_.get());
  std::array<char, INET_ADDRSTRLEN> text{};
  ::inet_ntop(AF_INET, &address.sin_addr, text.data(), text.size());
  return text.data();
}

Listener::Listener(const Endpoint& at) : fd_(new_socket()) {
  const int on = 1;
  ::setsockopt(fd_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const sockaddr_in address = address_of(at);
  if (::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(fd_.get(), 16) != 0) {
    fail(at.address + ":" + std::to_string(at.port));
  }
}

std::uint16_t Listener::port() const {
  return ntohs(local_of(fd_.get()).sin_port);
}

Socket Listener::accepted() const {
  Fd fd(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (fd.get() < 0) fail("accept");
  return Socket(std::move(fd));
}

}  // namespace rdma_files
