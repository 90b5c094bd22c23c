// SPDX-License-Identifier: Apache-2.0
#include "core/recorded_backend.h"

#include <fmt/format.h>

#include "core/refusal.h"

namespace sluice::csi {

Record RecordedBackend::need(const std::string& id, RecordKind kind) const {
  std::optional<Record> record = records_.read(id);
  if (!record || record->kind != kind || record->state != RecordState::ready) {
    refuse(Code::not_found,
           fmt::format("There is no {} {}. It was removed, was never staged here, or lies on another node.",
                       kind == RecordKind::volume ? "volume" : "snapshot", id));
  }
  return std::move(*record);
}

Record RecordedBackend::modify(const std::string& id, const Map& parameters) {
  const std::lock_guard lock(mutex_);
  Record record = need(id, RecordKind::volume);
  for (const auto& [key, value] : parameters) record.mutable_parameters[key] = value;
  records_.write(record);
  return record;
}

void RecordedBackend::keep_notes(const std::string& id, const std::string& direct_path,
                                 const std::vector<std::string>& notes) {
  const std::lock_guard lock(mutex_);
  Record record = need(id, RecordKind::volume);
  if (record.direct_path == direct_path && record.notes == notes) return;
  record.direct_path = direct_path;
  record.notes = notes;
  records_.write(record);
}

}  // namespace sluice::csi
