// SPDX-License-Identifier: Apache-2.0
// Volumes that are directories of one xfs: a drive's, or a stripe's. Each has a project quota as its limit; snapshots
// and clones share blocks. All state lies on the drive itself, so that it moves with it.
#pragma once

#include <memory>
#include <string>

#include "core/quota.h"
#include "core/recorded_backend.h"

namespace sluice::csi {

struct DirectoryOptions {
  std::string path;  // where the xfs is mounted, or a folder of it
  QuotaWish quota = QuotaWish::require;
  StepHook at_step;
};

class DirectoryBackend : public RecordedBackend {
 public:
  // Refuses what cannot be used, with the reason. Ends what a crash has left half done.
  explicit DirectoryBackend(DirectoryOptions options);

  BackendKind kind() const override { return BackendKind::directory; }
  std::string drive(const std::string& id) const override;
  std::int64_t available() override;
  std::int64_t largest() override { return available(); }
  std::int64_t smallest() const override;
  Record create(const VolumeRequest& request) override;
  void remove(const std::string& id) override;
  Record grow(const std::string& id, std::int64_t bytes, const std::string& path) override;
  Record snapshot(const std::string& name, const std::string& volume) override;
  void remove_snapshot(const std::string& id) override;
  std::vector<std::string> stage(const StageRequest& request) override;
  void unstage(const std::string& id, const std::string& path) override;
  bool is_staged(const std::string& id, const std::string& path) override;
  void publish(const PublishRequest& request) override;
  std::vector<facts::Mount> places(const std::string& id, const std::vector<facts::Mount>& mounts) override;
  Usage usage(const std::string& id, const std::string& path) override;
  Condition condition(const Record& record, const std::vector<facts::Mount>& mounts) override;
  std::string trial_file(const std::string& id) override;

 private:
  void open_pool();
  void sweep();
  std::string folder_of(const Record& record) const;
  std::string making(const std::string& id) const { return home_ + "/making/" + id; }
  std::int64_t promised() const;
  void want_room(std::int64_t bytes) const;
  std::uint32_t free_project() const;
  void fill(const Record& record, const std::string& folder);
  void finish(Record& record);
  void discard(Record record);

  DirectoryOptions options_;
  std::string home_;
  std::unique_ptr<Quota> quota_;
  std::string pool_id_;
  std::int64_t usable_ = 0;  // bytes that volumes and snapshots share
  dev_t device_ = 0;
  std::string root_;  // of home_ in the file system
};

}  // namespace sluice::csi
