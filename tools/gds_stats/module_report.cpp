// SPDX-License-Identifier: Apache-2.0
#include "gds_stats/module_report.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "common/error.h"
#include "common/text.h"
#include "doctor/nvfs_report.h"
#include "doctor/record.h"

namespace sluice::tools {
namespace {

using Json = nlohmann::ordered_json;

Json counts_json(const doctor::NvfsCounts& counts) {
  Json json = Json::object();
  for (const auto& [name, value] : counts) json[name] = value;
  return json;
}

Json report_json(const doctor::NvfsReport& report) {
  Json json;
  json["version"] = report.version;
  json["hooks"] = report.hooks;
  json["counts_io"] = report.counts_io;
  json["counts_peers"] = report.counts_peers;
  json["rows"] = Json::object();
  for (const doctor::NvfsRow& row : report.rows) json["rows"][row.name] = counts_json(row.counts);
  json["gpus"] = Json::array();
  for (const doctor::NvfsGpu& gpu : report.gpus) {
    json["gpus"].push_back({{"address", gpu.address}, {"uuid", gpu.uuid}, {"counts", counts_json(gpu.counts)}});
  }
  json["peers"] = Json::array();
  for (const doctor::NvfsPeer& peer : report.peers) {
    json["peers"].push_back({{"gpu", peer.gpu},
                             {"peer", peer.peer},
                             {"kind", peer.kind},
                             {"rank", peer.rank},
                             {"distance", peer.distance},
                             {"transfers", peer.transfers}});
  }
  json["affinities"] = Json::array();
  for (const doctor::NvfsAffinity& affinity : report.affinities) {
    json["affinities"].push_back({{"gpu", affinity.gpu}, {"transfers_by_distance", affinity.by_distance}});
  }
  json["notes"] = doctor::remarks_on(report);
  return json;
}

void want_folder_of_machine(const std::string& root) {
  struct stat status {};
  if (stat(root.c_str(), &status) != 0) {
    throw ToolError(fmt::format("{} cannot be examined: {}.", printable(root), system_words(errno)),
                    "Name a folder into which a recorded machine was unpacked.", 2);
  }
  if (!S_ISDIR(status.st_mode)) {
    throw ToolError(fmt::format("{} is no folder.", printable(root)),
                    "Unpack it, and name the folder: mkdir machine; tar -xf FILE -C machine.", 2);
  }
  doctor::want_machine(root, root);
}

}  // namespace

void show_module(const std::string& root, ModuleFormat format) {
  if (!root.empty()) want_folder_of_machine(root);
  const doctor::NvfsReport report = doctor::nvfs_report_of(root);
  if (!report.loaded) {
    throw ToolError("nvidia-fs.ko is not loaded.", "`sluice doctor nvidia-fs` tells why; Sluice works without it.");
  }
  if (format == ModuleFormat::json) {
    fmt::print("{}\n", report_json(report).dump(2, ' ', false, Json::error_handler_t::replace));
  } else {
    fmt::print("{}", doctor::text_of(report));
  }
}

}  // namespace sluice::tools
