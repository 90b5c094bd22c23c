// SPDX-License-Identifier: Apache-2.0
// What sluice_configuration() tells, in two layouts: the one that scripts know, and the whole truth.
#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "common/text.h"
#include "gdscheck/sections.h"
#include "sluice.h"

namespace sluice::tools {
namespace {

struct Setting {
  std::string key;
  std::string value;
  std::string here;
  sluice_origin_t origin = SLUICE_ORIGIN_BUILT_IN;
  sluice_effect_t effect = SLUICE_EFFECT_OBEYED;
  bool binds = false;
  int line = 0;
};

std::vector<Setting> all_settings() {
  std::vector<Setting> settings;
  const auto take = [](const sluice_setting_t* shown, void* context) {
    static_cast<std::vector<Setting>*>(context)->push_back(
        {shown->key, shown->value, shown->here, shown->origin, shown->effect, shown->binds != 0, shown->line});
  };
  if (sluice_configuration(take, &settings).err != CU_FILE_SUCCESS) {
    throw ToolError("The configuration cannot be read.", sluice_last_error());
  }
  return settings;
}

// Lists lose brackets and commas, texts their quotes: "4 1024 16384", "RoundRobin".
std::string plain(std::string_view json) {
  std::string text;
  for (const char c : json) {
    if (c != '[' && c != ']' && c != ',' && c != '"') text.push_back(c);
  }
  return printable(text);
}

enum class Style { spaced, tight, digit };

struct Row {
  const char* shown;
  const char* key;
  Style style = Style::spaced;
  int since = 1150;  // the version of the report that has the row
  int until = 9999;  // the first that has not
};

// In the order, and with the blanks and names, that this section has had in the incumbent.
constexpr std::array rows{
    Row{"properties.use_pci_p2pdma", "properties.use_pci_p2pdma"},
    Row{"properties.use_compat_mode", "properties.allow_compat_mode"},
    Row{"properties.force_compat_mode", "properties.force_compat_mode"},
    Row{"properties.gds_rdma_write_support", "properties.gds_rdma_write_support"},
    Row{"properties.use_poll_mode", "properties.use_poll_mode"},
    Row{"properties.poll_mode_max_size_kb", "properties.poll_mode_max_size_kb"},
    Row{"properties.max_batch_io_size", "properties.io_batchsize"},
    Row{"properties.max_batch_io_timeout_msecs", "properties.batch_io_timeout_ms"},
    Row{"properties.max_direct_io_size_kb", "properties.max_direct_io_size_kb"},
    Row{"properties.max_device_cache_size_kb", "properties.max_device_cache_size_kb"},
    Row{"properties.per_buffer_cache_size_kb", "properties.per_buffer_cache_size_kb"},
    Row{"properties.max_device_pinned_mem_size_kb", "properties.max_device_pinned_mem_size_kb"},
    Row{"properties.gpu_bounce_buffer_slab_size_kb", "properties.gpu_bounce_buffer_slab_config.slab_size_kb",
        Style::spaced, 1170},
    Row{"properties.gpu_bounce_buffer_slab_count", "properties.gpu_bounce_buffer_slab_config.slab_count", Style::spaced,
        1170},
    Row{"properties.posix_pool_slab_size_kb", "properties.posix_pool_slab_size_kb"},
    Row{"properties.posix_pool_slab_count", "properties.posix_pool_slab_count"},
    Row{"properties.rdma_peer_affinity_policy", "properties.rdma_load_balancing_policy"},
    Row{"properties.rdma_dynamic_routing", "properties.rdma_dynamic_routing", Style::digit},
    Row{"fs.generic.posix_unaligned_writes", "fs.generic.posix_unaligned_writes"},
    Row{"fs.lustre.posix_gds_min_kb", "fs.lustre.posix_gds_min_kb", Style::tight},
    Row{"fs.beegfs.posix_gds_min_kb", "fs.beegfs.posix_gds_min_kb", Style::tight},
    Row{"fs.scatefs.posix_gds_min_kb", "fs.scatefs.posix_gds_min_kb", Style::tight},
    Row{"fs.weka.rdma_write_support", "fs.weka.rdma_write_support", Style::tight},
    Row{"fs.gpfs.gds_write_support", "fs.gpfs.gds_write_support", Style::tight},
    Row{"fs.gpfs.gds_async_support", "fs.gpfs.gds_async_support", Style::tight},
    Row{"fs.lustre.use_pci_p2pdma", "fs.lustre.use_pci_p2pdma", Style::spaced, 1160},
    Row{"fs.nfs.use_pci_p2pdma", "fs.nfs.use_pci_p2pdma", Style::spaced, 1160},
    Row{"fs.virtiofs.use_pci_p2pdma", "fs.virtiofs.use_pci_p2pdma", Style::spaced, 1160},
    Row{"block.nvme.use_pci_p2pdma", "block.nvme.use_pci_p2pdma", Style::spaced, 1160},
    Row{"block.nvmeof.use_pci_p2pdma", "block.nvmeof.use_pci_p2pdma", Style::spaced, 1160},
    Row{"block.raid.use_pci_p2pdma", "block.raid.use_pci_p2pdma", Style::spaced, 1160},
    Row{"block.raid1.use_pci_p2pdma", "block.raid1.use_pci_p2pdma", Style::spaced, 1190},
    Row{"block.raid10.use_pci_p2pdma", "block.raid10.use_pci_p2pdma", Style::spaced, 1190},
    Row{"profile.nvtx", "profile.nvtx", Style::spaced, 1150, 1160},
    Row{"profile.cufile_stats", "profile.cufile_stats"},
    Row{"miscellaneous.api_check_aggressive", "miscellaneous.api_check_aggressive"},
    Row{"miscellaneous.enable_static_routing", "miscellaneous.enable_static_routing", Style::spaced, 1170},
    Row{"miscellaneous.static_routing_filepath", "miscellaneous.static_routing_filepath", Style::spaced, 1170},
    Row{"execution.max_io_threads", "execution.max_io_threads"},
    Row{"execution.max_io_queue_depth", "execution.max_io_queue_depth"},
    Row{"execution.parallel_io", "execution.parallel_io"},
    Row{"execution.min_io_threshold_size_kb", "execution.min_io_threshold_size_kb"},
    Row{"execution.max_request_parallelism", "execution.max_request_parallelism"},
    Row{"properties.force_odirect_mode", "properties.force_odirect_mode"},
    Row{"properties.prefer_iouring", "properties.prefer_iouring"},
    Row{"properties.vanilla_posix_io_mode", "properties.vanilla_posix_io_mode", Style::spaced, 1190},
    Row{"properties.gds_fallback_io", "properties.gds_fallback_io", Style::spaced, 1190},
};

std::string origin_of(const Setting& setting) {
  switch (setting.origin) {
    case SLUICE_ORIGIN_FILE:
      return fmt::format("file line {}{}", setting.line, setting.binds ? "" : ", the stock value");
    case SLUICE_ORIGIN_ENVIRONMENT:
      return "environment";
    case SLUICE_ORIGIN_PARAMETER:
      return "parameter";
    case SLUICE_ORIGIN_MEASURED:
      return "as measured, by sluice.profile";
    default:
      return "default";
  }
}

const char* effect_of(sluice_effect_t effect) {
  switch (effect) {
    case SLUICE_EFFECT_OBEYED:
      return "obeyed";
    case SLUICE_EFFECT_REPORTED:
      return "reported";
    default:
      return "accepted, changes nothing";
  }
}

std::string configuration_file() {
  std::array<char, 4097> path{};
  if (sluice_configuration_file(path.data(), path.size()).err != CU_FILE_SUCCESS) return "a name that is too long";
  return path[0] == '\0' ? "none" : printable(path.data());
}

}  // namespace

void print_cufile_configuration() {
  std::map<std::string, std::string> values;
  for (const Setting& setting : all_settings()) values[setting.key] = plain(setting.value);
  print_title("CUFILE CONFIGURATION:");
  int version = 0;
  cuFileGetVersion(&version);
  for (const Row& row : rows) {
    if (version < row.since || version >= row.until) continue;
    const std::string& value = values[row.key];
    const char* const colon = row.style == Style::tight ? ":" : " :";
    fmt::print(" {}{} {}\n", row.shown, colon,
               row.style == Style::digit ? (value == "true" ? "1" : "0") : value.c_str());
    print_routing_behind(row.key);
  }
}

void print_whole_configuration(Keys keys) {
  print_title("SLUICE CONFIGURATION:");
  fmt::print(" configuration file : {}\n", configuration_file());
  const auto say = [](const char* note, void*) { fmt::print(" note: {}\n", printable(note)); };
  if (sluice_configuration_notes(say, nullptr).err != CU_FILE_SUCCESS) {
    throw ToolError("The notes on the configuration cannot be read.", sluice_last_error());
  }
  if (keys == Keys::none) {
    fmt::print(" every key, with its origin and effect: gdscheck -p -v\n");
    return;
  }
  for (const Setting& setting : all_settings()) {
    fmt::print(" {} : {}  [{}; {}]\n", setting.key, printable(setting.value), origin_of(setting),
               effect_of(setting.effect));
  }
}

}  // namespace sluice::tools
