// SPDX-License-Identifier: Apache-2.0
#include "gdsio/node.h"

#include <fmt/format.h>
#include <sched.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "common/error.h"
#include "common/text.h"

namespace sluice::tools {
namespace {

constexpr const char* nodes_folder = "/sys/devices/system/node";

std::string first_line_of(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// "0-3,8": each processor that it lists.
cpu_set_t processors_of(std::string_view list) {
  cpu_set_t set;
  CPU_ZERO(&set);
  while (!list.empty()) {
    const std::string_view part = list.substr(0, list.find(','));
    list.remove_prefix(std::min(part.size() + 1, list.size()));
    unsigned first = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), first);
    if (error != std::errc{}) continue;
    unsigned last = first;
    if (end != part.data() + part.size() && *end == '-') std::from_chars(end + 1, part.data() + part.size(), last);
    for (unsigned cpu = first; cpu <= last && cpu < CPU_SETSIZE; ++cpu) CPU_SET(cpu, &set);
  }
  return set;
}

}  // namespace

void want_node(int node) {
  std::error_code ignored;
  const bool has_nodes = std::filesystem::exists(nodes_folder, ignored);
  if (std::filesystem::exists(fmt::format("{}/node{}", nodes_folder, node), ignored)) return;
  if (!has_nodes && node == 0) return;
  throw ToolError(fmt::format("There is no NUMA node {}.", node),
                  has_nodes ? fmt::format("The NUMA nodes of this machine: {}; or leave -n out.",
                                          printable(first_line_of(fmt::format("{}/online", nodes_folder))))
                            : "Leave -n out.",
                  2);
}

void bind_to_this_node(int node) {
  const std::string list = first_line_of(fmt::format("{}/node{}/cpulist", nodes_folder, node));
  if (list.empty()) return;  // a node with memory alone, or no nodes: anywhere is as good
  const cpu_set_t wanted = processors_of(list);
  sched_setaffinity(0, sizeof wanted, &wanted);  // refused where the process may use none of them
}

}  // namespace sluice::tools
