// SPDX-License-Identifier: Apache-2.0
// pread and pwrite, to the end. Cancelling a thread inside these must not unwind through us: api/ has switched
// cancellation off.
#include "io/file_io.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/spin_backoff.h"
#include "observe/probes.h"

namespace sluice::io {

namespace {

// The kernel moves at most this much a call; asking for more is answered short, and a block-aligned part keeps
// O_DIRECT happy.
constexpr std::size_t most_per_call = std::size_t{1} << 30;

std::uint64_t start_of_block(std::uint64_t position, std::uint32_t block) {
  return position - position % block;
}

// Chunks and entries of 4 KiB come by here: a probe around them costs as much as what they do besides the system call.
bool is_recorded() noexcept {
  return observe::Watchers::now().want(observe::Watchers::recorder);
}

base::Outcome read_all(int fd, std::span<std::byte> into, base::FileOffset at, std::uint32_t block,
                       std::uint64_t limit) noexcept {
  std::uint64_t done = 0;  // bytes of the span that hold file content
  int refusals = 0;
  while (done < into.size()) {
    const std::uint64_t from = start_of_block(done, block);
    const std::size_t wanted = std::min<std::uint64_t>(into.size() - from, most_per_call);
    const ssize_t got = ::pread(fd, into.data() + from, wanted, static_cast<off_t>(at.value + from));
    if (got < 0) {
      const int error = errno;
      if (error == EINTR) continue;
      if (error == EAGAIN && ++refusals < base::most_refusals_in_a_row) continue;
      return done > 0 ? base::Outcome::bytes(done) : base::Outcome::system_error(error);
    }
    refusals = 0;
    const std::uint64_t reached = from + static_cast<std::uint64_t>(got);
    // Nothing new: the file ends here. (After a re-read block, `reached` can only repeat `done`.)
    if (reached <= done) break;
    done = reached;
    if (at.value + done >= limit) break;
  }
  return base::Outcome::bytes(done);
}

base::Outcome read_all_if_cached(int fd, std::span<std::byte> into, base::FileOffset at, std::uint64_t limit) noexcept {
  std::uint64_t done = 0;
  while (done < into.size() && (done == 0 || at.value + done < limit)) {
    const iovec rest{into.data() + done, into.size() - done};
    const ssize_t got = ::preadv2(fd, &rest, 1, static_cast<off_t>(at.value + done), RWF_NOWAIT);
    if (got < 0) {
      const int error = errno;
      if (error == EINTR) continue;
      if (error != EOPNOTSUPP) return base::Outcome::system_error(error);
      const base::Outcome slowly = read_all(fd, into.subspan(done), {at.value + done}, 1, limit);
      return slowly.ok() ? base::Outcome::bytes(done + slowly.count()) : slowly;
    }
    if (got == 0) break;
    done += static_cast<std::uint64_t>(got);
  }
  return base::Outcome::bytes(done);
}

base::Outcome write_all(int fd, std::span<const std::byte> from, base::FileOffset at, std::uint32_t block) noexcept {
  std::uint64_t done = 0;
  int refusals = 0;
  while (done < from.size()) {
    const std::uint64_t begin = start_of_block(done, block);
    const std::size_t wanted = std::min<std::uint64_t>(from.size() - begin, most_per_call);
    const ssize_t put = ::pwrite(fd, from.data() + begin, wanted, static_cast<off_t>(at.value + begin));
    if (put < 0) {
      const int error = errno;
      if (error == EINTR) continue;
      if (error == EAGAIN && ++refusals < base::most_refusals_in_a_row) continue;
      return done > 0 ? base::Outcome::bytes(done) : base::Outcome::system_error(error);
    }
    refusals = 0;
    const std::uint64_t reached = begin + static_cast<std::uint64_t>(put);
    if (reached <= done) return done > 0 ? base::Outcome::bytes(done) : base::Outcome::system_error(ENOSPC);
    done = reached;
  }
  return base::Outcome::bytes(done);
}

}  // namespace

base::Outcome read_span(int fd, std::span<std::byte> into, base::FileOffset at, std::uint32_t block,
                        std::uint64_t limit) noexcept {
  if (!is_recorded()) [[likely]]
    return read_all(fd, into, at, block, limit);
  observe::PhaseProbe phase(SLUICE_TRACE_FILE_READ, into.size(), at.value, fd);
  return phase.ends(read_all(fd, into, at, block, limit));
}

base::Outcome write_span(int fd, std::span<const std::byte> from, base::FileOffset at, std::uint32_t block) noexcept {
  observe::PhaseProbe phase(SLUICE_TRACE_FILE_WRITE, from.size(), at.value, fd);
  return phase.ends(write_all(fd, from, at, block));
}

base::Outcome read_span_if_cached(int fd, std::span<std::byte> into, base::FileOffset at,
                                  std::uint64_t limit) noexcept {
  if (!is_recorded()) [[likely]]
    return read_all_if_cached(fd, into, at, limit);
  observe::PhaseProbe phase(SLUICE_TRACE_FILE_READ, into.size(), at.value, fd);
  return phase.ends(read_all_if_cached(fd, into, at, limit));
}

base::Outcome write_together(int fd, std::span<const std::span<const std::byte>> from, base::FileOffset at) noexcept {
  std::array<iovec, most_spans> parts;
  std::transform(from.begin(), from.end(), parts.begin(), [](std::span<const std::byte> span) {
    return iovec{const_cast<std::byte*>(span.data()), span.size()};
  });
  const ssize_t put = ::pwritev(fd, parts.data(), static_cast<int>(from.size()), static_cast<off_t>(at.value));
  if (put >= 0) return base::Outcome::bytes(static_cast<std::uint64_t>(put));
  const int error = errno;
  const bool another_way = error == EINTR || error == EAGAIN || error == EINVAL;
  return another_way ? base::Outcome::bytes(0) : base::Outcome::system_error(error);
}

}  // namespace sluice::io
