// SPDX-License-Identifier: Apache-2.0
// What all backends share: a folder of records, and what a call learns that is kept there.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "core/backend.h"

namespace sluice::csi {

class RecordedBackend : public Backend {
 public:
  std::optional<Record> find(const std::string& id) override { return records_.read(id); }
  std::vector<Record> records() override { return records_.all(); }
  Record modify(const std::string& id, const Map& parameters) override;
  void keep_notes(const std::string& id, const std::string& direct_path,
                  const std::vector<std::string>& notes) override;

 protected:
  RecordedBackend(std::string folder, StepHook at_step) : records_(std::move(folder)), at_step_(std::move(at_step)) {}

  // A finished one; else NOT_FOUND.
  Record need(const std::string& id, RecordKind kind) const;
  void reached(const char* step) const {
    if (at_step_) at_step_(step);
  }

  RecordFolder records_;
  std::mutex mutex_;  // over records: who makes or grows a volume must know what the others were promised

 private:
  StepHook at_step_;
};

}  // namespace sluice::csi
