// SPDX-License-Identifier: Apache-2.0
#include "core/dra.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "core/affinity.h"
#include "core/bytes.h"
#include "core/node_service.h"
#include "core/refusal.h"
#include "facts/read.h"

namespace sluice::csi {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* api = "/apis/resource.k8s.io/v1";
constexpr std::int64_t megabyte = 1000000;
constexpr std::int64_t step = 100 * megabyte;  // of what claims can ask for

// Bytes a second that a lane carries, after its coding.
std::int64_t lane_bandwidth(std::string_view speed) {
  static constexpr std::array<std::pair<std::string_view, std::int64_t>, 6> lanes = {
      {{"2.5", 250}, {"5", 500}, {"8", 985}, {"16", 1969}, {"32", 3938}, {"64", 7563}}};
  std::string_view number = speed.substr(0, speed.find(' '));
  if (number.ends_with(".0")) number.remove_suffix(2);
  for (const auto& [name, megabytes] : lanes) {
    if (name == number) return megabytes * megabyte;
  }
  return 0;
}

std::int64_t link_bandwidth(const std::string& folder) {
  const std::string speed = facts::read_value(folder + "/current_link_speed").value_or("");
  const std::string width = facts::read_value(folder + "/current_link_width").value_or("");
  int lanes = 0;
  std::from_chars(width.data(), width.data() + width.size(), lanes);
  return lane_bandwidth(speed) * lanes / step * step;
}

std::string quantity(std::int64_t bytes) {
  return bytes % (1000 * megabyte) == 0 ? fmt::format("{}G", bytes / (1000 * megabyte))
                                        : fmt::format("{}M", bytes / megabyte);
}

Json device_json(const DraDrive& drive) {
  Json attributes;
  if (!drive.pcie_root.empty()) attributes["resource.kubernetes.io/pcieRoot"] = {{"string", drive.pcie_root}};
  if (!drive.model.empty()) attributes["model"] = {{"string", drive.model.substr(0, 64)}};
  if (drive.numa >= 0) attributes["numa"] = {{"int", drive.numa}};
  attributes["verified"] = {{"bool", drive.verified}};
  Json device = {{"name", dra_device_name(drive.name)}, {"attributes", attributes}};
  if (drive.bandwidth < step) return device;
  // Several claims share the drive: each consumes what it asks for, a step of bandwidth unless it says more.
  device["capacity"]["bandwidth"] = {
      {"value", quantity(drive.bandwidth)},
      {"requestPolicy",
       {{"default", quantity(step)}, {"validRange", {{"min", quantity(step)}, {"step", quantity(step)}}}}}};
  device["allowMultipleAllocations"] = true;
  return device;
}

std::string slice_name(const DraNames& names) {
  return names.node + "-" + names.driver;
}

Json parsed(const std::string& text) {
  return Json::parse(text, nullptr, false);
}

[[noreturn]] void refuse_answer(const std::string& doing, const HttpAnswer& answer) {
  const Json status = parsed(answer.body);
  const std::string said = status.is_object() ? status.value("message", "") : "";
  refuse(Code::internal,
         fmt::format("{}: the API server answers {} {}. Look at the chart's ClusterRole.", doing, answer.status, said));
}

// The parameters of ours: size and path.
DraFolder folder_in(const Json& parameters) {
  if (!parameters.is_object()) refuse(Code::invalid_argument, "The claim's parameters are no object of size and path.");
  for (const auto& [key, value] : parameters.items()) {
    if (key != "size" && key != "path")
      refuse(Code::invalid_argument, fmt::format("\"{}\" is no parameter of a claim. There are: size, path.", key));
  }
  DraFolder folder;
  folder.path = parameters.value("path", "");
  want_path(folder.path, "The claim's path");
  if (folder.path == "/") refuse(Code::invalid_argument, "The claim's path is the whole root. Name a folder.");
  const std::string size = parameters.value("size", "");
  folder.bytes = parse_quantity(size).value_or(0);
  if (folder.bytes <= 0)
    refuse(Code::invalid_argument, fmt::format("The claim's size is \"{}\". It is bytes, such as 100Gi.", size));
  return folder;
}

// The last that speaks of a request is the nearest to its claim: those of the class come first.
std::optional<DraFolder> folder_of(const std::string& request, const Json& configurations, const std::string& driver) {
  std::optional<DraFolder> folder;
  for (const Json& each : configurations) {
    const Json opaque = each.value("opaque", Json::object());
    if (opaque.value("driver", "") != driver) continue;
    const Json requests = each.value("requests", Json::array());
    // "storage" speaks of its alternatives, "storage/fast" among them, too.
    const bool meant = requests.empty() || std::any_of(requests.begin(), requests.end(), [&](const Json& one) {
                         const std::string name = one.get<std::string>();
                         return request == name || request.starts_with(name + "/");
                       });
    if (meant) folder = folder_in(opaque.value("parameters", Json::object()));
  }
  return folder;
}

}  // namespace

