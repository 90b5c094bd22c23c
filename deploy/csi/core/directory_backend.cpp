// SPDX-License-Identifier: Apache-2.0
#include "core/directory_backend.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "base/unique_fd.h"
#include "core/bytes.h"
#include "core/copy_tree.h"
#include "core/refusal.h"
#include "facts/read.h"

namespace sluice::csi {
namespace {

namespace fs = std::filesystem;

constexpr SizeRule directory_sizes = {4 * kibibyte, mebibyte, gibibyte};
constexpr std::uint32_t first_project = 0x5c000000;  // far from those that people give by hand

std::string new_pool_id() {
  std::random_device random;
  return fmt::format("{:08x}", random());
}

void remove_tree(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) refuse(Code::internal, "removing " + path + ": " + error.message() + ". Mend it; the next call goes on.");
}

// One MiB of bytes that are not zero, for trials of the direct path.
void make_trial_file(const std::string& path) {
  if (facts::exists(path)) return;
  std::string bytes(static_cast<std::size_t>(mebibyte), '\0');
  std::uint32_t state = 1;
  for (char& byte : bytes) {
    state = state * 1664525U + 1013904223U;
    byte = static_cast<char>(state >> 24);
  }
  write_durably(path, bytes);
}

struct FileSystemSize {
  std::int64_t total = 0;
  std::int64_t free = 0;
};

FileSystemSize size_of(const std::string& path) {
  struct statvfs status {};
  if (statvfs(path.c_str(), &status) != 0) refuse_errno("looking at " + path, errno);
  const auto block = static_cast<std::int64_t>(status.f_frsize);
  return {static_cast<std::int64_t>(status.f_blocks) * block, static_cast<std::int64_t>(status.f_bavail) * block};
}

}  // namespace

DirectoryBackend::DirectoryBackend(DirectoryOptions options)
    : RecordedBackend(options.path + "/sluice-csi/records", options.at_step),
      options_(std::move(options)),
      home_(options_.path + "/sluice-csi") {
  open_pool();
  sweep();
}

void DirectoryBackend::open_pool() {
  const std::optional<facts::Mount> mount = mount_of(all_mounts(), options_.path);
  if (!mount || !facts::exists(options_.path)) {
    refuse(Code::failed_precondition, options_.path + " is not there. Mount the pool's xfs at it.");
  }
  if (mount->type != "xfs") {
    refuse(Code::failed_precondition,
           fmt::format("{} lies on {}. Volumes of backend directory need xfs: mkfs.xfs DRIVE, then "
                       "mount -o prjquota DRIVE {}.",
                       options_.path, mount->type, options_.path));
  }
  quota_ = open_quota(options_.path, options_.quota);
  device_ = mount->device;
  root_ = path_in_file_system(*mount, home_);
  for (const char* const folder : {"", "/volumes", "/snapshots", "/records", "/making", "/trash"}) {
    make_folder(home_ + folder, 0700);
  }
  make_trial_file(home_ + "/trial");
  const std::optional<std::string> text = facts::read_text(home_ + "/pool.json");
  const nlohmann::json pool = nlohmann::json::parse(text.value_or(""), nullptr, false);
  const FileSystemSize size = size_of(home_);
  if (pool.is_object() && pool.contains("id") && pool.contains("overhead")) {
    pool_id_ = pool["id"];
    usable_ = size.total - pool["overhead"].get<std::int64_t>();
    return;
  }
  // What the file system keeps for itself, seen once while the pool is empty; a hundredth more for what grows with it.
  pool_id_ = new_pool_id();
  const std::int64_t overhead = size.total - size.free + size.total / 100;
  write_durably(home_ + "/pool.json", nlohmann::json{{"id", pool_id_}, {"overhead", overhead}}.dump() + "\n");
  usable_ = size.total - overhead;
}

