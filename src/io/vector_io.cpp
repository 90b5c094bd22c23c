// SPDX-License-Identifier: Apache-2.0
// preadv and pwritev, once.
#include "io/vector_io.h"

#include <cerrno>

namespace sluice::io {

using base::Outcome;

namespace {

// EINTR, EAGAIN: nothing has happened. EINVAL: O_DIRECT wants other parts. EFAULT: some part may be good.
bool tells_again(int error) noexcept {
  return error == EINTR || error == EAGAIN || error == EINVAL || error == EFAULT || error == EOPNOTSUPP;
}

Outcome outcome_of(ssize_t count) noexcept {
  if (count >= 0) return Outcome::bytes(static_cast<std::uint64_t>(count));
  const int error = errno;
  return tells_again(error) ? Outcome::bytes(0) : Outcome::system_error(error);
}

}  // namespace

Outcome read_vector(int fd, std::span<const iovec> parts, base::FileOffset at) noexcept {
  return outcome_of(::preadv(fd, parts.data(), static_cast<int>(parts.size()), static_cast<off_t>(at.value)));
}

Outcome write_vector(int fd, std::span<const iovec> parts, base::FileOffset at) noexcept {
  return outcome_of(::pwritev(fd, parts.data(), static_cast<int>(parts.size()), static_cast<off_t>(at.value)));
}

}  // namespace sluice::io
