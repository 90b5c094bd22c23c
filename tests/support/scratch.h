// SPDX-License-Identifier: Apache-2.0
// Where tests keep their files: the places that scratch_fs.sh has made, and files in them that vanish with their scope.
#pragma once

#include <fcntl.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "support/random.h"

namespace sluice::support {

// A descriptor that is closed at the end of its scope.
class Fd {
 public:
  explicit Fd(int fd = -1) : fd_(fd) {}
  Fd(Fd&& other) noexcept;
  Fd& operator=(Fd&& other) noexcept;
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() { reset(); }
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  void reset();

 private:
  int fd_;
};

// One file system, or one raw block device, to test on.
struct Place {
  std::string name;     // "ext4", "tmpfs", "loop", ...
  std::string path;     // a directory, or the device
  std::string why_not;  // not empty: it could not be made, for this reason
};

// What SLUICE_TEST_PLACES (a file that scratch_fs.sh wrote) lists; without it, the working directory as "here" and
// /dev/shm as "shm".
const std::vector<Place>& places();

// The named place, or nullptr when it does not exist or could not be made.
const Place* find_place(const std::string& name);

// Holds a place that only one test program at a time may use (a raw device, a file system that is filled up) for as
// long as the descriptor is open; waits for another holder.
Fd hold(const Place& place);

// A directory on a disk file system that takes O_DIRECT: ext4 where there is one, else the first that will do.
const std::string& disk_directory();

// A file with a unique name in `directory`, removed at the end of the scope.
class ScratchFile {
 public:
  explicit ScratchFile(std::span<const unsigned char> content, const std::string& directory = disk_directory());
  explicit ScratchFile(std::size_t random_length = 0);
  ~ScratchFile();
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  const std::string& path() const { return path_; }
  // What the file held at first.
  const Bytes& content() const { return content_; }
  // A new descriptor; throws when the file cannot be opened that way.
  Fd open(int flags) const;
  void unlink() const;

 private:
  std::string path_;
  Bytes content_;
};

// Plain reading and writing, to know the truth. They throw on an error.
Bytes plain_read(int fd, std::uint64_t offset, std::size_t length);  // shorter at the end of the file
void plain_write(int fd, std::uint64_t offset, std::span<const unsigned char> bytes);
std::uint64_t file_size(int fd);
// The whole of a file, read afresh by its name.
Bytes content_of(const std::string& path);

}  // namespace sluice::support
