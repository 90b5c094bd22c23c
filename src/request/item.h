// SPDX-License-Identifier: Apache-2.0
// One transfer that the program has asked for: a call, an entry of a batch, a stream's turn, a part of a vectored call.
#pragma once

#include <sys/types.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "base/outcome.h"
#include "base/strong.h"
#include "facts/buffer.h"
#include "facts/descriptor_check.h"
#include "paths/grouping.h"
#include "paths/path.h"
#include "process/records.h"

namespace sluice::request {

struct Call {
  base::Direction direction = base::Direction::read;
  void* handle = nullptr;
  const void* base = nullptr;  // memory starts at base + buffer_offset
  std::size_t size = 0;
  off_t file_offset = 0;
  off_t buffer_offset = 0;

  std::uint64_t address() const noexcept {
    return reinterpret_cast<std::uint64_t>(base) + static_cast<std::uint64_t>(buffer_offset);
  }
};

// What others have done of it before.
struct Progress {
  std::uint64_t there = 0;  // bytes from its start that are in place: fewer than it asks for
  bool stopped = false;     // a path has begun it, and does not go on with it
  bool begun() const noexcept { return there > 0 || stopped; }
};

// Of an item that may go with others: its way is decided, and its memory known, before its turn.
struct Known {
  // Of two items with the same number, file and memory are the same, and all that follows. 0: that is to be compared.
  std::uint64_t alike = 0;
  const paths::Path* path = nullptr;
  paths::Grouping grouping;
  route::Reason reason = SLUICE_REASON_HOST_MEMORY;
  // Looked at once for all that are alike.
  const paths::Attachments* registered = nullptr;  // of the buffer, where all of it lies in one; pinned as the file is
  std::uint64_t storage = 0;                       // that it may wait for; 0: none
  facts::BufferFacts memory;

  bool is_like(const Known& other) const noexcept { return alike != 0 && alike == other.alike; }
};

struct Item {
  Item() = default;
  Item(const Call& asked, process::File* pinned) noexcept : call(asked), file(pinned) {}

  Call call;
  process::File* file = nullptr;  // pinned
  Known* known = nullptr;         // null: it goes by itself
  Progress progress;

  // What came of it, once it has ended: of all of it, also where others had begun it.
  bool ended = false;
  base::Outcome outcome = base::Outcome::bytes(0);
  int device = -1;                         // whose memory it was; -1: host memory
  sluice_path_t path = SLUICE_PATH_POSIX;  // that it took at last
  sluice_reason_t reason = SLUICE_REASON_HOST_MEMORY;
};

// What is left of a call behind so many bytes; and the outcome of the whole, when that was the rest's. An error counts
// only where nothing had been moved.
inline Call rest_of(const Call& call, std::uint64_t there) noexcept {
  Call rest = call;
  rest.size -= there;
  rest.file_offset += static_cast<off_t>(there);
  rest.buffer_offset += static_cast<off_t>(there);
  return rest;
}
inline base::Outcome after_prefix(std::uint64_t there, base::Outcome rest) noexcept {
  return there == 0 ? rest : base::Outcome::bytes(there + rest.count());
}

// What cuFile calls a page, whatever the kernel's are: of statistics, of flags of streams, of what is refused.
inline constexpr std::uint64_t contract_page = 4096;

// Offset, size and address all whole pages, as the statistics tell.
inline bool aligned(const Call& call) noexcept {
  return (static_cast<std::uint64_t>(call.file_offset) | call.size | call.address()) % contract_page == 0;
}

inline constexpr auto largest_offset = static_cast<std::uint64_t>(std::numeric_limits<off_t>::max());

// No file has an offset that such a range ends at.
constexpr bool ends_beyond_all_files(off_t offset, std::size_t size) noexcept {
  if (offset < 0 || size > largest_offset) return false;
  return size > largest_offset - static_cast<std::uint64_t>(offset);
}

constexpr bool is_wrong_for(base::Direction direction, facts::Access access) noexcept {
  return direction == base::Direction::read ? access == facts::Access::write_only
                                            : access == facts::Access::read_only || access == facts::Access::none;
}

// What a call is refused for without looking at the memory: null buffer, negative offsets, wrong access mode. 0:
// nothing.
inline base::Outcome check(const process::File& file, const Call& call) noexcept {
  using base::Outcome;
  if (call.base == nullptr) return Outcome::system_error(EINVAL);
  if (call.file_offset < 0) return Outcome::refused(CU_FILE_INVALID_VALUE);
  if (ends_beyond_all_files(call.file_offset, call.size)) return Outcome::refused(CU_FILE_INVALID_VALUE);
  const facts::Access access = file.facts.access;
  if (is_wrong_for(call.direction, access)) return Outcome::refused(CU_FILE_INVALID_FILE_OPEN_FLAG);
  if (access == facts::Access::none) return Outcome::system_error(EPERM);
  return call.size > largest_offset ? Outcome::system_error(EFAULT) : Outcome::bytes(0);
}

// Does a call by a pointer that was registered leave what was registered there, and is still there?
bool is_still_registered(const process::Buffer& buffer) noexcept;
inline bool leaves_registered(const process::Buffer& buffer, const Call& call) noexcept {
  if (buffer.base != reinterpret_cast<std::uint64_t>(call.base)) return false;
  const auto offset = static_cast<std::uint64_t>(call.buffer_offset);
  const bool inside = call.buffer_offset >= 0 && offset <= buffer.size && call.size <= buffer.size - offset;
  return !inside && is_still_registered(buffer);
}

}  // namespace sluice::request
