// SPDX-License-Identifier: Apache-2.0
#include "core/record.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/unique_fd.h"
#include "core/refusal.h"
#include "facts/read.h"

namespace sluice::csi {
namespace {

using Json = nlohmann::ordered_json;

const char* word_of(RecordState state) {
  if (state == RecordState::making) return "making";
  return state == RecordState::ready ? "ready" : "removing";
}

RecordState state_of(const std::string& word) {
  if (word == "making") return RecordState::making;
  return word == "ready" ? RecordState::ready : RecordState::removing;
}

const char* word_of(ContentKind kind) {
  if (kind == ContentKind::empty) return "";
  return kind == ContentKind::snapshot ? "snapshot" : "volume";
}

ContentKind content_of(const std::string& word) {
  if (word.empty()) return ContentKind::empty;
  return word == "snapshot" ? ContentKind::snapshot : ContentKind::volume;
}

void sync_folder(const std::string& path) {
  const base::UniqueFd folder(open(std::string(facts::parent_path(path)).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder) fsync(folder.get());
}

}  // namespace

std::string to_json(const Record& record) {
  Json json;
  json["format"] = 1;
  json["kind"] = record.kind == RecordKind::volume ? "volume" : "snapshot";
  json["state"] = word_of(record.state);
  json["id"] = record.id;
  json["name"] = record.name;
  json["bytes"] = record.bytes;
  json["created"] = record.created;
  json["project"] = record.project;
  if (record.wiped != 0) json["wiped"] = record.wiped;
  json["backend"] = record.backend;
  json["source"] = {{"kind", word_of(record.source.kind)}, {"id", record.source.id}};
  json["parameters"] = record.parameters;
  json["mutable"] = record.mutable_parameters;
  json["directPath"] = record.direct_path;
  json["notes"] = record.notes;
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::optional<Record> record_from_json(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.is_object()) return std::nullopt;
  try {
    if (json.at("format") != 1) return std::nullopt;
    Record record;
    record.kind = json.at("kind") == "volume" ? RecordKind::volume : RecordKind::snapshot;
    record.state = state_of(json.at("state"));
    record.id = json.at("id");
    record.name = json.at("name");
    record.bytes = json.at("bytes");
    record.created = json.at("created");
    record.project = json.at("project");
    record.wiped = json.value("wiped", std::int64_t{0});
    record.backend = json.at("backend");
    record.source = {content_of(json.at("source").at("kind")), json.at("source").at("id")};
    record.parameters = json.at("parameters").get<Map>();
    record.mutable_parameters = json.at("mutable").get<Map>();
    record.direct_path = json.at("directPath");
    record.notes = json.at("notes").get<std::vector<std::string>>();
    return record;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

bool is_safe_id(const std::string& id) {
  if (id.empty() || id.size() > 128 || id.front() == '.') return false;
  return std::all_of(id.begin(), id.end(), [](char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') || (letter >= '0' && letter <= '9') ||
           letter == '.' || letter == '-' || letter == '_';
  });
}

void write_durably(const std::string& path, const std::string& text, Readers readers) {
  const std::string beside = path + ".new";
  const base::UniqueFd file(open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) refuse_errno("making " + beside, errno);
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t written = write(file.get(), text.data() + done, text.size() - done);
    if (written <= 0) refuse_errno("writing " + beside, errno);
    done += static_cast<std::size_t>(written);
  }
  if (readers == Readers::all && fchmod(file.get(), 0644) != 0) refuse_errno("setting the mode of " + beside, errno);
  if (fsync(file.get()) != 0) refuse_errno("writing " + beside, errno);
  if (rename(beside.c_str(), path.c_str()) != 0) refuse_errno("renaming " + beside, errno);
  sync_folder(path);
}

void RecordFolder::load() const {
  constexpr std::string_view ending = ".json";
  if (loaded_) return;
  for (const std::string& name : facts::list_names(path_)) {
    if (name.size() <= ending.size() || !std::string_view(name).ends_with(ending)) continue;
    const std::string id = name.substr(0, name.size() - ending.size());
    std::optional<Record> record = record_from_json(facts::read_text(path_ + "/" + name).value_or(""));
    if (!record || record->id != id) {
      refuse(Code::internal, path_ + "/" + name + " is damaged. Restore it, or remove it together with its volume.");
    }
    records_.emplace(id, std::move(*record));
  }
  loaded_ = true;
}

std::optional<Record> RecordFolder::read(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  load();
  const auto found = records_.find(id);
  if (found == records_.end()) return std::nullopt;
  return found->second;
}

std::vector<Record> RecordFolder::all() const {
  const std::lock_guard lock(mutex_);
  load();
  std::vector<Record> all;
  all.reserve(records_.size());
  for (const auto& [id, record] : records_) all.push_back(record);
  return all;
}

void RecordFolder::write(const Record& record) {
  const std::lock_guard lock(mutex_);
  load();
  write_durably(path_ + "/" + record.id + ".json", to_json(record));
  records_[record.id] = record;
}

void RecordFolder::remove(const std::string& id) {
  const std::lock_guard lock(mutex_);
  load();
  const std::string path = path_ + "/" + id + ".json";
  if (unlink(path.c_str()) != 0 && errno != ENOENT) refuse_errno("removing " + path, errno);
  sync_folder(path);
  records_.erase(id);
}

}  // namespace sluice::csi
