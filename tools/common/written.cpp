// SPDX-License-Identifier: Apache-2.0
#include "common/written.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace sluice::tools {

void tell_text(const std::string& text) noexcept {
  std::fwrite(text.data(), 1, text.size(), stderr);
}

void hold_standard_descriptors() noexcept {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (fcntl(fd, F_GETFD) >= 0) continue;
    // The lowest free one: this. What it is for is refused there.
    if (open("/dev/null", (fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC) < 0) return;
  }
}

int finish(const char* tool, int status) noexcept {
  const bool lost_before = std::ferror(stdout) != 0;
  errno = 0;
  if (std::fflush(stdout) == 0 && !lost_before) return status;
  const int why = errno;
  std::fprintf(stderr, "%s: What was to be printed is not all there: stdout cannot be written%s%s.\n        %s\n", tool,
               why != 0 ? ": " : "", why != 0 ? std::strerror(why) : "",
               "Look at the room of its disk, or at what it is connected with.");
  return status != 0 ? status : 1;
}

}  // namespace sluice::tools
