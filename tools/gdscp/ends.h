// SPDX-License-Identifier: Apache-2.0
// The two ends of a copy: the file that is read, with its holes, and the one that comes to be.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "cufile.h"

namespace sluice::tools {

struct FilePart {
  std::uint64_t offset;
  std::uint64_t size;
};

// What a copy of `source` is called when `asked` is the destination: that, or a file in it.
std::string named_destination(const std::string& source, const std::string& asked);

// The file that it goes to: the one of that name, or where a link of that name leads. Throws ToolError when source and
// destination are the same file or it cannot be one.
std::string destination_of(const std::string& source, const std::string& asked);

// Open, by O_DIRECT where the file system knows it, and registered.
class CopyEnd {
 public:
  CopyEnd(const CopyEnd&) = delete;
  CopyEnd& operator=(const CopyEnd&) = delete;

  int descriptor() const noexcept { return descriptor_; }

 protected:
  CopyEnd() = default;
  ~CopyEnd();
  // Takes the descriptor over.
  void register_descriptor(int descriptor, const std::string& path);

  int descriptor_ = -1;
  CUfileHandle_t handle_ = nullptr;
};

class SourceFile : public CopyEnd {
 public:
  explicit SourceFile(const std::string& path);  // throws ToolError

  std::uint64_t size() const noexcept { return size_; }
  mode_t mode() const noexcept { return mode_; }
  uid_t owner() const noexcept { return owner_; }
  gid_t group() const noexcept { return group_; }
  // Its parts that are no holes, in order; all of it where the file system does not tell.
  std::vector<FilePart> data() const;
  // Reads at most `size` bytes, at least one, into device memory. Throws ToolError.
  std::uint64_t read(void* memory, std::uint64_t offset, std::uint64_t size) const;

 private:
  std::string path_;
  std::uint64_t size_ = 0;
  mode_t mode_ = 0;
  uid_t owner_ = 0;
  gid_t group_ = 0;
};

// Under a name of its own until publish(); gone when it was not published, even if a signal ends the program.
class NewFile : public CopyEnd {
 public:
  explicit NewFile(std::string destination);  // throws ToolError
  ~NewFile();

  void write(const void* memory, std::uint64_t offset, std::uint64_t size) const;
  // Gives the file the source's size and mode and makes it durable. Without the set-user-ID bit where owner or group
  // is another one, and without the set-group-ID bit where the group is.
  void settle(const SourceFile& source) const;
  // Reads both without cuFile and throws ToolError where they differ.
  void compare_with(const SourceFile& source) const;
  // Gives it the destination's name, and makes that durable, too.
  void publish();

 private:
  std::string destination_;
  std::string path_;
  bool published_ = false;
};

// Device memory known to cuFile as long as this lives.
class RegisteredRange {
 public:
  RegisteredRange(const void* address, std::size_t size);
  RegisteredRange(const RegisteredRange&) = delete;
  RegisteredRange& operator=(const RegisteredRange&) = delete;
  ~RegisteredRange();

 private:
  const void* address_;
};

}  // namespace sluice::tools
