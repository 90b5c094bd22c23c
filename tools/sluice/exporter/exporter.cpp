// SPDX-License-Identifier: Apache-2.0
#include "sluice/exporter/exporter.h"

#include <fmt/format.h>

#include "common/error.h"
#include "common/written.h"
#include "gds_stats/prometheus.h"
#include "sluice/exporter/http.h"
#include "sluice/exporter/server.h"

namespace sluice::tools {
namespace {

constexpr std::size_t most_processes = 4096;
constexpr std::string_view text_type = "text/plain; charset=utf-8";
constexpr std::string_view metrics_type = "text/plain; version=0.0.4; charset=utf-8";

std::string answer_to(const HttpRequest& request, Follower& follower) {
  switch (request.state) {
    case RequestState::too_long:
      return http_answer(431, text_type, "The request is too long.\n", request.method);
    case RequestState::whole:
      break;
    default:
      return http_answer(400, text_type, "This is no request of HTTP/1.\n", request.method);
  }
  if (request.method == Method::other) return http_answer(405, text_type, "Only GET and HEAD.\n", request.method);
  if (request.path == "/metrics") {
    return http_answer(200, metrics_type, prometheus_text(follower), request.method);
  }
  if (request.path == "/") return http_answer(200, text_type, "sluice exporter: see /metrics\n", request.method);
  return http_answer(404, text_type, "There is only /metrics.\n", request.method);
}

}  // namespace

const char* const exporter_about = "Serve the statistics of all processes to Prometheus";
const char* const exporter_lesson =
    "Answers GET /metrics with the statistics of every process that it may look at and that shows some\n"
    "(SLUICE_STATS=1 in its environment, or the like). As root these are all, as another user its own. Between two\n"
    "scrapes it sleeps. Counters never fall: of a process that ends they stay for five minutes.\n"
    "\n"
    "Examples:\n"
    "  sluice exporter &\n"
    "  curl -s http://127.0.0.1:9957/metrics\n"
    "  sluice exporter --listen '[::1]:9957'\n"
    "  sluice exporter --listen 0.0.0.0:9957    for other machines: every host that reaches the port can read\n"
    "  sluice stats --prometheus=/var/lib/node_exporter/sluice.prom    once, for a textfile collector\n"
    "\n"
    "docs/reference/statistics.md lists the metrics; docs/guide/watch.md has a dashboard for Grafana.";

int exporter_command(const ExporterOptions& options) {
  if (options.processes == 0 || options.processes > most_processes) {
    throw ToolError("--processes wants a number from 1 to 4096.", "256 is the default.", 2);
  }
  HttpServer server(options.listen);
  tell("sluice: http://{}/metrics\n", server.address());
  if (!server.is_loopback()) {
    tell("sluice: that is no loopback address: every host that reaches it can read names of programs\n");
  }
  Follower follower(options.processes);
  server.serve([&follower](const HttpRequest& request) { return answer_to(request, follower); });
}

}  // namespace sluice::tools
