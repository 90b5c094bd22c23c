// SPDX-License-Identifier: Apache-2.0
// gdscheck -p --json: the report for programs.
#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "common/driver.h"
#include "doctor/nvfs_report.h"
#include "doctor/pair_json.h"
#include "gdscheck/sections.h"
#include "sluice.h"

namespace sluice::tools {
namespace {

using Json = nlohmann::ordered_json;

Json configuration() {
  Json keys = Json::array();
  const auto take = [](const sluice_setting_t* shown, void* context) {
    constexpr const char* origins[] = {"default", "file", "environment", "parameter", "measured"};
    constexpr const char* effects[] = {"obeyed", "reported", "accepted"};
    static_cast<Json*>(context)->push_back({{"key", shown->key},
                                            {"value", Json::parse(shown->value, nullptr, false)},
                                            {"origin", origins[shown->origin]},
                                            {"line", shown->line},
                                            {"effect", effects[shown->effect]}});
  };
  sluice_configuration(take, &keys);
  return keys;
}

Json notes() {
  Json list = Json::array();
  const auto take = [](const char* note, void* context) { static_cast<Json*>(context)->push_back(note); };
  sluice_configuration_notes(take, &list);
  return list;
}

Json gpus() {
  Json list = Json::array();
  for (const GpuRow& row : gpu_rows()) {
    list.push_back({{"name", row.name},
                    {"bar_mib", row.bar_mib},
                    {"supports_gds", !row.soft},
                    {"iommu", row.iommu},
                    {"coherent", row.coherent}});
  }
  return list;
}

// As in the JSON of `sluice doctor`.
Json rdma_pairs() {
  Json list = Json::array();
  for (const doctor::RdmaPair& pair : platform().rdma_pairs) list.push_back(doctor::json_of(pair));
  return list;
}

}  // namespace

void print_json(const std::string& failure) {
  const doctor::Platform& facts = platform();
  int api = 0;
  cuFileGetVersion(&api);
  Json json;
  json["sluice"] = sluice_version();
  json["cufile_api"] = api;
  json["nvidia_fs"] = {{"version", facts.nvfs},
                       {"hooks", doctor::nvfs_report_of("").hooks},
                       {"used", !setting_is("sluice.nvfs", "\"off\"")}};
  json["p2pdma"] = {{"used", p2pdma_is_used()}, {"ready", facts.p2pdma_ready}, {"why_not", facts.why_no_p2pdma}};
  json["rdma"] = {{"peer_memory", facts.peer_memory}, {"dma_buf", facts.dma_buf},  {"pairs", rdma_pairs()},
                  {"devices", facts.rdma_devices},    {"ports_up", facts.rdma_up}, {"ports_down", facts.rdma_down}};
  json["iommu"] = facts.iommu;
  json["acs_bridges"] = facts.acs_bridges;
  json["kernel_driver"] = facts.kernel_driver;
  json["driver"] = driver_kind_name(choose_driver().kind);
  json["gpus"] = gpus();
  json["configuration"] = configuration();
  json["notes"] = notes();
  json["verification"] = {{"succeeded", failure.empty()}, {"why_not", failure}};
  fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
}

}  // namespace sluice::tools
