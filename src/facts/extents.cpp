// SPDX-License-Identifier: Apache-2.0
// By the FIEMAP call: it needs no more than a descriptor, and moves no file position.
#include "facts/extents.h"

#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <array>
#include <cstddef>

namespace sluice::facts {

namespace {

constexpr std::size_t most_extents = 32;

// What the call fills: its head, and so many extents behind it.
class Answer {
 public:
  struct fiemap& head() noexcept {
    return *reinterpret_cast<struct fiemap*>(bytes_.data());
  }
  const struct fiemap_extent& extent(std::size_t index) noexcept { return head().fm_extents[index]; }

 private:
  alignas(struct fiemap)
      std::array<std::byte, sizeof(struct fiemap) + most_extents * sizeof(struct fiemap_extent)> bytes_{};
};

// Extents that no device holds as they are.
constexpr std::uint32_t never_stored = FIEMAP_EXTENT_UNWRITTEN | FIEMAP_EXTENT_DATA_INLINE | FIEMAP_EXTENT_DATA_TAIL |
                                       FIEMAP_EXTENT_ENCODED | FIEMAP_EXTENT_DATA_ENCRYPTED | FIEMAP_EXTENT_NOT_ALIGNED;
constexpr std::uint32_t not_stored_yet = FIEMAP_EXTENT_DELALLOC | FIEMAP_EXTENT_UNKNOWN;

std::size_t ask(int fd, std::uint64_t from, std::uint64_t length, Answer& answer) noexcept {
  struct fiemap& head = answer.head();
  head.fm_start = from;
  head.fm_length = length;
  head.fm_extent_count = most_extents;
  if (::ioctl(fd, FS_IOC_FIEMAP, &head) != 0) return 0;
  return std::min<std::size_t>(head.fm_mapped_extents, most_extents);
}

}  // namespace

std::optional<Extent> first_stored_extent(int fd, std::uint64_t from) noexcept {
  Answer answer;
  const std::size_t count = ask(fd, from, FIEMAP_MAX_OFFSET - from, answer);
  for (std::size_t i = 0; i < count; ++i) {
    const struct fiemap_extent& extent = answer.extent(i);
    if ((extent.fe_flags & never_stored) != 0) continue;
    const std::uint64_t begin = std::max<std::uint64_t>(extent.fe_logical, from);
    const std::uint64_t end = extent.fe_logical + extent.fe_length;
    if (begin < end) return Extent{begin, end - begin};
  }
  return std::nullopt;
}

namespace {

enum class Layout : std::uint8_t { any, together };

bool is_stored_as(int fd, const Extent& extent, Layout layout) noexcept {
  Answer answer;
  const std::size_t count = ask(fd, extent.begin, extent.length, answer);
  std::uint64_t reached = extent.begin;
  std::uint64_t physical = 0;  // where the byte at `reached` has to lie
  for (std::size_t i = 0; i < count; ++i) {
    const struct fiemap_extent& found = answer.extent(i);
    if ((found.fe_flags & (never_stored | not_stored_yet)) != 0 || found.fe_logical > reached) return false;
    if (layout == Layout::together && i > 0 && found.fe_physical != physical) return false;
    reached = std::max<std::uint64_t>(reached, found.fe_logical + found.fe_length);
    physical = found.fe_physical + found.fe_length;
  }
  return reached >= extent.begin + extent.length;
}

}  // namespace

bool is_stored(int fd, const Extent& extent) noexcept {
  return is_stored_as(fd, extent, Layout::any);
}

bool is_stored_together(int fd, const Extent& extent) noexcept {
  return is_stored_as(fd, extent, Layout::together);
}

std::optional<bool> has_data(int fd, const Extent& range) noexcept {
  for (std::uint64_t from = range.begin; from < range.begin + range.length;) {
    Answer answer;
    struct fiemap& head = answer.head();
    head.fm_start = from;
    head.fm_length = range.begin + range.length - from;
    head.fm_extent_count = most_extents;
    if (::ioctl(fd, FS_IOC_FIEMAP, &head) != 0) return std::nullopt;
    const std::size_t count = std::min<std::size_t>(head.fm_mapped_extents, most_extents);
    for (std::size_t i = 0; i < count; ++i) {
      if ((answer.extent(i).fe_flags & FIEMAP_EXTENT_UNWRITTEN) == 0) return true;
      from = answer.extent(i).fe_logical + answer.extent(i).fe_length;
    }
    if (count < most_extents) return false;
  }
  return false;
}

}  // namespace sluice::facts
