// SPDX-License-Identifier: Apache-2.0
#include "report/read_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "common/error.h"
#include "common/text.h"

namespace sluice::tools {

std::string read_file(const std::string& name, const std::string& remedy) {
  const int fd = open(name.c_str(), O_RDONLY | O_CLOEXEC);
  std::string content;
  std::array<char, 65536> part{};
  ssize_t count = fd < 0 ? -1 : 0;
  while (fd >= 0) {
    count = read(fd, part.data(), part.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    content.append(part.data(), static_cast<std::size_t>(count));
  }
  const int why = errno;
  if (fd >= 0) close(fd);
  if (count < 0) throw ToolError(fmt::format("{} cannot be read: {}.", printable(name), system_words(why)), remedy);
  return content;
}

}  // namespace sluice::tools
