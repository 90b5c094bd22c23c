// SPDX-License-Identifier: Apache-2.0
// The log: lines in the incumbent's layout, in a file that was asked for. Nothing is written anywhere else, and
// on the I/O path only at level TRACE (observe/trace.h).
#pragma once

#include <atomic>
#include <string>
#include <string_view>

#include "config/config.h"

namespace sluice::observe {

// Opens (appends to) the file that the configuration names, or closes the log when it names none. A path that is a
// symbolic link, or no regular file, is refused. Returns why the log could not be opened, empty when all is well.
// A line that would make the file larger than logging.max_file_size_mb begins a new one; the full one keeps the last
// name plus ".old". Several processes may share a file.
std::string open_log(const config::Config& config);

bool log_enabled(config::LogLevel level) noexcept;

// `module` says where in the house, by the folder: "process", "io". One call, one line.
void log(config::LogLevel level, std::string_view module, std::string_view text) noexcept;

// The same with the cause behind the text, where there may be no memory to put them together.
void log_failure(config::LogLevel level, std::string_view module, const char* text, const char* cause) noexcept;

// At level DEBUG, what `text` answers: made only where the log takes it, and there is memory for it.
template <typename Text>
void log_debug(std::string_view module, Text text) noexcept {
  if (!log_enabled(config::LogLevel::debug)) return;
  try {
    log(config::LogLevel::debug, module, text());
  } catch (...) {  // NOLINT(bugprone-empty-catch): a line that cannot be made is no reason to fail the call
  }
}

// A notice of a kind that is worth one line a process: `told` belongs to the caller. Kept back while nothing is logged.
void log_once(std::atomic<bool>& told, std::string_view module, std::string_view text) noexcept;

// The layout alone, for tests: " DD-MM-YYYY HH:MM:SS:ms [pid=N tid=N] LEVEL  module text\n".
std::string format_log_line(config::LogLevel level, std::string_view module, std::string_view text);

// Around fork: no child inherits a lock that another thread held.
void log_before_fork() noexcept;
void log_after_fork() noexcept;

}  // namespace sluice::observe
