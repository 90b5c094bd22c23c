// SPDX-License-Identifier: Apache-2.0
// Private descriptions of the caller's files, without O_DIRECT: for the ragged edges of a direct write, which the
// caller's own descriptor cannot do. Closing any descriptor of an inode drops the process's POSIX record locks on it,
// so these live in threads that have descriptor tables of their own (CLOSE_RANGE_UNSHARE), and these threads do the
// I/O on them: one for each file system or device that is worked on, since one that does not answer keeps its thread.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/outcome.h"
#include "base/strong.h"

namespace sluice::io {

// One file's private description. Opened with the first use; closed when this goes, or soon after where its storage
// does not answer.
class PrivateFile {
 public:
  // `fd` is the caller's and must be open whenever the file is first read or written; `device` and `inode` say which
  // file it was, `extra_flags` are the O_SYNC or O_DSYNC that it was opened with.
  PrivateFile(int fd, dev_t device, ino_t inode, int extra_flags) noexcept;
  ~PrivateFile();
  PrivateFile(const PrivateFile&) = delete;
  PrivateFile& operator=(const PrivateFile&) = delete;

  // As io::read_span and write_span on a buffered descriptor. Any thread; requests for one storage are served in
  // turn. Where the file cannot be opened a second time (no /proc, permissions have changed) the caller's own
  // description is used, with O_DIRECT taken off it for the length of the call. EBADF where the descriptor belongs to
  // another file by now.
  base::Outcome read(std::span<std::byte> into, base::FileOffset at) noexcept;
  base::Outcome write(std::span<const std::byte> from, base::FileOffset at) noexcept;

  // Around fork: a child starts without the serving threads; its private files are opened anew.
  static void before_fork() noexcept;
  static void after_fork(bool in_child) noexcept;

 private:
  enum class Kind : std::uint8_t;
  struct Description;
  struct Job;
  struct Closing;
  struct Startup;
  struct IoQueue;
  struct IoQueues;
  struct BufferedIoThread;
  static IoQueues queues;
  base::Outcome ask(std::span<std::byte> bytes, base::FileOffset at, bool writing) noexcept;

  const int caller_fd_;
  const dev_t device_;
  const ino_t inode_;
  const int extra_flags_;
  IoQueue& queue_;
  std::unique_ptr<Description> description_;  // touched by the serving thread only
};

}  // namespace sluice::io
