// SPDX-License-Identifier: Apache-2.0
// Dynamic routing and the topology: what is configured, and the tree that it would follow.
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>

#include "common/error.h"
#include "common/output_file.h"
#include "common/text.h"
#include "gdscheck/sections.h"
#include "sluice.h"

namespace sluice::tools {
namespace {

// By way of memory: the library writes into the file as it goes, and what has the name shall stay until all is there.
std::string exported() {
  const int fd = memfd_create("sluice-topology", MFD_CLOEXEC);
  if (fd < 0) {
    throw ToolError(fmt::format("The topology cannot be kept in memory: {}.", system_words(errno)),
                    "Look at the limits of this process (ulimit -a).");
  }
  const std::string name = fmt::format("/proc/self/fd/{}", fd);
  const bool is_well = cuFileExportPCIeTopology(name.c_str()).err == CU_FILE_SUCCESS;
  std::ostringstream text;
  text << std::ifstream(name).rdbuf();
  close(fd);
  if (is_well) return text.str();
  throw ToolError(fmt::format("The topology cannot be told: {}.", sluice_last_error()),
                  "See what the doctor finds: sluice doctor topology.");
}

// The value of one key, as cufile.json spells it.
std::string value_of(std::string_view key) {
  struct Search {
    std::string_view key;
    std::string value;
  } search{key, ""};
  const auto look = [](const sluice_setting_t* shown, void* context) {
    auto& wanted = *static_cast<Search*>(context);
    if (wanted.key == shown->key) wanted.value = shown->value;
  };
  sluice_configuration(look, &search);
  return search.value;
}

std::string words_of(const nlohmann::json& list) {
  std::string text;
  for (const auto& word : list) text += (text.empty() ? "" : " ") + word.get<std::string>();
  return printable(text);
}

std::string device_of(const std::string& point) {
  for (const doctor::PlatformMount& mount : platform().mounts) {
    if (mount.point == point) return std::to_string(mount.device);
  }
  return "unknown (nothing is mounted there)";
}

// Behind which row the table of a file system stands in the incumbent's report.
constexpr std::array<std::pair<std::string_view, std::string_view>, 5> tables{{
    {"fs.lustre.posix_gds_min_kb", "lustre"},
    {"fs.beegfs.posix_gds_min_kb", "beegfs"},
    {"fs.weka.rdma_write_support", "weka"},
    {"fs.weka.rdma_write_support", "nfs"},
    {"fs.gpfs.gds_async_support", "gpfs"},
}};

void print_order() {
  if (!setting_is("properties.rdma_dynamic_routing", "true")) return;
  const auto order = nlohmann::json::parse(value_of("properties.rdma_dynamic_routing_order"), nullptr, false);
  if (order.is_array()) fmt::print(" properties.rdma_dynamic_routing_order : {}\n", words_of(order));
}

void print_mount_table(std::string_view name) {
  const auto table = nlohmann::json::parse(value_of(fmt::format("fs.{}.mount_table", name)), nullptr, false);
  if (!table.is_object() || table.empty()) return;
  fmt::print(" fs.{}.mount_table :\n", name);
  for (const auto& [point, entry] : table.items()) {
    fmt::print(" {} dev_id {} : {}\n", printable(point), device_of(point),
               words_of(entry.value("rdma_dev_addr_list", nlohmann::json::array())));
  }
}

}  // namespace

bool setting_is(std::string_view key, std::string_view value) {
  return value_of(key) == value;
}

void print_routing_behind(std::string_view key) {
  if (key == "properties.rdma_dynamic_routing") print_order();
  for (const auto& [row, name] : tables) {
    if (key == row) print_mount_table(name);
  }
}

void print_unusable_addresses() {
  for (const doctor::PlatformAddress& one : platform().unusable) {
    fmt::print(" note: {}: {} cannot be used: {}\n", printable(one.key), printable(one.address),
               printable(one.objection));
  }
}

void export_topology(const std::string& file) {
  OutputFile output(file, "The topology", 1, "Name a file that can be written: -o FILE.");
  output.write(exported());
  fmt::print(" PCIe topology written to {}\n", printable(file));
}

}  // namespace sluice::tools
