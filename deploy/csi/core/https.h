// SPDX-License-Identifier: Apache-2.0
// One request of HTTP, over TLS by the system's OpenSSL, which is loaded when it is first needed.
#pragma once

#include <chrono>
#include <map>
#include <string>

namespace sluice::csi {

struct HttpServer {
  bool tls = true;
  std::string host;  // a name, or an address without brackets
  std::string port;
  std::string authority;  // the file with the certificate that signs the server's
};

struct HttpAnswer {
  int status = 0;
  std::string body;
};

// "https://10.96.0.1:443", "https://[fd00::1]:6443". Refused when it is no such thing.
HttpServer server_at(const std::string& url);

// Refused, with the cause, where no answer comes, and where the certificate is none of that authority for that host.
HttpAnswer ask_server(const HttpServer& server, const std::string& method, const std::string& path,
                      const std::map<std::string, std::string>& headers, const std::string& body,
                      std::chrono::seconds limit);

}  // namespace sluice::csi
