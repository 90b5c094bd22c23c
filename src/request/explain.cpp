// SPDX-License-Identifier: Apache-2.0
// Sentences from choices. Not on the I/O path but for the one line that SLUICE_EXPLAIN asks for.
#include "request/explain.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>

#include "facts/descriptor_check.h"
#include "facts/nvme_paths.h"
#include "gpu/cuda_api.h"
#include "paths/direct_pair.h"
#include "process/pair_trial.h"
#include "request/transfer.h"
#include "route/reasons.h"

namespace sluice::request {

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
      if (memory.device < 0) return "GPU memory that is supposed";
      return memory.soft ? "soft GPU memory" : "GPU memory";
  }
  return "memory";
}

// What a reader of an explanation has to know besides.
std::string remark(const facts::MachineFacts& machine) {
  const std::string refusal = gpu::driver_refusal();
  std::string text = refusal.empty() ? refusal : "; " + refusal;
  if (machine.ring_takes_dma_buf) text += "; this kernel's rings take dma-bufs, which this version does not use yet";
  return text;
}

// What the trial of the direct path saw, or why there was none.
std::string words_of(const paths::DirectPair* pair) {
  const std::string words = pair != nullptr ? pair->words() : "";
  return words.empty() ? words : "; direct path: " + words;
}

// How an NVMe drive with several controllers, or behind a network, is reached just now.
std::string paths_of(const facts::FileFacts& file) {
  if (file.block.driver != "nvme") return "";
  const std::string paths = facts::describe_nvme_paths(file.block.name, facts::Root{});
  return paths.empty() ? paths : "; " + paths;
}

// One write: lines of several threads do not mix.
void say(const std::string& line) {
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace

namespace {

// Tries a direct path that nobody has tried.
paths::DirectPair* tried_pair(process::File& file, const facts::BufferFacts& memory, base::Direction direction) {
  paths::DirectPair* const pair = memory.device < 0 ? nullptr : process::pair_of(file, memory, direction);
  // A descriptor that belongs to another file by now would tell of that one's storage.
  facts::DescriptorCheck now(file.fd, file.facts);
  if (pair != nullptr && now.finds_the_file()) {
    const paths::OpenFile open{file.fd, file.facts, file.buffered, file.disk, now, nullptr, nullptr, pair};
    process::try_pair(open, memory, process::Need::pressing);
  }
  return pair;
}

std::string detail_of(const process::File& file, const facts::BufferFacts& memory, const paths::DirectPair* pair) {
  return fmt::format("{}, opened {}, {}{}{}{}", facts::describe_now(file.fd, file.facts, facts::Root{}),
                     file.facts.direct ? "with O_DIRECT" : "without O_DIRECT", name_of_memory(memory), words_of(pair),
                     paths_of(file.facts), remark(file.session->options.machine));
}

}  // namespace

Explanation explain(process::File& file, const facts::BufferFacts& memory, const route::Shape& shape) {
  const process::Options& options = file.session->options;
  const paths::DirectPair* const pair = tried_pair(file, memory, shape.direction);
  const facts::TrialResult reach = pair != nullptr ? pair->reach() : facts::TrialResult::untried;
  const route::Decision decision = route::decide(file.facts, memory, options.machine, options.rules, shape, reach);
  return {{decision.path, decision.reason}, detail_of(file, memory, pair)};
}

Reasons all_reasons(process::File& file, const facts::BufferFacts& memory, const route::Shape& shape) {
  const process::Options& options = file.session->options;
  const paths::DirectPair* const pair = tried_pair(file, memory, shape.direction);
  const facts::TrialResult reach = pair != nullptr ? pair->reach() : facts::TrialResult::untried;
  const route::Decision decision = route::decide(file.facts, memory, options.machine, options.rules, shape, reach);
  Reasons found{{decision.reason}, detail_of(file, memory, pair)};
  // What the handle's own operations carry, and what the shape of a request decides, has no other reason.
  if (decision.path == SLUICE_PATH_USERSPACE || decision.reason == SLUICE_REASON_RAGGED_REQUEST) return found;
  found.reasons = route::all_reasons(file.facts, memory, options.machine, options.rules, reach);
  return found;
}

void explain_once(process::File& file, const request::Request& request, const request::Result& result) noexcept {
  if (file.explained.exchange(true, std::memory_order_relaxed)) return;
  try {
    const route::ReasonText* const text = route::reason_text(result.way.reason);
    const route::Shape shape{request.direction, request.at.value, request.address, request.size};
    say(fmt::format("sluice: {}: path {}, because {}: {} [{}]\n", name_of_file(file.fd),
                    route::path_name(result.way.path), text->name, text->sentence,
                    explain(file, request.memory, shape).detail));
  } catch (...) {  // NOLINT(bugprone-empty-catch): an explanation that cannot be made must not fail the transfer
  }
}

void explain_unused(process::File& file) noexcept {
  if (file.explained.exchange(true, std::memory_order_relaxed)) return;
  try {
    say(fmt::format("sluice: {}: registered, nothing was read or written [{}]\n", name_of_file(file.fd),
                    facts::describe_now(file.fd, file.facts, facts::Root{})));
  } catch (...) {  // NOLINT(bugprone-empty-catch): as above
  }
}

}  // namespace sluice::request
