// SPDX-License-Identifier: Apache-2.0
// Staging and running configuration. A change to the running one makes a new value; readers keep the one they hold.
#include "config/store.h"

#include <algorithm>
#include <array>
#include <climits>
#include <utility>

#include "base/failure.h"

namespace sluice::config {

using base::Failure;

namespace {

constexpr std::int64_t oldest_version = 1150;

std::vector<std::int64_t> as_numbers(const std::vector<std::size_t>& sizes) {
  std::vector<std::int64_t> numbers(sizes.size());
  std::transform(sizes.begin(), sizes.end(), numbers.begin(),
                 [](std::size_t n) { return static_cast<std::int64_t>(n); });
  return numbers;
}

// One line for stderr: the first unusable thing, and how many more there are.
std::string headline(const std::vector<Note>& notes) {
  const auto unusable = [](const Note& note) { return note.level == LogLevel::error; };
  const auto first = std::find_if(notes.begin(), notes.end(), unusable);
  if (first == notes.end()) return {};
  const auto more = std::count_if(std::next(first), notes.end(), unusable);
  return "sluice: " + first->text + (more > 0 ? " (" + std::to_string(more) + " more: see gdscheck -p)" : "") + "\n";
}

}  // namespace

std::shared_ptr<const Config> Store::begin_session(std::vector<Note>& fresh) {
  const std::lock_guard lock(mutex_);
  running_ = std::make_shared<const Config>(make_config(sources_, staged_));
  has_run_ = true;
  used_up_ = std::exchange(staged_, {});
  std::vector<Note> now;
  std::copy_if(running_->notes.begin(), running_->notes.end(), std::back_inserter(now),
               [&](const Note& note) { return told_.insert(note.text).second; });
  if (const std::string line = headline(now); !line.empty()) sources_.say(line);
  fresh.insert(fresh.end(), now.begin(), now.end());
  return running_;
}

void Store::end_session() {
  const std::lock_guard lock(mutex_);
  running_.reset();
  used_up_.clear();
}

void Store::refuse_session() {
  const std::lock_guard lock(mutex_);
  running_.reset();
  staged_ = std::exchange(used_up_, {});
}

std::shared_ptr<const Config> Store::current() {
  std::vector<Change> changes;
  {
    const std::lock_guard lock(mutex_);
    if (running_) return running_;
    changes = staged_;
  }
  // Reading a file can take its time: no thread waits for it.
  return std::make_shared<const Config>(make_config(sources_, changes));
}

std::shared_ptr<const Config> Store::asked_for() {
  {
    const std::lock_guard lock(mutex_);
    was_asked_for_ = true;
  }
  return current();
}

// The version that is reported. Only what a later one knows asks for it.
int Store::version() const {
  return running_ ? running_->api_version : make_config(sources_, staged_).api_version;
}

void Store::require_closed() const {
  if (running_) {
    throw Failure(CU_FILE_DRIVER_ALREADY_OPEN,
                  "parameters can only be set before the driver is opened: close it first");
  }
}

void Store::stage(std::size_t key, Value value) {
  require_closed();
  const auto known = std::find_if(staged_.begin(), staged_.end(), [&](const Change& c) { return c.key == key; });
  if (known == staged_.end()) {
    staged_.push_back({key, std::move(value)});
  } else {
    known->value = std::move(value);
  }
}

void Store::set(const CUFileSizeTConfigParameter_t& id, std::size_t value) {
  const std::lock_guard lock(mutex_);
  const auto index = index_of(id);
  if (!index) throw Failure(CU_FILE_INVALID_VALUE, "no such size parameter");
  require_closed();
  stage(size_parameters[*index].index, static_cast<std::int64_t>(value));
}

void Store::set(const CUFileBoolConfigParameter_t& id, bool value) {
  const std::lock_guard lock(mutex_);
  const auto index = index_of(id);
  if (!is_known(id, oldest_version) && !is_known(id, version())) {
    throw Failure(CU_FILE_INVALID_VALUE, "no such switch in the version that is reported");
  }
  stage(bool_parameters[*index].index, value);
}

void Store::set(const CUFileStringConfigParameter_t& id, const std::string& value) {
  const std::lock_guard lock(mutex_);
  if (!is_known(id, oldest_version) && !is_known(id, version())) {
    throw Failure(CU_FILE_INVALID_VALUE, "no such text parameter in the version that is reported");
  }
  if (value.empty()) throw Failure(CU_FILE_INVALID_VALUE, "an empty text sets nothing");
  if (value.size() >= PATH_MAX) throw Failure(CU_FILE_INVALID_VALUE, "no file, folder or level has so long a name");
  require_closed();
  switch (id) {
    case CUFILE_PARAM_LOGGING_LEVEL:  // any text, as with NVIDIA's library: the log tells of unknown ones
      stage(key_at("logging.level"), value);
      break;
    case CUFILE_PARAM_ENV_LOGFILE_PATH:
      stage(key_at("sluice.log_file"), value);
      break;
    case CUFILE_PARAM_LOG_DIR:  // it may come to be there before the driver opens
      stage(key_at("logging.dir"), value);
      break;
    case CUFILE_PARAM_RDMA_TRANSPORT: {
      constexpr std::size_t key = key_at("properties.rdma_transport_type");
      auto read = read_word(keys[key], value);
      if (const auto* const objection = std::get_if<Objection>(&read)) {
        throw Failure(CU_FILE_INVALID_VALUE, std::string(keys[key].name) + " " + objection->text);
      }
      stage(key, std::get<Value>(std::move(read)));
      break;
    }
  }
}

void Store::set_posix_slabs(const Slabs& slabs) {
  const std::lock_guard lock(mutex_);
  require_closed();
  stage(key_at("properties.posix_pool_slab_size_kb"), as_numbers(slabs.sizes_kb));
  stage(key_at("properties.posix_pool_slab_count"), as_numbers(slabs.counts));
}

void Store::set_gpu_slabs(const Slabs& slabs) {
  const std::lock_guard lock(mutex_);
  stage(key_at("properties.gpu_bounce_buffer_slab_config.slab_size_kb"), as_numbers(slabs.sizes_kb));
  stage(key_at("properties.gpu_bounce_buffer_slab_config.slab_count"), as_numbers(slabs.counts));
}

const Value* Store::staged(std::size_t key) const {
  const auto known = std::find_if(staged_.begin(), staged_.end(), [&](const Change& c) { return c.key == key; });
  return known == staged_.end() ? nullptr : &known->value;
}

std::size_t Store::shown(CUFileSizeTConfigParameter_t id) {
  constexpr std::array<std::size_t, size_parameter_count> at_first{0, 128, 0, 1024};
  constexpr std::array<std::size_t, size_parameter_count> after_a_close{
      0, 128, 0, 1024, 0, 1024, 131072, 1024, 18014398509481980, 128, 4, 5};
  const auto index = static_cast<std::size_t>(id);
  const std::lock_guard lock(mutex_);
  if (running_) return running_->sizes[index];
  if (const Value* const value = staged(size_parameters[index].index)) {
    return static_cast<std::size_t>(std::get<std::int64_t>(*value));
  }
  return has_run_ ? after_a_close[index] : at_first[index];
}

bool Store::shown(CUFileBoolConfigParameter_t id) {
  const std::lock_guard lock(mutex_);
  if (running_) return running_->flag(id);
  if (const Value* const value = staged(bool_parameters[static_cast<std::size_t>(id)].index)) {
    return std::get<bool>(*value);
  }
  const bool built_in =
      id == CUFILE_PARAM_PROPERTIES_ALLOW_COMPAT_MODE || id == CUFILE_PARAM_PROPERTIES_ALLOW_SYSTEM_MEMORY;
  return has_run_ && built_in;
}

std::string Store::shown_log_level() {
  {
    const std::lock_guard lock(mutex_);
    if (is_fresh() && !was_asked_for_ && staged(key_at("logging.level")) == nullptr) return {};
  }
  return current()->log_level;
}

std::string Store::shown_log_dir() {
  {
    const std::lock_guard lock(mutex_);
    const Value* const value = running_ ? nullptr : staged(key_at("logging.dir"));
    if (value != nullptr) return std::get<std::string>(*value);
  }
  return current()->log_dir;
}

std::optional<Slabs> Store::shown_posix_slabs() {
  {
    const std::lock_guard lock(mutex_);
    if (is_fresh() && staged(key_at("properties.posix_pool_slab_size_kb")) == nullptr) return std::nullopt;
  }
  return current()->posix_slabs;
}

void Store::change(std::size_t key, Value value) {
  if (!running_) {
    stage(key, std::move(value));
    return;
  }
  auto changed = std::make_shared<Config>(*running_);
  changed->set(key, std::move(value), Origin::parameter);
  running_ = std::move(changed);
}

void Store::adjust(CUFileSizeTConfigParameter_t id, std::size_t value) {
  const std::lock_guard lock(mutex_);
  change(size_parameters[static_cast<std::size_t>(id)].index, static_cast<std::int64_t>(value));
}

void Store::adjust(CUFileBoolConfigParameter_t id, bool value) {
  const std::lock_guard lock(mutex_);
  change(bool_parameters[static_cast<std::size_t>(id)].index, value);
}

}  // namespace sluice::config
