// SPDX-License-Identifier: Apache-2.0
// Sentences from choices. Not on the I/O path but for the one line that SLUICE_EXPLAIN asks for.
#include "request/explain.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>

#include "facts/descriptor_check.h"
#include "facts/nvme_paths.h"
#include "gpu/cuda_api.h"
#include "gpu/memory.h"
#include "paths/table.h"
#include "route/reasons.h"
#include "staging/neighbour.h"
#include "topology/route_table.h"

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

// How an NVMe drive with several controllers, or behind a network, is reached just now.
std::string paths_of(const facts::FileFacts& file) {
  if (file.block.driver != "nvme") return "";
  const std::string paths = facts::describe_nvme_paths(file.block.name, facts::Root{});
  return paths.empty() ? paths : "; " + paths;
}

// The way that dynamic routing has for the file and this GPU.
std::string routing_of(const process::File& file, const facts::BufferFacts& memory) {
  topology::RouteTable& routes = *file.session->routes;
  if (!routes.is_on() || facts::is_host(memory.kind)) return "";
  if (memory.device < 0) return "; dynamic routing: on, and depends on the GPU";
  const facts::BlockFacts& block = file.facts.block;
  const topology::Storage storage{
      file.facts.file_system_name, file.facts.mount_point,
      block.members.empty() && !block.name.empty() ? std::vector<std::string>{block.name} : block.members};
  const auto route = routes.find(storage, gpu::pci_address(memory.device));
  return route == nullptr ? "" : "; " + topology::words_of(*route);
}

// What neighbours have answered so far.
std::string lending_of(const process::File& file, const facts::BufferFacts& memory) {
  if (!file.options.lending.on || memory.kind != facts::MemoryKind::device || memory.device < 0) return "";
  const std::string words = staging::words_of_neighbours(memory.device);
  if (words.empty() && !file.options.lending.asked) return "";
  return "; lending is on" + (words.empty() ? ", and no GPU was asked yet" : ": " + words);
}

// What a profile has chosen for the file system, or why it has not.
std::string measured_for(const process::File& file) {
  const std::string words = process::words_of_profile(file.session->config->measured, file.facts);
  return words.empty() || file.session->config->plain ? "" : "; " + words;
}

// One write: lines of several threads do not mix.
void say(const std::string& line) {
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace

namespace {

paths::Facts facts_of(const process::File& file, const facts::BufferFacts& memory, const route::Shape& shape,
                      const AskedWith& known) {
  return {
      file, memory, shape.direction, false, paths::Trust::what_is_known, known.registered, known.knows_registration};
}

// With the trials that are missing.
paths::Decision decide(process::File& file, const facts::BufferFacts& memory, const route::Shape& shape,
                       const AskedWith& known) {
  facts::DescriptorCheck now(file.descriptor(), file.facts);
  const paths::Ends ends{file, now, memory, known.handle, known.registered};
  return paths::decide(facts_of(file, memory, shape, known), shape, {&ends, paths::Need::pressing});
}

std::string detail_of(const process::File& file, const paths::Facts& known) {
  const facts::BufferFacts& memory = known.memory;
  return fmt::format("{}, opened {}, {}{}{}{}{}{}{}", facts::describe_now(file.descriptor(), file.facts, facts::Root{}),
                     file.facts.direct ? "with O_DIRECT" : "without O_DIRECT", name_of_memory(memory),
                     paths::words_of_trials(known), paths_of(file.facts), lending_of(file, memory),
                     remark(file.options.machine), routing_of(file, memory), measured_for(file));
}

}  // namespace

Explanation explain(process::File& file, const facts::BufferFacts& memory, const route::Shape& shape,
                    const AskedWith& known) {
  const paths::Decision decision = decide(file, memory, shape, known);
  return {decision.choice(), detail_of(file, facts_of(file, memory, shape, known))};
}

Reasons all_reasons(process::File& file, const facts::BufferFacts& memory, const route::Shape& shape,
                    const AskedWith& known) {
  const paths::Decision decision = decide(file, memory, shape, known);
  const paths::Facts facts = facts_of(file, memory, shape, known);
  return {decision.path->traits.id, paths::all_reasons(facts, decision), detail_of(file, facts)};
}

void explain_once(process::File& file, const Request& request, const facts::BufferFacts& memory,
                  const paths::Path& path, route::Reason reason) noexcept {
  if (file.explained.exchange(true, std::memory_order_relaxed)) return;
  try {
    const route::ReasonText* const text = route::reason_text(reason);
    const route::Shape shape{request.direction, request.at.value, request.address, request.size};
    say(fmt::format("sluice: {}: path {}, because {}: {} [{}]\n", name_of_file(file.descriptor()),
                    route::path_name(path.traits.id), text->name, text->sentence, explain(file, memory, shape).detail));
  } catch (...) {  // NOLINT(bugprone-empty-catch): an explanation that cannot be made must not fail the transfer
  }
}

void explain_unused(process::File& file) noexcept {
  if (file.explained.exchange(true, std::memory_order_relaxed)) return;
  try {
    say(fmt::format("sluice: {}: registered, nothing was read or written [{}]\n", name_of_file(file.descriptor()),
                    facts::describe_now(file.descriptor(), file.facts, facts::Root{})));
  } catch (...) {  // NOLINT(bugprone-empty-catch): as above
  }
}

}  // namespace sluice::request
