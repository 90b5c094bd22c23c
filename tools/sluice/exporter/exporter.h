// SPDX-License-Identifier: Apache-2.0
// `sluice exporter`: the statistics of all processes of this machine, for Prometheus.
#pragma once

#include <cstddef>
#include <string>

namespace sluice::tools {

struct ExporterOptions {
  std::string listen = "127.0.0.1:9957";
  std::size_t processes = 256;
};

// Does not return. Throws ToolError where it cannot listen.
int exporter_command(const ExporterOptions& options);

extern const char* const exporter_about;
extern const char* const exporter_lesson;

}  // namespace sluice::tools
