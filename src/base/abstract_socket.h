// SPDX-License-Identifier: Apache-2.0
// Local sockets whose names are in no file system.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <string_view>

namespace sluice::base {

// Whether a socket of this name takes connections of sequenced packets. Nothing is connected: the name is tried for a
// socket of our own, which is refused where there is one. True, too, where that cannot be found out.
inline bool is_abstract_socket(std::string_view name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name.size() > sizeof address.sun_path - 1) return false;
  name.copy(address.sun_path + 1, name.size());
  const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd < 0) return true;
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  const bool is_ours = ::bind(fd, reinterpret_cast<const sockaddr*>(&address), size) == 0;
  ::close(fd);
  return !is_ours;
}

}  // namespace sluice::base