// A volume that was being removed goes on being removed; one that was being made waits for the call that makes it.
void DirectoryBackend::sweep() {
  for (const std::string& name : facts::list_names(home_ + "/trash")) remove_tree(home_ + "/trash/" + name);
  std::set<std::string> known;
  for (const Record& record : records_.all()) {
    if (record.state == RecordState::removing) {
      discard(record);
    } else {
      known.insert(record.id);
    }
  }
  for (const std::string& name : facts::list_names(home_ + "/making")) {
    if (!known.contains(name)) remove_tree(home_ + "/making/" + name);
  }
}

std::string DirectoryBackend::drive(const std::string& /*id*/) const {
  const std::optional<std::string> link =
      facts::read_link(fmt::format("/sys/dev/block/{}:{}", major(device_), minor(device_)));
  return link ? std::string(facts::last_component(*link)) : std::string();
}

std::string DirectoryBackend::folder_of(const Record& record) const {
  return home_ + (record.kind == RecordKind::volume ? "/volumes/" : "/snapshots/") + record.id;
}

std::int64_t DirectoryBackend::promised() const {
  std::int64_t sum = 0;
  for (const Record& record : records_.all()) sum += record.bytes;
  return sum;
}

std::int64_t DirectoryBackend::available() {
  const std::lock_guard lock(mutex_);
  return std::max<std::int64_t>(0, usable_ - promised()) / directory_sizes.step * directory_sizes.step;
}

std::int64_t DirectoryBackend::smallest() const {
  return directory_sizes.least;
}

void DirectoryBackend::want_room(std::int64_t bytes) const {
  const std::int64_t left = std::max<std::int64_t>(0, usable_ - promised());
  if (bytes <= left) return;
  refuse(Code::resource_exhausted,
         fmt::format("{} has {} bytes left, and {} are wanted. Remove volumes or snapshots, or use "
                     "another node.",
                     options_.path, left, bytes));
}

std::uint32_t DirectoryBackend::free_project() const {
  std::set<std::uint32_t> used;
  for (const Record& record : records_.all()) used.insert(record.project);
  std::uint32_t project = first_project;
  while (used.contains(project)) ++project;
  return project;
}

Record DirectoryBackend::create(const VolumeRequest& request) {
  const std::string id = pool_id_ + "-" + digest_of(request.name);
  std::unique_lock lock(mutex_);
  std::optional<Record> record = records_.read(id);
  if (record && record->state == RecordState::ready) return *record;
  if (record && (record->state == RecordState::removing || !fits(record->bytes, request.range) ||
                 record->source != request.source)) {
    // What an earlier, different call of this name has left unfinished was never told to a caller.
    discard(*record);
    record.reset();
  }
  if (!record) {
    record.emplace();
    record->id = id;
    record->name = request.name;
    record->created = std::time(nullptr);
    record->backend = name_of(kind());
    record->source = request.source;
    record->parameters = request.parameters;
    record->mutable_parameters = request.mutable_parameters;
    record->bytes = size_for(request.range, directory_sizes);
    if (record->source.kind != ContentKind::empty) {
      const bool snapshot = record->source.kind == ContentKind::snapshot;
      const Record source = need(record->source.id, snapshot ? RecordKind::snapshot : RecordKind::volume);
      if (source.bytes > record->bytes) {
        refuse(Code::out_of_range, fmt::format("The source has {} bytes, and {} are wanted. Ask for at least as many.",
                                               source.bytes, record->bytes));
      }
    }
    want_room(record->bytes);
    record->project = free_project();
    records_.write(*record);
  }
  lock.unlock();
  reached("create: recorded");
  fill(*record, making(id));
  reached("create: filled");
  finish(*record);
  return *record;
}

