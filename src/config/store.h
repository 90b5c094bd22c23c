// SPDX-License-Identifier: Apache-2.0
// Where the configuration lives between calls: what has been staged before the driver opens, and the one Config that
// it runs with. Control plane only: every call takes the store's mutex.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "config/config.h"

namespace sluice::config {

class Store {
 public:
  explicit Store(Sources sources = {}) : sources_(std::move(sources)) {}

  // The Config to run with: file, environment, then what was staged, which is used up. Appends the notes that this
  // process has not had before, and says the first unusable thing of the file on stderr, once.
  std::shared_ptr<const Config> begin_session(std::vector<Note>& fresh);
  // Back to staging; running setters are forgotten.
  void end_session();
  // Back to staging, since the driver does not open this way: what was staged is staged again.
  void refuse_session();

  // What runs, or what would if the driver opened now.
  std::shared_ptr<const Config> current();
  // The same, for the properties: once they were asked for, the level of the log is known, as with NVIDIA's library.
  std::shared_ptr<const Config> asked_for();

  // cuFileSetParameter*: before open only (CU_FILE_DRIVER_ALREADY_OPEN afterwards). An unknown id throws
  // CU_FILE_INVALID_VALUE. Values are looked at by the next open: what cannot be used is told then, and does not hold.
  void set(const CUFileSizeTConfigParameter_t& id, std::size_t value);
  void set(const CUFileBoolConfigParameter_t& id, bool value);
  void set(const CUFileStringConfigParameter_t& id, const std::string& value);
  void set_posix_slabs(const Slabs& slabs);
  void set_gpu_slabs(const Slabs& slabs);

  // cuFileGetParameter*: what runs, or what was staged. Where there is neither, what NVIDIA's library tells of a driver
  // that is not open: before the first open hardly anything is known to it, after a close its built-in values hold.
  std::size_t shown(CUFileSizeTConfigParameter_t id);
  bool shown(CUFileBoolConfigParameter_t id);
  std::string shown_log_level();
  std::string shown_log_dir();
  // Empty before the first open, unless staged.
  std::optional<Slabs> shown_posix_slabs();

  // cuFileDriverSet*: any time; shows in the properties at once.
  void adjust(CUFileSizeTConfigParameter_t id, std::size_t value);
  void adjust(CUFileBoolConfigParameter_t id, bool value);

  // Around fork: no child inherits the mutex locked by a thread that it does not have.
  void before_fork() { mutex_.lock(); }
  void after_fork() { mutex_.unlock(); }

 private:
  // With mutex_ held.
  void require_closed() const;
  int version() const;
  void stage(std::size_t key, Value value);
  void change(std::size_t key, Value value);
  const Value* staged(std::size_t key) const;
  bool is_fresh() const { return !running_ && !has_run_; }

  const Sources sources_;
  std::mutex mutex_;
  std::shared_ptr<const Config> running_;  // null while the driver is closed
  std::vector<Change> staged_;             // in the order of the calls: the last one wins
  bool has_run_ = false;                   // at any time
  bool was_asked_for_ = false;             // by a call that shows the properties
  std::vector<Change> used_up_;            // what was staged for the present life
  std::set<std::string> told_;             // notes that have been handed out
};

}  // namespace sluice::config
