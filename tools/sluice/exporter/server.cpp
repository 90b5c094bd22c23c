// SPDX-License-Identifier: Apache-2.0
#include "sluice/exporter/server.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "common/error.h"
#include "common/text.h"

namespace sluice::tools {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t most_connections = 16;
constexpr std::chrono::seconds most_time(10);  // for a request to come and its answer to be taken
constexpr int usage_status = 2;

struct Place {
  std::string host;
  std::string port;
};

Place place_of(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  if (colon == address.npos || colon == 0 || colon + 1 == address.size()) {
    throw ToolError(fmt::format("{} is no address to listen on.", printable(address)),
                    "Write it as 127.0.0.1:9957 or [::1]:9957.", usage_status);
  }
  unsigned port = 0;
  const char* const end = address.data() + address.size();
  if (std::from_chars(address.data() + colon + 1, end, port).ptr != end || port > 65535) {
    throw ToolError(fmt::format("{} has no port from 0 to 65535.", printable(address)),
                    "Write it in numbers, as 127.0.0.1:9957 or [::1]:9957.", usage_status);
  }
  std::string host = address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return {host, address.substr(colon + 1)};
}

bool is_loopback_address(const sockaddr* address) {
  if (address->sa_family == AF_INET6) {
    return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr) != 0;
  }
  return (ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr) >> 24) == 127;
}

std::string text_of(const sockaddr* address, socklen_t length) {
  std::array<char, 64> host{};
  std::array<char, 16> port{};
  ::getnameinfo(address, length, host.data(), host.size(), port.data(), port.size(), NI_NUMERICHOST | NI_NUMERICSERV);
  const char* const format = address->sa_family == AF_INET6 ? "[{}]:{}" : "{}:{}";
  return fmt::format(fmt::runtime(format), host.data(), port.data());
}

}  // namespace

HttpServer::HttpServer(const std::string& address) {
  const Place place = place_of(address);
  addrinfo wanted{};
  wanted.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(place.host.c_str(), place.port.c_str(), &wanted, &found) != 0) {
    throw ToolError(fmt::format("{} is no address to listen on.", printable(address)),
                    "Write it in numbers, as 127.0.0.1:9957 or [::1]:9957.", usage_status);
  }
  listener_ = ::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int yes = 1;
  ::setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  const bool listens = listener_ >= 0 && ::bind(listener_, found->ai_addr, found->ai_addrlen) == 0 &&
                       ::listen(listener_, most_connections) == 0;
  const int why = errno;
  ::freeaddrinfo(found);
  if (!listens) {
    if (listener_ >= 0) ::close(listener_);
    throw ToolError(fmt::format("Nothing can listen on {}: {}.", printable(address), system_words(why)),
                    "Choose another one with --listen; `ss -ltnp` shows who has it.");
  }
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  ::getsockname(listener_, reinterpret_cast<sockaddr*>(&bound), &length);
  address_ = text_of(reinterpret_cast<sockaddr*>(&bound), length);
  loopback_ = is_loopback_address(reinterpret_cast<sockaddr*>(&bound));
}

HttpServer::~HttpServer() {
  for (const Connection& connection : connections_) ::close(connection.fd);
  if (listener_ >= 0) ::close(listener_);
}

// With all places taken the oldest connection ends: those that are held open keep no scrape away.
void HttpServer::accept_all() {
  for (int fd = 0; (fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0;) {
    if (connections_.size() >= most_connections) {
      ::close(connections_.front().fd);
      connections_.erase(connections_.begin());
    }
    connections_.push_back({fd, Clock::now() + most_time, {}, {}, 0});
  }
}

bool HttpServer::receive(Connection& connection, const Handler& handler) {
  std::array<char, 2048> piece{};
  const ssize_t count = ::recv(connection.fd, piece.data(), piece.size(), 0);
  if (count < 0) return errno == EAGAIN || errno == EINTR;
  if (count == 0) return false;
  connection.received.append(piece.data(), static_cast<std::size_t>(count));
  const HttpRequest request = parse_request(connection.received);
  if (request.state != RequestState::incomplete) connection.answer = handler(request);
  return true;
}

bool HttpServer::send(Connection& connection) {
  const std::string_view rest = std::string_view(connection.answer).substr(connection.sent);
  const ssize_t count = ::send(connection.fd, rest.data(), rest.size(), MSG_NOSIGNAL);
  if (count < 0) return errno == EAGAIN || errno == EINTR;
  connection.sent += static_cast<std::size_t>(count);
  if (connection.sent < connection.answer.size()) return true;
  // What has come and was not read would make of the end a reset, which takes the answer along.
  ::shutdown(connection.fd, SHUT_WR);
  std::array<char, 65536> rest_of_request{};
  static_cast<void>(!::recv(connection.fd, rest_of_request.data(), rest_of_request.size(), 0));
  return false;
}

// -1 where nothing is under way: the thread then sleeps for good.
int HttpServer::milliseconds_left() const {
  if (connections_.empty()) return -1;
  const auto earlier = [](const Connection& a, const Connection& b) { return a.deadline < b.deadline; };
  const Clock::time_point next = std::ranges::min_element(connections_, earlier)->deadline;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now());
  return static_cast<int>(std::max<std::int64_t>(left.count(), 0));
}

void HttpServer::serve(const Handler& handler) {
  while (true) {
    std::vector<pollfd> wanted{{listener_, POLLIN, 0}};
    for (const Connection& connection : connections_) {
      wanted.push_back({connection.fd, static_cast<short>(connection.answer.empty() ? POLLIN : POLLOUT), 0});
    }
    const int ready = ::poll(wanted.data(), wanted.size(), milliseconds_left());
    if (ready < 0 && errno != EINTR) {
      throw ToolError(fmt::format("Waiting for connections failed: {}.", system_words(errno)), "Start it again.");
    }
    const Clock::time_point now = Clock::now();
    std::vector<Connection> kept;
    for (std::size_t i = 0; i < connections_.size(); ++i) {
      Connection& connection = connections_[i];
      bool goes_on = now < connection.deadline;
      if (goes_on && ready > 0 && wanted[i + 1].revents != 0) {
        goes_on = connection.answer.empty() ? receive(connection, handler) : send(connection);
      }
      if (goes_on) {
        kept.push_back(std::move(connection));
      } else {
        ::close(connection.fd);
      }
    }
    connections_ = std::move(kept);
    if (ready > 0 && wanted.front().revents != 0) accept_all();
  }
}

}  // namespace sluice::tools
