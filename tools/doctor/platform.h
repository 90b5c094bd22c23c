// SPDX-License-Identifier: Apache-2.0
// What gdscheck prints of the machine: the facts behind its rows.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "doctor/report.h"

namespace sluice::doctor {

struct PlatformGpu {
  std::string address;
  std::string iommu;  // "Disabled", "Pass-through", "Enabled"
};

struct PlatformMount {
  std::string point;
  std::string type;
  std::string source;
  std::string options;
  std::uint64_t device = 0;  // dev_id
};

// One GPU and one card or drive.
struct PlatformPair {
  std::string gpu;
  std::string device;
  std::string distance;  // "same switch", ...
};

// An address of a list in cufile.json that cannot be used.
struct PlatformAddress {
  std::string key;  // "fs.lustre.mount_table /lustre/a"
  std::string address;
  std::string objection;
};

struct Platform {
  bool p2pdma_ready = false;  // kernel, driver, keys and IOMMU, and a PCIe NVMe drive
  std::string why_no_p2pdma;  // the worst sign of that section; "" where it is ready
  bool gpu_works = false;     // CUDA starts on a device that is no soft GPU
  std::string why_no_gpu;     // the sign of what is wrong with it
  std::string nvfs;           // version of the loaded nvidia-fs; "" where it is not loaded
  std::vector<std::string> nvfs_hooks;
  bool peer_memory = false;  // nvidia_peermem is loaded, and there is something to register it with
  bool dma_buf = false;      // network cards reach GPU memory by dma-buf
  std::vector<RdmaPair> rdma_pairs;
  std::vector<std::string> rdma_devices;
  int rdma_up = 0;
  int rdma_down = 0;
  std::string iommu;                     // of the machine: "disabled", "pass-through", "enabled"
  std::string kernel_driver;             // "open", "proprietary", "" for none
  std::vector<std::string> acs_bridges;  // that send requests upwards; seen by root only
  std::vector<PlatformGpu> gpus;         // as CUDA counts them; as the bus does where CUDA does not start
  std::vector<PlatformMount> mounts;
  std::vector<PlatformPair> pairs;
  std::vector<PlatformAddress> unusable;
};

// By the attributes of a CUDA device, of which `value_of` tells each: the CPU shares its memory by hardware.
bool shares_memory(const std::function<int(int)>& value_of);

// `root` as for examine().
Platform platform_of(const std::string& root);

}  // namespace sluice::doctor
