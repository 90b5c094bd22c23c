// SPDX-License-Identifier: Apache-2.0
#include "core/log.h"

#include <unistd.h>

#include <ctime>
#include <nlohmann/json.hpp>
#include <utility>

namespace sluice::csi {
namespace {

void print_line(const nlohmann::ordered_json& json) {
  const std::string text = json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  // One write a line: threads do not mix theirs.
  const ssize_t ignored = write(STDERR_FILENO, text.data(), text.size());
  static_cast<void>(ignored);
}

std::function<void(const Event&)>& event_sink() {
  static std::function<void(const Event&)> sink;
  return sink;
}

}  // namespace

void set_event_sink(std::function<void(const Event&)> sink) {
  event_sink() = std::move(sink);
}

void log_line(const std::string& level, const std::string& text) {
  print_line({{"time", std::time(nullptr)}, {"level", level}, {"text", text}});
}

void log_event(const std::string& type, const std::string& reason, const std::string& volume, const std::string& text) {
  print_line({{"time", std::time(nullptr)},
              {"level", type == "Warning" ? "warning" : "info"},
              {"event", reason},
              {"volume", volume},
              {"text", text}});
  if (event_sink()) event_sink()({type, reason, volume, text});
}

}  // namespace sluice::csi
