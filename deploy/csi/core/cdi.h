// SPDX-License-Identifier: Apache-2.0
// The CDI spec of this node: what a container runtime puts into a pod that asks for sluice.dev/gds.
#pragma once

#include <string>
#include <vector>

#include "facts/root.h"

namespace sluice::csi {

struct CdiOptions {
  std::string folder = "/var/run/cdi";
  std::string kind = "sluice.dev/gds";
  std::string kit;                  // on the host
  std::vector<std::string> drives;  // a device each besides "all", for claims of dynamic resource allocation
  facts::Root root;                 // where /dev/nvidia-fs* are looked for
};

// The library's folder, read-only, the variable that names its configuration, and the nodes of nvidia-fs where there
// are any. Version 0.5.0 and no field beyond it: readers refuse a whole file for one that they do not know.
std::string cdi_spec(const CdiOptions& options);

// Writes it beside its place and renames it. Nothing is written where it stands already.
void write_cdi_spec(const CdiOptions& options);

// "sluice.dev/gds=all", or of a drive.
std::string cdi_name(const CdiOptions& options, const std::string& device = "all");

// The spec of what one claim has: a device for each of its folders. Written and removed as the node's is.
struct ClaimDevice {
  std::string name;
  std::string host;    // the folder's path there
  std::string inside;  // and in the container
};
void write_claim_spec(const CdiOptions& options, const std::string& claim, const std::vector<ClaimDevice>& devices);
void remove_claim_spec(const CdiOptions& options, const std::string& claim);

}  // namespace sluice::csi
