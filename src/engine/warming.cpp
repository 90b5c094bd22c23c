#include "engine/warming.h"

#include <sys/uio.h>

#include <algorithm>
#include <array>

namespace sluice::engine {

namespace {

// All parts of a step are read into the same page, which stays in the innermost cache.
constexpr std::size_t bin_bytes = 4096;
constexpr std::size_t most_parts = Warming::long_step / bin_bytes;
static_assert(Warming::long_step % bin_bytes == 0 && Warming::short_step <= bin_bytes);

ssize_t glance(Warmable file, std::uint64_t at, std::size_t size) noexcept {
  if (file.fd < 0) return -1;
  alignas(64) std::array<std::byte, bin_bytes> bin;
  std::array<iovec, most_parts> parts;
  std::size_t count = 0;
  for (std::size_t covered = 0; covered < size; covered += bin_bytes) {
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

}  // namespace

bool goes_on(base::Direction direction, int fd, base::FileOffset at, std::uint64_t length) noexcept {
  Trail& trail = trails[direction == base::Direction::read ? 0 : 1];
  const bool goes_on = trail.fd == fd && trail.end == at.value;
  trail = {fd, at.value + length};
  return goes_on;
}

bool Warming::step() noexcept {
  if (is_over()) return false;
  const ssize_t got = glance(file_, at_, std::min<std::uint64_t>(step_, end_ - at_));
  if (got <= 0) {
    end_ = at_;
    return false;
  }
  at_ += static_cast<std::uint64_t>(got);
  return true;
}

bool is_warmable(Warmable file, base::FileOffset at, std::uint64_t length) noexcept {
  return length > 0 && glance(file, at.value, 1) > 0 && glance(file, at.value + length - 1, 1) > 0;
}

}  // namespace sluice::engine
