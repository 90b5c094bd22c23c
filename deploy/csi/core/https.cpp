// SPDX-License-Identifier: Apache-2.0
#include "core/https.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <netdb.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <memory>
#include <string_view>
#include <system_error>

#include "base/unique_fd.h"
#include "core/refusal.h"

namespace sluice::csi {
namespace {

constexpr std::size_t most_bytes = 8 << 20;

[[noreturn]] void refuse_server(const HttpServer& server, const std::string& why) {
  refuse(Code::internal, fmt::format("The API server {}:{} cannot be asked: {}. The next attempt may succeed.",
                                     server.host, server.port, why));
}

// What OpenSSL 3 and 1.1 have in common, by hand: its headers are not needed, nor is it, where no server is asked.
struct Tls {
  void* (*method)() = nullptr;
  void* (*new_context)(void*) = nullptr;
  void (*free_context)(void*) = nullptr;
  int (*load_authority)(void*, const char*, const char*) = nullptr;
  void (*set_verify)(void*, int, void*) = nullptr;
  void* (*new_connection)(void*) = nullptr;
  void (*free_connection)(void*) = nullptr;
  int (*set_fd)(void*, int) = nullptr;
  long (*control)(void*, int, long, void*) = nullptr;
  int (*set_host)(void*, const char*) = nullptr;
  void* (*parameters)(void*) = nullptr;
  int (*set_address)(void*, const char*) = nullptr;
  int (*connect)(void*) = nullptr;
  int (*read)(void*, void*, int) = nullptr;
  int (*write)(void*, const void*, int) = nullptr;
  long (*verified)(void*) = nullptr;
  const char* (*verify_text)(long) = nullptr;
  bool loaded = false;
};

template <typename Function>
bool bind(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

const Tls& tls() {
  static const Tls loaded = [] {
    Tls all;
    for (const char* const name : {"libssl.so.3", "libssl.so.1.1"}) {
      void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
      if (library == nullptr) continue;
      all.loaded = bind(library, "TLS_client_method", all.method) && bind(library, "SSL_CTX_new", all.new_context) &&
                   bind(library, "SSL_CTX_free", all.free_context) &&
                   bind(library, "SSL_CTX_load_verify_locations", all.load_authority) &&
                   bind(library, "SSL_CTX_set_verify", all.set_verify) &&
                   bind(library, "SSL_new", all.new_connection) && bind(library, "SSL_free", all.free_connection) &&
                   bind(library, "SSL_set_fd", all.set_fd) && bind(library, "SSL_ctrl", all.control) &&
                   bind(library, "SSL_set1_host", all.set_host) && bind(library, "SSL_get0_param", all.parameters) &&
                   bind(library, "X509_VERIFY_PARAM_set1_ip_asc", all.set_address) &&
                   bind(library, "SSL_connect", all.connect) && bind(library, "SSL_read", all.read) &&
                   bind(library, "SSL_write", all.write) && bind(library, "SSL_get_verify_result", all.verified) &&
                   bind(library, "X509_verify_cert_error_string", all.verify_text);
      if (all.loaded) break;
    }
    return all;
  }();
  return loaded;
}

bool is_address(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> bytes{};
  return inet_pton(AF_INET, host.c_str(), bytes.data()) == 1 || inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1;
}

base::UniqueFd connected_to(const HttpServer& server, std::chrono::seconds limit) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(server.host.c_str(), server.port.c_str(), &hints, &found); error != 0)
    refuse_server(server, gai_strerror(error));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> all(found, freeaddrinfo);
  int why = 0;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    base::UniqueFd socket(::socket(each->ai_family, each->ai_socktype | SOCK_CLOEXEC, each->ai_protocol));
    if (!socket) continue;
    const timeval time = {limit.count(), 0};
    setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
    setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
    if (connect(socket.get(), each->ai_addr, each->ai_addrlen) == 0) return socket;
    why = errno;
  }
  refuse_server(server, std::generic_category().message(why));
}

