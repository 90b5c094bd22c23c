// SPDX-License-Identifier: Apache-2.0
// The cluster's API server, asked with the pod's own service account.
#pragma once

#include <string>

#include "core/https.h"

namespace sluice::csi {

class KubeApi {
 public:
  // `url` as KUBERNETES_SERVICE_HOST and _PORT tell it where it is ""; `account` is the folder with token and ca.crt.
  KubeApi(const std::string& url, std::string account);

  // The token is read for each call, because kubelet renews it.
  HttpAnswer get(const std::string& path) { return ask("GET", path, ""); }
  HttpAnswer post(const std::string& path, const std::string& body) { return ask("POST", path, body); }
  HttpAnswer put(const std::string& path, const std::string& body) { return ask("PUT", path, body); }

 private:
  HttpAnswer ask(const std::string& method, const std::string& path, const std::string& body);

  HttpServer server_;
  std::string account_;
};

}  // namespace sluice::csi