std::string dra_device_name(const std::string& disk) {
  std::string name;
  for (const char letter : disk) {
    name += std::isalnum(static_cast<unsigned char>(letter)) != 0
                ? static_cast<char>(std::tolower(static_cast<unsigned char>(letter)))
                : '-';
  }
  return name;
}

DraDrive dra_drive(const std::string& disk, const facts::Root& root) {
  DraDrive drive;
  drive.name = disk;
  drive.model = facts::read_value(root.at("/sys/class/block/" + disk + "/device/model")).value_or("");
  bool first = true;
  for (const std::string& link : links_of(disk, root)) {
    const PciPlace place = pci_place_at(link);
    int numa = -1;
    std::from_chars(place.node.data(), place.node.data() + place.node.size(), numa);
    // Members at different roots have none in common.
    drive.pcie_root = first || drive.pcie_root == place.root ? place.root : "";
    drive.numa = first || drive.numa == numa ? numa : -1;
    if (!place.folder.empty()) drive.bandwidth += link_bandwidth(place.folder);
    first = false;
  }
  return drive;
}

std::string resource_slice(const DraNames& names, const std::vector<DraDrive>& drives, const std::string& node_uid,
                           std::int64_t generation) {
  Json devices = Json::array();
  for (const DraDrive& each : drives) devices.push_back(device_json(each));
  Json slice = {{"apiVersion", "resource.k8s.io/v1"}, {"kind", "ResourceSlice"}};
  slice["metadata"]["name"] = slice_name(names);
  if (!node_uid.empty()) {
    slice["metadata"]["ownerReferences"] = {
        {{"apiVersion", "v1"}, {"kind", "Node"}, {"name", names.node}, {"uid", node_uid}, {"controller", true}}};
  }
  slice["spec"] = {{"driver", names.driver},
                   {"nodeName", names.node},
                   {"pool", {{"name", names.node}, {"generation", generation}, {"resourceSliceCount", 1}}},
                   {"devices", devices}};
  return slice.dump();
}

bool same_offer(const std::string& slice, const std::string& wanted) {
  // Not the ordered kind: the server writes fields in an order of its own.
  const auto left = nlohmann::json::parse(slice, nullptr, false);
  const auto right = nlohmann::json::parse(wanted, nullptr, false);
  const nlohmann::json::json_pointer devices("/spec/devices");
  const nlohmann::json::json_pointer node("/spec/nodeName");
  return left.is_object() && right.is_object() && left.contains(devices) && left.contains(node) &&
         left[devices] == right[devices] && left[node] == right[node];
}

