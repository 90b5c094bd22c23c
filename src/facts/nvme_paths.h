// SPDX-License-Identifier: Apache-2.0
// How an NVMe drive is reached at this moment: its controllers, their transport and the state of each path.
#pragma once

#include <string>
#include <vector>

#include "facts/root.h"

namespace sluice::facts {

struct NvmePath {
  std::string controller;  // "nvme3"
  std::string transport;   // "pcie", "tcp", "rdma"
  std::string address;     // "127.0.0.1:4420"; a PCI address
  std::string state;       // of the controller: "live", "connecting"
  std::string ana_state;   // "optimized", "non-optimized", "inaccessible"; "" where the drive has no such states
};

// Of a disk that is the head of several paths, each of them, by controller; else the one. Empty where sysfs does not
// tell.
std::vector<NvmePath> nvme_paths(const std::string& disk, const Root& root);

// "path nvme3 tcp 127.0.0.1:4420 live optimized, path ..."; empty for a drive with a single PCIe path, of which there
// is nothing to say.
std::string describe_nvme_paths(const std::string& disk, const Root& root);

}  // namespace sluice::facts
