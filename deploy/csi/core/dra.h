// SPDX-License-Identifier: Apache-2.0
// Dynamic resource allocation, without gRPC: the drives of this node as the scheduler sees them, with their bandwidth
// as a quantity that claims share, and what a claim was given.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/kube_api.h"
#include "facts/root.h"

namespace sluice::csi {

struct DraDrive {
  std::string name;       // "nvme0n1"
  std::string model;      // "" where it is not told
  std::string pcie_root;  // "pci0000:10"; "" for drives that hang elsewhere
  int numa = -1;
  std::int64_t bandwidth = 0;  // bytes a second; 0 is not known
  bool verified = false;       // a read into a GPU of this node was right in every byte
};

// What sysfs tells. An array has the root and the node that its members share, and their bandwidths' sum.
DraDrive dra_drive(const std::string& disk, const facts::Root& root);

// Names of devices are labels of DNS.
std::string dra_device_name(const std::string& disk);

struct DraNames {
  std::string driver;  // "gds.sluice.dev"
  std::string cdi;     // "sluice.dev/gds"
  std::string node;
};

// A ResourceSlice of resource.k8s.io/v1, without a resource version. `node_uid` makes the node its owner.
std::string resource_slice(const DraNames& names, const std::vector<DraDrive>& drives, const std::string& node_uid,
                           std::int64_t generation);
// Whether a slice from the server offers the same.
bool same_offer(const std::string& slice, const std::string& wanted);

// Room on the drive that a claim was given, for as long as the claim is in use.
struct DraFolder {
  std::int64_t bytes = 0;
  std::string path;  // in the container
};

struct DraAllocation {
  std::string request;
  std::string pool;
  std::string device;
  std::optional<std::string> share;
  std::optional<std::int64_t> bandwidth;  // that the claim consumes
  std::optional<DraFolder> folder;        // that its configuration asks for
};
struct DraClaim {
  std::string uid;
  std::vector<DraAllocation> allocations;  // of our driver
  std::vector<std::string> pods;           // uids of pods that it is reserved for
};
// Refused when the text is no ResourceClaim, or nothing was allocated to it.
DraClaim claim_in(const std::string& text, const std::string& driver);

// Brings the node's slice to the server: makes it, or changes it where it offers something else.
void publish_slice(KubeApi& api, const DraNames& names, const std::vector<DraDrive>& drives);
DraClaim read_claim(KubeApi& api, const std::string& space, const std::string& name, const std::string& driver);

}  // namespace sluice::csi
