// SPDX-License-Identifier: Apache-2.0
// What several sections want to know of a machine, read once.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "doctor/probes.h"
#include "doctor/tree.h"
#include "facts/block.h"
#include "facts/gpudirect_rdma.h"
#include "facts/mount.h"
#include "topology/machine.h"

namespace sluice::doctor {

struct Card {
  std::string address;               // "0000:17:00.0"
  std::string name;                  // "NVIDIA H200", "GPU 0000:17:00.0"
  std::string driver;                // "nvidia", "vfio-pci", "" for none
  int node = -1;                     // NUMA; -1 where it is not known
  std::vector<std::string> bridges;  // above it, nearest first
  std::string root;                  // "pci0000:16": the host bridge
  std::string group;                 // of the IOMMU; "" where there is none
  std::string domain;                // the group's type: "identity", "DMA-FQ"
  topology::Link link;
};

struct Drive {
  std::string controller;  // "nvme0"
  std::string disk;        // "nvme0n1"; "" where there is none
  std::string transport;   // "pcie", "tcp"
  bool head = false;       // the disk is the head of several paths
  Card card;               // of a PCIe drive
};

struct MountedFs {
  facts::Mount mount;
  facts::BlockFacts block;
};

struct Gpu {
  Card card;
  std::uint64_t bar1 = 0;  // bytes; 0 where unknown
  bool geforce = false;
  bool unified = false;   // shares the CPU's memory: GB10
  bool coherent = false;  // hangs on the CPU by NVLink-C2C: GH200, GB200
};

struct Machine {
  explicit Machine(const Tree& tree);

  const Tree& tree;
  Probes probes;
  std::string kernel;  // "6.17.0-5-generic"
  std::string arch;    // "x86_64", "aarch64"
  std::string command_line;
  std::string driver;  // version of the loaded nvidia module; "" when it is not loaded
  bool open_module = false;
  std::string nvfs;  // version of the loaded nvidia-fs; "" when it is not loaded
  bool nvfs_loaded = false;
  topology::Machine bus;  // the tree, with links, NVLinks and addresses
  // Its cards, with what matters for one card alone.
  std::vector<Gpu> gpus;
  std::vector<Drive> drives;
  std::vector<Card> nics;  // network cards on PCI
  std::vector<MountedFs> mounts;
  bool in_container = false;
  bool wsl = false;
  std::string hypervisor;  // "KVM", "QEMU"; "" on bare metal

  Version kernel_version() const { return Version(kernel); }
  Version driver_version() const { return Version(driver); }
  bool has_module(const std::string& name) const { return tree.has("/sys/module/" + name); }
  // The kernel, or a module of it, has this symbol. Asked for once for all that sections want to know.
  bool has_symbol(const std::string& name) const { return symbols.contains(name); }

  std::set<std::string> symbols;
  facts::RdmaKernelFacts rdma;
};

}  // namespace sluice::doctor
