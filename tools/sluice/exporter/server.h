// SPDX-License-Identifier: Apache-2.0
// A server on one thread that sleeps until a client connects.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "sluice/exporter/http.h"

namespace sluice::tools {

class HttpServer {
 public:
  // Answers a whole request.
  using Handler = std::function<std::string(const HttpRequest&)>;

  // Listens at once. "127.0.0.1:9957", "[::1]:0"; a port of 0 takes any free one. Throws ToolError.
  explicit HttpServer(const std::string& address);
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  ~HttpServer();

  // Where it listens: "127.0.0.1:9957".
  const std::string& address() const noexcept { return address_; }
  bool is_loopback() const noexcept { return loopback_; }

  [[noreturn]] void serve(const Handler& handler);

 private:
  struct Connection {
    int fd = -1;
    std::chrono::steady_clock::time_point deadline;
    std::string received;
    std::string answer;  // once the request is whole
    std::size_t sent = 0;
  };
  void accept_all();
  // False when the connection has come to its end.
  static bool receive(Connection& connection, const Handler& handler);
  static bool send(Connection& connection);
  int milliseconds_left() const;

  int listener_ = -1;
  bool loopback_ = true;
  std::string address_;
  std::vector<Connection> connections_;
};

}  // namespace sluice::tools
