// SPDX-License-Identifier: Apache-2.0
#include "common/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "common/text.h"
#include "common/written.h"

namespace sluice::tools {
namespace {

constexpr std::chrono::seconds patience{2};

}  // namespace

Progress::Progress(std::string_view what) : what_(what), terminal_(isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  if (shown_) std::fputs("\r\x1b[K", stderr);
}

void Progress::show(std::uint64_t bytes, std::optional<double> share) {
  const auto passed = std::chrono::steady_clock::now() - begin_;
  if (!terminal_ || passed < patience) return;
  const double seconds = std::chrono::duration<double>(passed).count();
  const std::string percent = share ? fmt::format("{:3.0f} %  ", 100 * std::min(*share, 1.0)) : std::string();
  tell("\r{}  {}{}  {}\x1b[K", what_, percent, format_bytes(bytes), format_rate(bytes, seconds));
  std::fflush(stderr);
  shown_ = true;
}

}  // namespace sluice::tools
