// Private descriptions of the caller's files, without O_DIRECT: for the ragged edges of a direct write, which the
// caller's own descriptor cannot do. Closing any descriptor of an inode drops the process's POSIX record locks on it,
// so these live in a thread that has a descriptor table of its own (CLOSE_RANGE_UNSHARE), and that thread does the
// I/O on them.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <span>

#include "base/outcome.h"
#include "base/strong.h"

namespace sluice::engine {

// One file's private description. Opened with the first use; closed when this goes.
class PrivateFile {
 public:
  // `fd` is the caller's and must be open whenever the file is first read or written; `device` and `inode` say which
  // file it was, `extra_flags` are the O_SYNC or O_DSYNC that it was opened with.
  PrivateFile(int fd, dev_t device, ino_t inode, int extra_flags) noexcept;
  ~PrivateFile();
  PrivateFile(const PrivateFile&) = delete;
  PrivateFile& operator=(const PrivateFile&) = delete;

  // As engine::read_span and write_span on a buffered descriptor. Any thread; requests of all threads are served in
  // turn. Where the file cannot be opened a second time (no /proc, permissions have changed) the caller's own
  // description is used, with O_DIRECT taken off it for the length of the call. EBADF where the descriptor belongs to
  // another file by now.
  base::Outcome read(std::span<std::byte> into, base::FileOffset at) noexcept;
  base::Outcome write(std::span<const std::byte> from, base::FileOffset at) noexcept;

 private:
  struct Description;
  base::Outcome ask(std::span<std::byte> bytes, base::FileOffset at, bool writing) noexcept;

  const int caller_fd_;
  const dev_t device_;
  const ino_t inode_;
  const int extra_flags_;
  std::unique_ptr<Description> description_;  // touched by the serving thread only
};

// Around fork: a child starts without the serving thread; its private files are opened anew.
void private_files_before_fork() noexcept;
void private_files_after_fork(bool in_child) noexcept;

}  // namespace sluice::engine
