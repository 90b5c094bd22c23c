// SPDX-License-Identifier: Apache-2.0
#include "core/kube_api.h"

#include <cstdlib>
#include <map>

#include "core/refusal.h"
#include "facts/read.h"

namespace sluice::csi {
namespace {

std::string url_of_cluster() {
  const char* const host = std::getenv("KUBERNETES_SERVICE_HOST");
  const char* const port = std::getenv("KUBERNETES_SERVICE_PORT");
  if (host == nullptr || *host == '\0') {
    refuse(Code::failed_precondition,
           "KUBERNETES_SERVICE_HOST is not set, so that no API server is known. Run in a pod, or give --kube.");
  }
  const std::string name = host;
  const bool bracketed = name.find(':') != std::string::npos;
  return "https://" + (bracketed ? "[" + name + "]" : name) + ":" + (port == nullptr ? "443" : port);
}

}  // namespace

KubeApi::KubeApi(const std::string& url, std::string account)
    : server_(server_at(url.empty() ? url_of_cluster() : url)), account_(std::move(account)) {
  server_.authority = account_ + "/ca.crt";
}

HttpAnswer KubeApi::ask(const std::string& method, const std::string& path, const std::string& body) {
  const std::string token(facts::trimmed(facts::read_text(account_ + "/token").value_or("")));
  if (token.empty()) {
    refuse(
        Code::failed_precondition,
        account_ + "/token cannot be read. The pod needs its service account's token (automountServiceAccountToken).");
  }
  std::map<std::string, std::string> headers = {
      {"Accept", "application/json"}, {"Authorization", "Bearer " + token}, {"User-Agent", "sluice-csi"}};
  if (!body.empty()) headers["Content-Type"] = "application/json";
  constexpr std::chrono::seconds limit(10);
  return ask_server(server_, method, path, headers, body, limit);
}

}  // namespace sluice::csi