// Plain or over TLS.
class Connection {
 public:
  Connection(const HttpServer& server, std::chrono::seconds limit) : server_(server), fd_(connected_to(server, limit)) {
    if (server.tls) begin_tls();
  }
  ~Connection() {
    if (connection_ != nullptr) tls().free_connection(connection_);
    if (context_ != nullptr) tls().free_context(context_);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = connection_ != nullptr
                               ? tls().write(connection_, bytes.data(), static_cast<int>(bytes.size()))
                               : ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) refuse_server(server_, "it takes no request");
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
  }
  std::string receive_all() {
    std::string all;
    std::array<char, 16384> buffer;
    for (;;) {
      const ssize_t got = connection_ != nullptr
                              ? tls().read(connection_, buffer.data(), static_cast<int>(buffer.size()))
                              : recv(fd_.get(), buffer.data(), buffer.size(), 0);
      if (got <= 0) return all;
      all.append(buffer.data(), static_cast<std::size_t>(got));
      if (all.size() > most_bytes) refuse_server(server_, "its answer has more than 8 MiB");
    }
  }

 private:
  void begin_tls() {
    constexpr int verify_peer = 1;
    constexpr int set_name = 55;  // SSL_CTRL_SET_TLSEXT_HOSTNAME
    if (!tls().loaded) refuse_server(server_, "libssl.so.3 is missing in this image");
    context_ = tls().new_context(tls().method());
    if (context_ == nullptr || tls().load_authority(context_, server_.authority.c_str(), nullptr) != 1)
      refuse_server(server_, "the authority's certificate in " + server_.authority + " cannot be read");
    tls().set_verify(context_, verify_peer, nullptr);
    connection_ = tls().new_connection(context_);
    if (connection_ == nullptr) refuse_server(server_, "TLS cannot be set up");
    std::string host = server_.host;
    if (is_address(host)) {
      tls().set_address(tls().parameters(connection_), host.c_str());
    } else {
      tls().control(connection_, set_name, 0, host.data());
      tls().set_host(connection_, host.c_str());
    }
    tls().set_fd(connection_, fd_.get());
    if (tls().connect(connection_) == 1) return;
    const long why = tls().verified(connection_);
    refuse_server(server_, why == 0 ? "it does not speak TLS" : tls().verify_text(why));
  }

  const HttpServer& server_;
  base::UniqueFd fd_;
  void* context_ = nullptr;
  void* connection_ = nullptr;
};

}  // namespace

HttpServer server_at(const std::string& url) {
  HttpServer server;
  std::string_view rest = url;
  if (rest.starts_with("https://")) {
    rest.remove_prefix(8);
  } else if (rest.starts_with("http://")) {
    rest.remove_prefix(7);
    server.tls = false;
  } else {
    rest = {};
  }
  if (rest.ends_with('/')) rest.remove_suffix(1);
  const std::size_t colon = rest.rfind(':');
  if (colon != std::string_view::npos && rest.find(']', colon) == std::string_view::npos) {
    server.port = rest.substr(colon + 1);
    rest = rest.substr(0, colon);
  } else {
    server.port = server.tls ? "443" : "80";
  }
  if (rest.starts_with('[') && rest.ends_with(']')) rest = rest.substr(1, rest.size() - 2);
  server.host = rest;
  const bool number = !server.port.empty() && server.port.find_first_not_of("0123456789") == std::string::npos;
  if (server.host.empty() || !number || server.host.find_first_of("/ \r\n") != std::string::npos)
    refuse(Code::invalid_argument, "\"" + url + "\" is no server. Write it as https://10.96.0.1:443.");
  return server;
}

HttpAnswer ask_server(const HttpServer& server, const std::string& method, const std::string& path,
                      const std::map<std::string, std::string>& headers, const std::string& body,
                      std::chrono::seconds limit) {
  const bool bracketed = server.host.find(':') != std::string::npos;
  // 1.0: the answer ends with the connection, and comes in one piece.
  std::string request = fmt::format("{} {} HTTP/1.0\r\nHost: {}{}{}:{}\r\n", method, path, bracketed ? "[" : "",
                                    server.host, bracketed ? "]" : "", server.port);
  for (const auto& [name, value] : headers) request += fmt::format("{}: {}\r\n", name, value);
  if (!body.empty()) request += fmt::format("Content-Length: {}\r\n", body.size());
  Connection connection(server, limit);
  connection.send(request + "\r\n" + body);
  const std::string all = connection.receive_all();
  const std::size_t end = all.find("\r\n\r\n");
  const std::size_t space = all.find(' ');
  HttpAnswer answer;
  const bool whole =
      all.starts_with("HTTP/1.") && end != std::string::npos && space != std::string::npos && space < end;
  if (whole) std::from_chars(all.data() + space + 1, all.data() + end, answer.status);
  if (answer.status < 100) refuse_server(server, "what it answers is no HTTP");
  answer.body = all.substr(end + 4);
  return answer;
}

}  // namespace sluice::csi
