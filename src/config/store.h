// Where the configuration lives between calls: what has been staged before the driver opens, and the one Config that
// it runs with. Control plane only: every call takes the store's mutex.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "config/config.h"

namespace sluice::config {

class Store {
 public:
  // The Config to run with: environment, then what was staged, which is used up. Complaints are appended.
  std::shared_ptr<const Config> begin_life(std::vector<std::string>& complaints);
  // Back to staging; running setters are forgotten.
  void end_life();

  // What runs, or what would if the driver opened now.
  std::shared_ptr<const Config> current();

  // cuFileSetParameter*: before open only (CU_FILE_DRIVER_ALREADY_OPEN afterwards). Ranges are checked here: an
  // unknown id throws CU_FILE_INVALID_VALUE, a number out of range CU_FILE_DRIVER_UNSUPPORTED_LIMIT.
  void set(CUFileSizeTConfigParameter_t id, std::size_t value);
  void set(CUFileBoolConfigParameter_t id, bool value);
  void set(CUFileStringConfigParameter_t id, const std::string& value);
  void set_posix_slabs(Slabs slabs);
  void set_gpu_slabs(Slabs slabs);

  // cuFileDriverSet*: any time; shows in the properties at once.
  void adjust(CUFileSizeTConfigParameter_t id, std::size_t value);
  void adjust(CUFileBoolConfigParameter_t id, bool value);

 private:
  void require_closed() const;
  Config& staged();

  std::mutex mutex_;
  std::shared_ptr<const Config> running_;  // null while the driver is closed
  std::unique_ptr<Config> staged_;         // null until something is staged
};

}  // namespace sluice::config
