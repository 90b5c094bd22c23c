// SPDX-License-Identifier: Apache-2.0
#include "core/event_writer.h"

#include <fmt/format.h>

#include <array>
#include <ctime>
#include <nlohmann/json.hpp>

#include "core/kube_api.h"

namespace sluice::csi {
namespace {

constexpr std::size_t most_remembered = 4096;

std::string value_of(const Record& record, const char* key) {
  const auto found = record.parameters.find(key);
  return found == record.parameters.end() ? std::string() : found->second;
}

std::string space_of(const Record& record) {
  return value_of(record, "csi.storage.k8s.io/pvc/namespace");
}

std::string time_text(std::int64_t seconds) {
  const auto time = static_cast<std::time_t>(seconds);
  std::tm parts{};
  gmtime_r(&time, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

}  // namespace

std::string event_json(const Event& event, const Record& record, const EventOptions& options, std::int64_t seconds) {
  const std::string space = space_of(record);
  const std::string claim = value_of(record, "csi.storage.k8s.io/pvc/name");
  if (space.empty() || claim.empty()) return {};
  constexpr std::size_t longest = 1024;  // of a message
  const std::string time = time_text(seconds);
  nlohmann::ordered_json json = {{"apiVersion", "v1"}, {"kind", "Event"}};
  json["metadata"] = {{"generateName", "sluice-csi-"}, {"namespace", space}};
  json["involvedObject"] = {
      {"apiVersion", "v1"}, {"kind", "PersistentVolumeClaim"}, {"namespace", space}, {"name", claim}};
  json["type"] = event.type;
  json["reason"] = event.reason;
  json["message"] = event.text.substr(0, longest);
  json["source"] = {{"component", options.driver}, {"host", options.node}};
  json["firstTimestamp"] = time;
  json["lastTimestamp"] = time;
  json["count"] = 1;
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

EventWriter::EventWriter(EventOptions options, const Volumes& volumes)
    : options_(std::move(options)), volumes_(volumes), queue_([this](const Event& event) {
        try {
          write(event);
        } catch (const std::exception& error) {
          log_line("warning", "The event " + event.reason + " is not written: " + error.what());
        }
      }) {}

void EventWriter::take(const Event& event) {
  {
    const std::lock_guard lock(mutex_);
    if (written_.size() >= most_remembered) return;
    if (!written_.insert(event.volume + "|" + event.reason + "|" + event.text).second) return;
  }
  queue_.add(event);
}

void EventWriter::write(const Event& event) {
  const Volumes::Found found = volumes_.find(event.volume);
  if (!found) return;
  const std::string json = event_json(event, found.record, options_, std::time(nullptr));
  if (json.empty()) return;
  KubeApi api(options_.kube, options_.account);
  const HttpAnswer answer = api.post(fmt::format("/api/v1/namespaces/{}/events", space_of(found.record)), json);
  if (answer.status / 100 != 2) {
    log_line("warning",
             fmt::format("The event {} is not written: the API server answers {}. Look at the chart's ClusterRole.",
                         event.reason, answer.status));
  }
}

}  // namespace sluice::csi
