// SPDX-License-Identifier: Apache-2.0
#include "server/folder.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <system_error>

namespace rdma_files {

Folder::Folder(const std::string& path) : fd_(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)) {
  if (fd_.get() < 0) throw std::system_error(errno, std::generic_category(), path);
}

Folder::Opened Folder::open(const Open& request) const {
  if (!is_plain_name(request.name)) return {.error = EACCES};
  const bool writable = (request.flags & kOpenWrite) != 0;
  // O_NONBLOCK: a FIFO, which is refused below, must not keep the server waiting for its other end.
  const int flags = (writable ? O_RDWR : O_RDONLY) | ((request.flags & kOpenCreate) != 0 ? O_CREAT : 0) | O_NOFOLLOW |
                    O_NONBLOCK | O_CLOEXEC;
  Fd fd(::openat(fd_.get(), request.name.c_str(), flags, 0640));
  struct stat about {};
  if (fd.get() < 0 || ::fstat(fd.get(), &about) != 0) return {.error = errno == ELOOP ? EACCES : errno};
  if (!S_ISREG(about.st_mode)) return {.error = EACCES};
  if ((request.flags & kOpenTruncate) != 0) {
    if (::ftruncate(fd.get(), 0) != 0) return {.error = errno};
    about.st_size = 0;
  }
  return {.file = std::make_shared<const ServedFile>(ServedFile{std::move(fd), writable}),
          .size = static_cast<std::uint64_t>(about.st_size)};
}

}  // namespace rdma_files