DraClaim claim_in(const std::string& text, const std::string& driver) {
  const Json json = parsed(text);
  try {
    if (!json.is_object() || json.value("kind", "") != "ResourceClaim")
      refuse(Code::internal, "What the API server gives is no ResourceClaim. Is resource.k8s.io/v1 enabled there?");
    DraClaim claim;
    claim.uid = json.at("metadata").at("uid");
    const Json status = json.value("status", Json::object());
    const Json allocation = status.value("allocation", Json::object());
    if (allocation.empty())
      refuse(Code::failed_precondition, "Nothing was allocated to the claim yet. The scheduler does that first.");
    const Json devices = allocation.value("devices", Json::object());
    const Json configurations = devices.value("config", Json::array());
    for (const Json& each : devices.value("results", Json::array())) {
      if (each.value("driver", "") != driver) continue;
      DraAllocation found;
      found.request = each.at("request");
      found.pool = each.at("pool");
      found.device = each.at("device");
      if (each.contains("shareID")) found.share = each.at("shareID").get<std::string>();
      const std::string consumed = each.value("consumedCapacity", Json::object()).value("bandwidth", "");
      if (!consumed.empty()) found.bandwidth = parse_quantity(consumed);
      found.folder = folder_of(found.request, configurations, driver);
      claim.allocations.push_back(std::move(found));
    }
    for (const Json& each : status.value("reservedFor", Json::array())) {
      if (each.value("resource", "") == "pods") claim.pods.push_back(each.at("uid"));
    }
    return claim;
  } catch (const nlohmann::json::exception& error) {
    refuse(Code::internal, std::string("The ResourceClaim has another form than v1: ") + error.what());
  }
}

void publish_slice(KubeApi& api_server, const DraNames& names, const std::vector<DraDrive>& drives) {
  const HttpAnswer node = api_server.get("/api/v1/nodes/" + names.node);
  const nlohmann::json::json_pointer uid_at("/metadata/uid");
  const auto node_json = nlohmann::json::parse(node.body, nullptr, false);
  const std::string uid =
      node.status == 200 && node_json.contains(uid_at) ? node_json[uid_at].get<std::string>() : std::string();
  const std::string all = std::string(api) + "/resourceslices";
  const std::string one = all + "/" + slice_name(names);
  const HttpAnswer old = api_server.get(one);
  if (old.status == 404) {
    const HttpAnswer made = api_server.post(all, resource_slice(names, drives, uid, 1));
    if (made.status / 100 != 2) refuse_answer("making the ResourceSlice of this node", made);
    return;
  }
  if (old.status != 200) refuse_answer("reading the ResourceSlice of this node", old);
  if (same_offer(old.body, resource_slice(names, drives, uid, 1))) return;
  try {
    const Json known = parsed(old.body);
    Json next = parsed(
        resource_slice(names, drives, uid, known.at("spec").at("pool").at("generation").get<std::int64_t>() + 1));
    next["metadata"]["resourceVersion"] = known.at("metadata").at("resourceVersion");
    const HttpAnswer changed = api_server.put(one, next.dump());
    if (changed.status / 100 != 2) refuse_answer("changing the ResourceSlice of this node", changed);
  } catch (const nlohmann::json::exception& error) {
    refuse(Code::internal, std::string("The ResourceSlice of this node has another form than v1: ") + error.what());
  }
}

DraClaim read_claim(KubeApi& api_server, const std::string& space, const std::string& name, const std::string& driver) {
  const auto is_name = [](const std::string& text) {
    return !text.empty() && text.size() < 254 && std::all_of(text.begin(), text.end(), [](char letter) {
      return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '-' || letter == '.';
    });
  };
  if (!is_name(space) || !is_name(name)) refuse(Code::invalid_argument, "The claim's name is none of Kubernetes'.");
  const HttpAnswer answer = api_server.get(fmt::format("{}/namespaces/{}/resourceclaims/{}", api, space, name));
  if (answer.status != 200) refuse_answer(fmt::format("reading the ResourceClaim {}/{}", space, name), answer);
  return claim_in(answer.body, driver);
}

}  // namespace sluice::csi
