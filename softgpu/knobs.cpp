// SPDX-License-Identifier: Apache-2.0
// Reading the knobs. A value that cannot be read counts as not given: a driver has no place to complain.
#include "knobs.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>

namespace sluice::softgpu {

namespace {

std::string_view text_of(const char* name) {
  const char* const value = ::secure_getenv(name);
  return value != nullptr ? std::string_view(value) : std::string_view();
}

template <typename Number>
std::optional<Number> number_in(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

template <typename Number>
void read(const char* name, Number least, Number most, Number& knob) {
  const std::optional<Number> number = number_in<Number>(text_of(name));
  if (number && *number >= least && *number <= most) knob = *number;
}

// "12.5" as a double without from_chars for floating point, which needs a newer libstdc++ at load time.
void read_decimal(const char* name, double& knob) {
  const std::string_view text = text_of(name);
  const std::size_t point = text.find('.');
  const std::optional<std::uint32_t> whole = number_in<std::uint32_t>(text.substr(0, point));
  if (!whole) return;
  double value = *whole;
  if (point != std::string_view::npos) {
    double weight = 0.1;
    for (const char digit : text.substr(point + 1)) {
      if (digit < '0' || digit > '9') return;
      value += (digit - '0') * weight;
      weight /= 10;
    }
  }
  knob = value;
}

std::string_view take_until(std::string_view& text, char separator) {
  const std::size_t end = text.find(separator);
  const std::string_view head = text.substr(0, end);
  text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  return head;
}

// name:n[+][:code]
std::optional<FailureRule> rule_in(std::string_view text) {
  FailureRule rule;
  rule.function = take_until(text, ':');
  std::string_view count = take_until(text, ':');
  if (count.ends_with('+')) {
    rule.always = true;
    count.remove_suffix(1);
  }
  const std::optional<std::uint64_t> first = number_in<std::uint64_t>(count);
  if (rule.function.empty() || !first || *first == 0) return std::nullopt;
  rule.first = *first;
  if (!text.empty()) {
    const std::optional<int> code = number_in<int>(text);
    if (!code) return std::nullopt;
    rule.code = *code;
  }
  return rule;
}

// Takes ":NUMBER" off the end of a path. Colons are usual in the paths of PCI devices; a number behind the last one is
// not.
std::optional<std::uint64_t> take_number_at_end(std::string_view& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto number = number_in<std::uint64_t>(text.substr(colon + 1));
  if (number) text = text.substr(0, colon);
  return number;
}

// path[:offset[:length]]; an empty path where the device has memory of our own.
Backing backing_in(std::string_view text) {
  Backing backing;
  const auto last = take_number_at_end(text);
  const auto before = last ? take_number_at_end(text) : std::nullopt;
  backing.offset = before ? *before : last.value_or(0);
  backing.length = before ? *last : 0;
  backing.path = text;
  return backing;
}

// 0, 1, or one-other[,one-other...]
std::optional<PeerLinks> links_in(std::string_view text) {
  if (text.empty() || text == "1") return std::nullopt;
  PeerLinks links{false, {}};
  if (text == "0") return links;
  while (!text.empty()) {
    std::string_view pair = take_until(text, ',');
    const auto one = number_in<int>(take_until(pair, '-'));
    const auto other = number_in<int>(pair);
    if (!one || !other) return std::nullopt;
    links.pairs.emplace_back(*one, *other);
  }
  return links;
}

}  // namespace

bool PeerLinks::join(int one, int other) const noexcept {
  if (one == other) return false;
  return everywhere || std::any_of(pairs.begin(), pairs.end(), [&](const auto& pair) {
           return pair == std::pair(one, other) || pair == std::pair(other, one);
         });
}

Knobs read_knobs() {
  Knobs knobs;
  read("SLUICE_SOFTGPU_DEVICES", 0, 64, knobs.devices);
  read<std::uint64_t>("SLUICE_SOFTGPU_MEMORY_MIB", 2, 1U << 20U, knobs.memory_mib);
  read("SLUICE_SOFTGPU_QUEUES", 0U, 1024U, knobs.hardware_queues);
  read("SLUICE_SOFTGPU_QUEUES_FOR_ALL", 0U, 1U, knobs.queues_for_all);
  if (auto links = links_in(text_of("SLUICE_SOFTGPU_PEER"))) knobs.peers = std::move(*links);
  read_decimal("SLUICE_SOFTGPU_LINK_GIBPS", knobs.link_gib_per_second);
  read_decimal("SLUICE_SOFTGPU_LINK_US", knobs.link_latency_us);
  read_decimal("SLUICE_SOFTGPU_LOAD_US", knobs.load_us);
  read("SLUICE_SOFTGPU_SMS", 0U, 1024U, knobs.resident_kernels);
  read("SLUICE_SOFTGPU_REST", 0U, 1U, knobs.keeps_calls);
  read("SLUICE_SOFTGPU_RDMA", 0U, 2U, knobs.rdma);
  read("SLUICE_SOFTGPU_RDMA_ORDERING", 0U, 200U, knobs.rdma_ordering);
  read("SLUICE_SOFTGPU_DMA_BUF", 0U, 2U, knobs.dma_buf);
  read("SLUICE_SOFTGPU_COHERENT", 0U, 3U, knobs.coherent);
  read("SLUICE_SOFTGPU_LATE_COPIES", 0U, 1U, knobs.late_copies);
  std::string_view backings = text_of("SLUICE_SOFTGPU_BACKING");
  while (!backings.empty()) knobs.backings.push_back(backing_in(take_until(backings, ',')));
  std::string_view failures = text_of("SLUICE_SOFTGPU_FAIL");
  while (!failures.empty()) {
    if (auto rule = rule_in(take_until(failures, ','))) knobs.failures.push_back(std::move(*rule));
  }
  return knobs;
}

}  // namespace sluice::softgpu
