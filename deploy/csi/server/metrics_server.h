// SPDX-License-Identifier: Apache-2.0
// Answers GET /metrics, one request at a time, to any peer that may connect.
#pragma once

#include <functional>
#include <memory>
#include <string>

namespace sluice::csi {

class MetricsServer {
 public:
  // `address` as "0.0.0.0:9958" or "[::]:9958". Serves until it is destroyed, and sleeps unless it is asked.
  MetricsServer(const std::string& address, std::function<std::string()> text);
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

 private:
  class Worker;
  std::unique_ptr<Worker> worker_;
};

}  // namespace sluice::csi
