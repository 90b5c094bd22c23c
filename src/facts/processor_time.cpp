// SPDX-License-Identifier: Apache-2.0
#include "facts/processor_time.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <exception>
#include <system_error>

#include "base/unique_fd.h"

namespace sluice::facts {

std::optional<ProcessorTime> processor_time_of(std::string_view line) noexcept {
  constexpr std::string_view of_all = "cpu ";
  // user, nice, system, idle, iowait, irq, softirq, steal; what guests take is in the first two already.
  constexpr std::size_t counted = 8;
  if (!line.starts_with(of_all)) return std::nullopt;
  line.remove_prefix(of_all.size());
  ProcessorTime time;
  for (std::size_t i = 0; i < counted; ++i) {
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    std::uint64_t ticks = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), ticks);
    if (error != std::errc{}) return std::nullopt;
    line.remove_prefix(static_cast<std::size_t>(end - line.data()));
    time.all += ticks;
    time.stolen = ticks;
  }
  return time;
}

std::optional<ProcessorTime> read_processor_time(const Root& root) noexcept try {
  const base::UniqueFd file(::open(root.at("/proc/stat").c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 256> text;
  const ssize_t length = file ? ::read(file.get(), text.data(), text.size()) : -1;
  return length > 0 ? processor_time_of({text.data(), static_cast<std::size_t>(length)}) : std::nullopt;
} catch (const std::exception&) {
  return std::nullopt;
}

}  // namespace sluice::facts
