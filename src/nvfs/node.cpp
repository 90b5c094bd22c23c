// SPDX-License-Identifier: Apache-2.0
// Failures answer -1 and EPERM; what failed stands in the argument, at the same place for all calls.
#include "nvfs/node.h"

#include <fcntl.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>

namespace sluice::nvfs {

namespace {

constexpr int most_nodes = 16;

}  // namespace

Node Node::open(int& error) noexcept {
  error = ENOENT;
  for (int number = 0; number < most_nodes; ++number) {
    std::array<char, 32> path{};
    std::snprintf(path.data(), path.size(), "/dev/nvidia-fs%d", number);
    base::UniqueFd fd(::open(path.data(), O_RDWR | O_CLOEXEC));
    if (fd) return Node(std::move(fd));
    if (errno != ENOENT) error = errno;
  }
  return {};
}

std::int64_t Node::call(Call call, Argument& argument) const noexcept {
  const int answer = ::ioctl(fd_.get(), static_cast<unsigned long>(call), &argument);
  if (answer >= 0) return call == Call::map ? 0 : argument.io.result;
  const int error = errno;
  const std::int64_t told = argument.io.result;
  // An answer without a code is the kernel's own: no such call, no memory, no such descriptor.
  constexpr std::int64_t lowest_error = -4095;
  if (error == EPERM && told < 0 && told >= lowest_error) return told;
  return -static_cast<std::int64_t>(error);
}

}  // namespace sluice::nvfs
