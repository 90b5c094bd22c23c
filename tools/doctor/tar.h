// SPDX-License-Identifier: Apache-2.0
// The little of the tar format (ustar) that recorded machines need: folders, small files, symbolic links.
#pragma once

#include <map>
#include <string>

namespace sluice::doctor {

class TarWriter {
 public:
  // Paths are absolute ones of the machine; each is written once, however often it is asked for. Folders above are
  // made.
  void folder(const std::string& path);
  void file(const std::string& path, const std::string& content);
  void link(const std::string& path, const std::string& target);

  std::size_t size() const { return entries_.size(); }
  // The archive as a file holds it.
  std::string whole() const;

 private:
  struct Entry {
    char kind;  // '0' file, '2' link, '5' folder
    std::string content;
  };
  void add(const std::string& path, Entry entry);

  std::map<std::string, Entry> entries_;
};

// Unpacks below `folder`. Names that lead out of it, and links that do, are refused: throws std::runtime_error. Throws
// ToolError where there is no room.
void unpack_tar(const std::string& path, const std::string& folder);

}  // namespace sluice::doctor
