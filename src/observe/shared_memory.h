// SPDX-License-Identifier: Apache-2.0
// Memory that others may look at and only this process can write: a memfd of fixed size, sealed, with a mapping of our
// own. Statistics and traces lie in such.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace sluice::observe {

// The descriptor of a memfd, which a program may close as any other: only a look at what it is makes it ours.
struct Shown {
  int fd = -1;
  dev_t device = 0;
  ino_t inode = 0;

  bool is_still_ours() const noexcept;
};

// How the memory comes: all of it now, so that no page is missing later; or page by page, where the caller asks for
// pages before it touches them.
enum class Pages : unsigned char { all_now, as_asked };

// A new memfd of that name and size, without a mapping; -1 and errno where none is to be had. Beyond the process's
// limit of file sizes there is none, since the kernel would send a signal instead of an answer.
int create_shared_memory(const char* name, std::size_t size, Pages pages) noexcept;

// The process's own mapping: anywhere, or at `place`. Null: errno says why.
void* map_shared_memory(int fd, std::size_t size, void* place) noexcept;

// When the mapping is there: from now on the size stays, and no other mapping can be written.
void seal_shared_memory(int fd) noexcept;

// Low numbers are a program's own business: some close 0 and count on getting it back, some still use select().
int move_out_of_the_way(int fd) noexcept;

Shown shown_by(int fd) noexcept;

}  // namespace sluice::observe