// Makes the folder of a record where no call looks yet, with its quota, and the content of its source.
void DirectoryBackend::fill(const Record& record, const std::string& folder) {
  if (facts::exists(folder_of(record))) return;  // an earlier call came as far as the renaming
  remove_tree(folder);
  make_folder(folder, 0755);
  if (record.kind == RecordKind::volume) quota_->assign(folder, record.project, record.bytes);
  reached("fill: made");
  if (record.source.kind == ContentKind::empty) return;
  const RecordKind kind = record.source.kind == ContentKind::snapshot ? RecordKind::snapshot : RecordKind::volume;
  const std::string from = folder_of(need(record.source.id, kind));
  copy_tree(from, folder, Sharing::require);
}

void DirectoryBackend::finish(Record& record) {
  const std::string from = making(record.id);
  const base::UniqueFd folder(
      open(facts::exists(from) ? from.c_str() : home_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder || syncfs(folder.get()) != 0) refuse_errno("writing " + from, errno);
  if (rename(from.c_str(), folder_of(record).c_str()) != 0 && !facts::exists(folder_of(record))) {
    refuse_errno("renaming " + from, errno);
  }
  reached("finish: renamed");
  record.state = RecordState::ready;
  records_.write(record);
  reached("finish: ready");
}

// Takes everything of a record away, the record last.
void DirectoryBackend::discard(Record record) {
  record.state = RecordState::removing;
  records_.write(record);
  reached("discard: recorded");
  const std::string trash = home_ + "/trash/" + record.id;
  for (const std::string& from : {folder_of(record), making(record.id)}) {
    remove_tree(trash);
    if (rename(from.c_str(), trash.c_str()) != 0 && errno != ENOENT) refuse_errno("renaming " + from, errno);
    reached("discard: renamed");
    remove_tree(trash);
  }
  if (record.project != 0) quota_->set_limit(record.project, 0);
  records_.remove(record.id);
}

void DirectoryBackend::remove(const std::string& id) {
  const std::optional<Record> record = records_.read(id);
  if (!record || record->kind != RecordKind::volume) return;
  const std::vector<facts::Mount> used = places(id, all_mounts());
  if (!used.empty()) {
    refuse(Code::failed_precondition,
           id + " is mounted at " + used.front().point + ". Unpublish and unstage it first.");
  }
  discard(*record);
}

Record DirectoryBackend::grow(const std::string& id, std::int64_t bytes, const std::string& /*path*/) {
  const std::lock_guard lock(mutex_);
  Record record = need(id, RecordKind::volume);
  const std::int64_t wanted = size_for({bytes, 0}, directory_sizes);
  if (wanted > record.bytes) {
    want_room(wanted - record.bytes);
    record.bytes = wanted;
    records_.write(record);  // first: a promise that was given is never larger than what is recorded
  }
  reached("grow: recorded");
  quota_->set_limit(record.project, record.bytes);
  return record;
}

Record DirectoryBackend::snapshot(const std::string& name, const std::string& volume) {
  const std::string id = pool_id_ + "-s" + digest_of(name);
  std::unique_lock lock(mutex_);
  std::optional<Record> record = records_.read(id);
  if (record && record->state == RecordState::ready) return *record;
  if (record && (record->state == RecordState::removing || record->source.id != volume)) {
    discard(*record);
    record.reset();
  }
  const Record source = need(volume, RecordKind::volume);
  if (!record) {
    record.emplace();
    record->kind = RecordKind::snapshot;
    record->id = id;
    record->name = name;
    record->created = std::time(nullptr);
    record->backend = name_of(kind());
    record->source = {ContentKind::volume, volume};
    // Charged in full: the volume may write every one of its blocks anew.
    record->bytes = source.bytes;
    want_room(record->bytes);
    records_.write(*record);
  }
  lock.unlock();
  reached("snapshot: recorded");
  fill(*record, making(id));
  reached("snapshot: filled");
  finish(*record);
  return *record;
}

void DirectoryBackend::remove_snapshot(const std::string& id) {
  const std::optional<Record> record = records_.read(id);
  if (record && record->kind == RecordKind::snapshot) discard(*record);
}

}  // namespace sluice::csi
