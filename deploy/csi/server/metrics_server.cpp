// SPDX-License-Identifier: Apache-2.0
#include "server/metrics_server.h"

#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>

#include "base/unique_fd.h"
#include "core/log.h"
#include "core/ready_thread.h"
#include "core/refusal.h"

namespace sluice::csi {
namespace {

base::UniqueFd listen_at(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  std::string host = colon == std::string::npos ? "" : address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (colon == std::string::npos ||
      getaddrinfo(host.empty() ? nullptr : host.c_str(), address.c_str() + colon + 1, &hints, &found) != 0) {
    refuse(Code::invalid_argument, "\"" + address + "\" is no address to listen at. Write it as 0.0.0.0:9958.");
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> all(found, freeaddrinfo);
  base::UniqueFd socket(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  if (socket) setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (!socket || ::bind(socket.get(), found->ai_addr, found->ai_addrlen) != 0 || ::listen(socket.get(), 16) != 0)
    refuse_errno("listening at " + address, errno);
  return socket;
}

void send_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

}  // namespace

class MetricsServer::Worker {
 public:
  Worker(const std::string& address, std::function<std::string()> text)
      : text_(std::move(text)),
        socket_(listen_at(address)),
        thread_(
            socket_.get(), [] {}, [this] { take(); }) {}

 private:
  void take() {
    const base::UniqueFd client(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (client) answer(client.get());
  }

  void answer(int client) {
    // A client that connects and says nothing keeps others waiting for as long as this.
    const timeval limit = {2, 0};
    setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    constexpr std::size_t most = 8192;
    std::string request;
    std::array<char, 2048> buffer;
    while (request.find("\r\n\r\n") == std::string::npos && request.size() < most) {
      const ssize_t got = recv(client, buffer.data(), buffer.size(), 0);
      if (got <= 0) return;
      request.append(buffer.data(), static_cast<std::size_t>(got));
    }
    const bool known = request.starts_with("GET /metrics ") || request.starts_with("GET / ");
    std::string body = "Ask for /metrics.\n";
    const char* status = "404 Not Found";
    if (known) {
      try {
        body = text_();
        status = "200 OK";
      } catch (const std::exception& error) {
        log_line("error", std::string("metrics: ") + error.what());
        body = "See the driver's log.\n";
        status = "500 Internal Server Error";
      }
    }
    send_all(client, fmt::format("HTTP/1.1 {}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\n"
                                 "Connection: close\r\n\r\n",
                                 status, body.size()) +
                         body);
  }

  std::function<std::string()> text_;
  base::UniqueFd socket_;
  ReadyThread thread_;  // last: it uses the others
};

MetricsServer::MetricsServer(const std::string& address, std::function<std::string()> text)
    : worker_(std::make_unique<Worker>(address, std::move(text))) {}
MetricsServer::~MetricsServer() = default;

}  // namespace sluice::csi
