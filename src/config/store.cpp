// Staging and running configuration. A change to the running one makes a new value; readers keep the one they hold.
#include "config/store.h"

#include <sys/stat.h>

#include <utility>

#include "base/failure.h"

namespace sluice::config {

using base::Failure;

std::shared_ptr<const Config> Store::begin_life(std::vector<std::string>& complaints) {
  const std::lock_guard lock(mutex_);
  running_ = staged_ ? std::shared_ptr<const Config>(std::move(staged_))
                     : std::make_shared<const Config>(from_environment(complaints));
  return running_;
}

void Store::end_life() {
  const std::lock_guard lock(mutex_);
  running_.reset();
}

std::shared_ptr<const Config> Store::current() {
  const std::lock_guard lock(mutex_);
  if (running_) return running_;
  if (staged_) return std::make_shared<const Config>(*staged_);
  std::vector<std::string> complaints;
  return std::make_shared<const Config>(from_environment(complaints));
}

void Store::require_closed() const {
  if (running_) {
    throw Failure(CU_FILE_DRIVER_ALREADY_OPEN,
                  "parameters can only be set before the driver is opened: close it first");
  }
}

Config& Store::staged() {
  if (!staged_) {
    std::vector<std::string> complaints;
    staged_ = std::make_unique<Config>(from_environment(complaints));
  }
  return *staged_;
}

void Store::set(CUFileSizeTConfigParameter_t id, std::size_t value) {
  const std::lock_guard lock(mutex_);
  const auto index = index_of(id);
  if (!index) throw Failure(CU_FILE_INVALID_VALUE, "no such size parameter");
  require_closed();
  const SizeParameter& parameter = size_parameters[*index];
  if (!in_range(parameter, value)) {
    throw Failure(CU_FILE_DRIVER_UNSUPPORTED_LIMIT,
                  std::string(parameter.key) + " takes " + std::to_string(parameter.lowest) + " to " +
                      std::to_string(parameter.highest) + ", not " + std::to_string(value));
  }
  staged().sizes[*index] = value;
}

void Store::set(CUFileBoolConfigParameter_t id, bool value) {
  const std::lock_guard lock(mutex_);
  const auto index = index_of(id);
  if (!index) throw Failure(CU_FILE_INVALID_VALUE, "no such switch");
  require_closed();
  staged().flags[*index] = value;
}

void Store::set(CUFileStringConfigParameter_t id, const std::string& value) {
  const std::lock_guard lock(mutex_);
  if (!index_of(id)) throw Failure(CU_FILE_INVALID_VALUE, "no such text parameter");
  require_closed();
  if (value.empty()) throw Failure(CU_FILE_INVALID_VALUE, "an empty text sets nothing");
  switch (id) {
    case CUFILE_PARAM_LOGGING_LEVEL:
      if (!parse_log_level(value)) {
        throw Failure(CU_FILE_INVALID_VALUE,
                      "unknown log level " + value + ": use ERROR, WARN, NOTICE, INFO, DEBUG or TRACE");
      }
      staged().log_level = value;
      break;
    case CUFILE_PARAM_ENV_LOGFILE_PATH:
      staged().log_file = value;
      staged().log_file_given = true;
      break;
    case CUFILE_PARAM_LOG_DIR: {
      struct stat status {};
      if (::stat(value.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) {
        throw Failure(CU_FILE_INVALID_VALUE, "the log directory " + value + " does not exist: create it first");
      }
      staged().log_dir = value;
      break;
    }
  }
}

void Store::set_posix_slabs(Slabs slabs) {
  const std::lock_guard lock(mutex_);
  require_closed();
  for (const std::size_t size : slabs.sizes_kb) {
    if (size == 0 || size % 4 != 0) {
      throw Failure(CU_FILE_INVALID_VALUE, "a slab of " + std::to_string(size) + " KiB is not a number of 4 KiB pages");
    }
  }
  staged().posix_slabs = std::move(slabs);
}

void Store::set_gpu_slabs(Slabs slabs) {
  const std::lock_guard lock(mutex_);
  require_closed();
  staged().gpu_slabs = std::move(slabs);
}

void Store::adjust(CUFileSizeTConfigParameter_t id, std::size_t value) {
  const std::lock_guard lock(mutex_);
  const auto index = static_cast<std::size_t>(id);
  if (!running_) {
    staged().sizes[index] = value;
    return;
  }
  auto changed = std::make_shared<Config>(*running_);
  changed->sizes[index] = value;
  running_ = std::move(changed);
}

void Store::adjust(CUFileBoolConfigParameter_t id, bool value) {
  const std::lock_guard lock(mutex_);
  const auto index = static_cast<std::size_t>(id);
  if (!running_) {
    staged().flags[index] = value;
    return;
  }
  auto changed = std::make_shared<Config>(*running_);
  changed->flags[index] = value;
  running_ = std::move(changed);
}

}  // namespace sluice::config
