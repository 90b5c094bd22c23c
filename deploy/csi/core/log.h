// SPDX-License-Identifier: Apache-2.0
// One JSON object a line, on standard error: what a cluster's log collector reads. No secret comes here, because the
// services are never given one.
#pragma once

#include <functional>
#include <string>

namespace sluice::csi {

void log_line(const std::string& level, const std::string& text);
// What an operator of a volume should know: type "Normal" or "Warning", a reason in one word, and the text.
void log_event(const std::string& type, const std::string& reason, const std::string& volume, const std::string& text);

struct Event {
  std::string type;
  std::string reason;
  std::string volume;  // its id
  std::string text;
};
// Is given each event besides. Set while no call is served.
void set_event_sink(std::function<void(const Event&)> sink);

}  // namespace sluice::csi
