// SPDX-License-Identifier: Apache-2.0
#include "core/cdi.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "core/mounts.h"
#include "core/record.h"
#include "core/refusal.h"
#include "facts/read.h"

namespace sluice::csi {
namespace {

constexpr const char* inside = "/usr/lib/sluice";  // where a pod finds the kit

// Two drives in one pod have a variable each.
std::string variable_part(std::string drive) {
  for (char& letter : drive) {
    const bool plain = std::isalnum(static_cast<unsigned char>(letter)) != 0;
    letter = plain ? static_cast<char>(std::toupper(static_cast<unsigned char>(letter))) : '_';
  }
  return drive;
}

std::string path_of(const CdiOptions& options, const std::string& end) {
  std::string name = options.kind + end + ".json";
  std::replace(name.begin(), name.end(), '/', '-');
  return options.folder + "/" + name;
}

void write_spec(const std::string& folder, const std::string& path, const std::string& spec) {
  if (facts::read_text(path) == spec) return;
  make_folder(folder, 0755);
  write_durably(path, spec, Readers::all);
}

}  // namespace

std::string cdi_name(const CdiOptions& options, const std::string& device) {
  return options.kind + "=" + device;
}

std::string cdi_spec(const CdiOptions& options) {
  using Json = nlohmann::ordered_json;
  Json edits;
  edits["env"] = {std::string("CUFILE_ENV_PATH_JSON=") + inside + "/cufile.json"};
  Json nodes = Json::array();
  for (const std::string& name : facts::list_names(options.root.at("/dev"))) {
    if (name.starts_with("nvidia-fs")) nodes.push_back({{"path", "/dev/" + name}});
  }
  if (!nodes.empty()) edits["deviceNodes"] = nodes;
  edits["mounts"] = {
      {{"hostPath", options.kit}, {"containerPath", inside}, {"options", {"ro", "nosuid", "nodev", "rbind"}}}};
  Json spec;
  spec["cdiVersion"] = "0.5.0";
  spec["kind"] = options.kind;
  spec["devices"] = {{{"name", "all"}, {"containerEdits", edits}}};
  // A drive's volume comes by its claim; what a pod needs besides is the same for each, and told which one it was
  // given.
  for (const std::string& drive : options.drives) {
    Json own = edits;
    own["env"].push_back("SLUICE_CSI_DRIVE_" + variable_part(drive) + "=" + drive);
    spec["devices"].push_back({{"name", drive}, {"containerEdits", own}});
  }
  return spec.dump(2) + "\n";
}

void write_cdi_spec(const CdiOptions& options) {
  write_spec(options.folder, path_of(options, ""), cdi_spec(options));
}

void write_claim_spec(const CdiOptions& options, const std::string& claim, const std::vector<ClaimDevice>& devices) {
  using Json = nlohmann::ordered_json;
  Json spec = {{"cdiVersion", "0.5.0"}, {"kind", options.kind}, {"devices", Json::array()}};
  for (const ClaimDevice& each : devices) {
    const Json mounts = {
        {{"hostPath", each.host}, {"containerPath", each.inside}, {"options", {"rw", "nosuid", "nodev", "rbind"}}}};
    spec["devices"].push_back({{"name", each.name}, {"containerEdits", {{"mounts", mounts}}}});
  }
  write_spec(options.folder, path_of(options, "-" + claim), spec.dump(2) + "\n");
}

void remove_claim_spec(const CdiOptions& options, const std::string& claim) {
  const std::string path = path_of(options, "-" + claim);
  if (unlink(path.c_str()) != 0 && errno != ENOENT) refuse_errno("removing " + path, errno);
}

}  // namespace sluice::csi
