// SPDX-License-Identifier: Apache-2.0
// A number for the machine, so that what was measured on one is not taken for another's.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <string>

namespace sluice::base {

// Made of /etc/machine-id, which is not to leave the machine as it is; "" where there is none, as in some containers.
inline std::string machine_number(const char* file = "/etc/machine-id") {
  const int fd = ::open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (fd < 0) return "";
  std::array<char, 32> id{};
  const ssize_t length = ::read(fd, id.data(), id.size());
  ::close(fd);
  if (length != static_cast<ssize_t>(id.size())) return "";
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char byte : id) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  std::string text(16, '0');
  for (std::size_t i = text.size(); i-- > 0; hash >>= 4) text[i] = "0123456789abcdef"[hash & 15];
  return text;
}

}  // namespace sluice::base
