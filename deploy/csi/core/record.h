// SPDX-License-Identifier: Apache-2.0
// The one small file that a volume or a snapshot has: what the kernel does not keep. Written beside its place, then
// renamed, so that a reader sees the old one or the new one whole.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/types.h"

namespace sluice::csi {

enum class RecordKind : std::uint8_t { volume, snapshot };

// making: the call that makes it has not come to its end; the same call begins it anew. removing: nothing but removal
// is left.
enum class RecordState : std::uint8_t { making, ready, removing };

struct Record {
  RecordKind kind = RecordKind::volume;
  RecordState state = RecordState::making;
  std::string id;
  std::string name;
  std::int64_t bytes = 0;     // of a volume its capacity, of a snapshot what is charged for it
  std::int64_t created = 0;   // seconds since 1970
  std::uint32_t project = 0;  // the quota's
  std::int64_t wiped = 0;     // of a partition that is being removed: so many bytes are zeroes
  std::string backend;
  Content source;  // of a snapshot the volume
  Map parameters;  // the class's, as given
  Map mutable_parameters;
  std::string direct_path;         // what the last trial said
  std::vector<std::string> notes;  // options that were left out, and why
};

std::string to_json(const Record& record);
std::optional<Record> record_from_json(const std::string& text);

// A folder of records, one file each: ID.json. Other files in it are left alone. The folder is this process's alone, so
// it is read once, on the first question. From any thread.
class RecordFolder {
 public:
  explicit RecordFolder(std::string path) : path_(std::move(path)) {}
  std::optional<Record> read(const std::string& id) const;
  std::vector<Record> all() const;  // by id
  void write(const Record& record);
  void remove(const std::string& id);

 private:
  void load() const;

  std::string path_;
  mutable std::mutex mutex_;
  mutable bool loaded_ = false;
  mutable std::map<std::string, Record> records_;
};

// Writes a file so that after a crash it is the old one or the new one, whole.
enum class Readers : std::uint8_t { root, all };
void write_durably(const std::string& path, const std::string& text, Readers readers = Readers::root);

// Ids become names of files and folders: letters, digits, '.', '-' and '_', at most 128, no leading dot.
bool is_safe_id(const std::string& id);

}  // namespace sluice::csi
