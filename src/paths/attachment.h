// SPDX-License-Identifier: Apache-2.0
// What paths keep with a driver session, a registered file or a registered buffer: made by the path when that begins,
// gone with it. Only its path looks inside.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sluice.h"

namespace sluice::paths {

class Attachment {
 public:
  Attachment() = default;
  Attachment(const Attachment&) = delete;
  Attachment& operator=(const Attachment&) = delete;
  virtual ~Attachment() = default;
};

// One for each path at most.
template <typename Kept>
class AttachmentsOf {
 public:
  Kept* of(sluice_path_t path) const noexcept { return all_[static_cast<std::size_t>(path)].get(); }
  // Nothing is put for a path that has nothing to keep: several lines of the table may stand for one.
  void put(sluice_path_t path, std::unique_ptr<Kept> kept) {
    if (kept) all_[static_cast<std::size_t>(path)] = std::move(kept);
  }
  auto begin() const noexcept { return all_.begin(); }
  auto end() const noexcept { return all_.end(); }

 private:
  std::array<std::unique_ptr<Kept>, SLUICE_PATH_COUNT> all_;
};
using Attachments = AttachmentsOf<Attachment>;

// What has come of I/O between the memory of one device and one storage, as people are told.
struct PairReport {
  sluice_path_t path;
  int device;
  std::string storage;
  sluice_reason_t reason;
  std::string words;
  std::uint64_t transfers;
  std::uint64_t polled;
  std::uint64_t rerouted;
};

// Of a session: any thread.
class SessionAttachment : public Attachment {
 public:
  // Oldest first.
  virtual std::vector<PairReport> reports() { return {}; }
  // No child inherits a lock held.
  virtual void before_fork() {}
  virtual void after_fork() {}
};
using SessionAttachments = AttachmentsOf<SessionAttachment>;

}  // namespace sluice::paths
