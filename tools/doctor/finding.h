// SPDX-License-Identifier: Apache-2.0
// What can be found on a machine: one row a finding, with the words that people read.
#pragma once

#include <cstdint>
#include <string_view>

namespace sluice::doctor {

// In the order in which findings are told.
enum class Harm : std::uint8_t {
  broken,    // something that is meant to work does not, or bytes are in danger
  no_gpu,    // there is no NVIDIA device at all
  degraded,  // it works, and less well than this machine could
  advice,    // worth knowing or changing, nothing is wrong
  fine,      // looked at, and as it should be
};

enum class Section : std::uint8_t {
  gpu,
  nvidia_fs,
  p2pdma,
  storage,
  fabrics,
  rdma,
  vm,
  container,
  uring,
  config,
  topology,
  trial,
};
inline constexpr std::size_t section_count = 12;

// The texts hold {names}; who reports a finding gives their values. A command that mends it stands in `backquotes`.
struct Finding {
  std::string_view id;  // "section.what"
  Section section{};
  Harm harm{};
  std::string_view sign;    // what is seen
  std::string_view cause;   // why it is so, or what comes of it
  std::string_view remedy;  // what to do
};

// "broken", "no GPU", "degraded", "advice", "fine".
std::string_view name_of(Harm harm);
// As on the command line: "gpu", "nvidia-fs".
std::string_view name_of(Section section);

}  // namespace sluice::doctor
