// SPDX-License-Identifier: Apache-2.0
#include "core/metrics.h"

#include <fmt/format.h>

#include <string_view>

namespace sluice::csi {
namespace {

std::string escaped(std::string_view value) {
  std::string text;
  for (const char letter : value) {
    if (letter == '\\' || letter == '"') text += '\\';
    text += letter == '\n' ? ' ' : letter;
  }
  return text;
}

void head(std::string& text, const char* name, const char* type, const char* help) {
  text += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

std::string parameter(const Record& record, const char* key) {
  const auto found = record.parameters.find(key);
  return found == record.parameters.end() ? std::string() : found->second;
}

// The claim is told where the provisioner gives it (--extra-create-metadata).
std::string labels_of(const Record& record) {
  return fmt::format("volume=\"{}\",namespace=\"{}\",claim=\"{}\"", escaped(record.id),
                     escaped(parameter(record, "csi.storage.k8s.io/pvc/namespace")),
                     escaped(parameter(record, "csi.storage.k8s.io/pvc/name")));
}

}  // namespace

void CallCounts::count(const std::string& call, int code, std::chrono::nanoseconds took) {
  const std::lock_guard lock(mutex_);
  ++calls_[{call, code}];
  took_[call] += took;
}

std::string CallCounts::text() const {
  const std::lock_guard lock(mutex_);
  std::string text;
  head(text, "sluice_csi_calls_total", "counter", "Calls that were answered, by gRPC's code (0: success).");
  for (const auto& [key, count] : calls_)
    text += fmt::format("sluice_csi_calls_total{{call=\"{}\",code=\"{}\"}} {}\n", key.first, key.second, count);
  head(text, "sluice_csi_call_seconds_total", "counter", "Time that these calls took.");
  for (const auto& [call, took] : took_)
    text += fmt::format("sluice_csi_call_seconds_total{{call=\"{}\"}} {:.6f}\n", call,
                        std::chrono::duration<double>(took).count());
  return text;
}

std::string metrics_text(const Volumes& volumes, const CallCounts& calls) {
  std::string text = calls.text();
  std::string largest;
  head(text, "sluice_csi_room_bytes", "gauge", "What new volumes can have in sum.");
  head(largest, "sluice_csi_largest_volume_bytes", "gauge", "What one new volume can have.");
  for (Backend* const each : volumes.backends()) {
    if (each->kind() == BackendKind::nvme_of) continue;  // targets have the room
    const std::string labels =
        fmt::format("backend=\"{}\",drive=\"{}\"", name_of(each->kind()), escaped(each->drive({})));
    text += fmt::format("sluice_csi_room_bytes{{{}}} {}\n", labels, each->available());
    largest += fmt::format("sluice_csi_largest_volume_bytes{{{}}} {}\n", labels, each->largest());
  }
  std::string healthy;
  std::string direct;
  text += largest;
  head(text, "sluice_csi_volume_bytes", "gauge", "Size of a volume.");
  head(healthy, "sluice_csi_volume_healthy", "gauge", "0: something is wrong with it, and kubelet is told what.");
  head(direct, "sluice_csi_direct_path", "gauge", "What the trial at the last staging said of the way into a GPU.");
  const std::vector<facts::Mount> mounts = all_mounts();
  for (const Volumes::Listed& each : volumes.list(RecordKind::volume)) {
    const std::string labels = labels_of(each.record);
    text += fmt::format("sluice_csi_volume_bytes{{{}}} {}\n", labels, each.record.bytes);
    healthy += fmt::format("sluice_csi_volume_healthy{{{}}} {}\n", labels,
                           each.backend->condition(each.record, mounts).abnormal ? 0 : 1);
    const std::string result = each.record.direct_path.substr(0, each.record.direct_path.find(':'));
    if (!result.empty())
      direct += fmt::format("sluice_csi_direct_path{{{},result=\"{}\"}} 1\n", labels, escaped(result));
  }
  return text + healthy + direct;
}

}  // namespace sluice::csi
