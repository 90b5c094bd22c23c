// SPDX-License-Identifier: Apache-2.0
#include "io/prefetch.h"

#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>

namespace sluice::io {

namespace {

// All parts of a step are read into the same page, which stays in the innermost cache.
constexpr std::size_t bin_bytes = 4096;
constexpr std::size_t most_parts = static_cast<std::size_t>(Prefetch::Step::of_four_pages) / bin_bytes;

ssize_t glance(PrefetchRange file, std::uint64_t at, std::size_t size) noexcept {
  alignas(64) std::array<std::byte, bin_bytes> bin;
  std::array<iovec, most_parts> parts;
  std::size_t count = 0;
  for (std::size_t covered = 0; covered < size && count < most_parts; covered += bin_bytes) {
    parts[count++] = {bin.data(), std::min(bin_bytes, size - covered)};
  }
  return ::preadv2(file.fd, parts.data(), static_cast<int>(count), static_cast<off_t>(at),
                   file.in_memory ? 0 : RWF_NOWAIT);
}

struct Trail {
  int fd = -1;
  std::uint64_t end = 0;  // of the last transfer
};
constinit thread_local std::array<Trail, 2> trails{};

// Of cachestat(), as the kernel has them.
constexpr long number_of_cachestat = 451;
struct CacheRange {
  std::uint64_t offset;
  std::uint64_t length;
};
struct CacheCounts {
  std::uint64_t cached;
  std::uint64_t dirty;
  std::uint64_t under_writeback;
  std::uint64_t evicted;
  std::uint64_t recently_evicted;
};

}  // namespace

bool goes_on(base::Direction direction, int fd, base::FileOffset at, std::uint64_t length) noexcept {
  Trail& trail = trails[direction == base::Direction::read ? 0 : 1];
  const Trail before = trail;  // all of it at once: the thread's word is looked up once
  trail = {fd, at.value + length};
  return before.fd == fd && before.end == at.value;
}

bool is_cached(int fd, base::FileOffset at, std::uint64_t length) noexcept {
  if (fd < 0 || length == 0) return false;
  static const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  CacheRange range{at.value, length};
  CacheCounts counts{};
  if (::syscall(number_of_cachestat, fd, &range, &counts, 0U) != 0) return false;
  return counts.cached > (at.value + length - 1) / page - at.value / page;
}

bool Prefetch::step() noexcept {
  if (is_over()) return false;
  ssize_t got = -1;
  if (file_.fd >= 0 && (!ask_ || is_cached(file_.fd, {at_}, end_ - at_))) {
    got = glance(file_, at_, std::min(static_cast<std::uint64_t>(step_), end_ - at_));
  }
  ask_ = false;
  if (got <= 0) {
    end_ = at_;
    return false;
  }
  at_ += static_cast<std::uint64_t>(got);
  return true;
}

}  // namespace sluice::io
