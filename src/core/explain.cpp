// Sentences from verdicts. Not on the I/O path but for the one line that SLUICE_EXPLAIN asks for.
#include "core/explain.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>

#include "route/reasons.h"

namespace sluice::core {

namespace {

std::string name_of_file(int fd) {
  std::array<char, 4096> target{};
  const ssize_t length = ::readlink(fmt::format("/proc/self/fd/{}", fd).c_str(), target.data(), target.size());
  return length > 0 ? std::string(target.data(), static_cast<std::size_t>(length)) : fmt::format("descriptor {}", fd);
}

std::string_view name_of_memory(const facts::BufferFacts& memory) {
  switch (memory.kind) {
    case facts::MemoryKind::plain_host:
      return "host memory";
    case facts::MemoryKind::pinned_host:
      return "pinned host memory";
    case facts::MemoryKind::managed:
      return "managed memory";
    case facts::MemoryKind::device:
      return memory.soft ? "soft GPU memory" : "GPU memory";
  }
  return "memory";
}

// One write: lines of several threads do not mix.
void say(const std::string& line) {
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace

Explanation explain(const File& file, const facts::BufferFacts& memory, base::Direction direction) {
  const request::Terms& terms = file.life->terms;
  return {route::judge(file.facts, memory, terms.machine, terms.rules, direction),
          fmt::format("{}, opened {}, {}", facts::describe(file.facts),
                      file.facts.direct ? "with O_DIRECT" : "without O_DIRECT", name_of_memory(memory))};
}

void explain_once(File& file, const request::Request& request, const request::Result& result) noexcept {
  if (file.explained.exchange(true, std::memory_order_relaxed)) return;
  try {
    const route::ReasonText* const text = route::reason_text(result.way.reason);
    say(fmt::format("sluice: {}: path {}, because {}: {} [{}]\n", name_of_file(file.fd),
                    route::path_name(result.way.path), text->name, text->sentence,
                    explain(file, request.memory, request.direction).detail));
  } catch (...) {  // NOLINT(bugprone-empty-catch): an explanation that cannot be made must not fail the transfer
  }
}

void explain_unused(File& file) noexcept {
  if (file.explained.exchange(true, std::memory_order_relaxed)) return;
  try {
    say(fmt::format("sluice: {}: registered, nothing was read or written [{}]\n", name_of_file(file.fd),
                    facts::describe(file.facts)));
  } catch (...) {  // NOLINT(bugprone-empty-catch): as above
  }
}

}  // namespace sluice::core
