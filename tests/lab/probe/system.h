// SPDX-License-Identifier: Apache-2.0
// Small wrappers of system calls.
#pragma once

#include <sys/types.h>

#include <cerrno>
#include <cstddef>
#include <span>
#include <string>

namespace sluice::lab {

// What a call returned, or its errno, negative. Wrap the call itself: answer(pread(...)).
inline ssize_t answer(ssize_t result) {
  return result < 0 ? -static_cast<ssize_t>(errno) : result;
}

// The value of an environment variable; throws std::runtime_error when it is not set.
std::string environment(const char* name);

// A descriptor that is closed at the end of its scope. Throws std::system_error when the file cannot be opened.
class File {
 public:
  File(const std::string& path, int flags);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

// All of it or an exception: for ordinary memory, where nothing but success will do.
void must_read(int fd, std::span<std::byte> memory, off_t offset);
void must_write(int fd, std::span<const std::byte> memory, off_t offset);

}  // namespace sluice::lab
