// SPDX-License-Identifier: Apache-2.0
// Findings about network cards and GPU memory.
#pragma once

#include <array>

#include "doctor/finding.h"

namespace sluice::doctor {

inline constexpr std::array rdma_findings{
    // rdma
    Finding{"rdma.dma_buf", Section::rdma, Harm::fine, "network cards can reach GPU memory by dma-buf",
            "driver and kernel have both halves of it, and no further module is needed", "Nothing to do."},
    Finding{"rdma.dma_buf_likely", Section::rdma, Harm::fine,
            "network cards should reach GPU memory by dma-buf, as far as can be seen",
            "nothing speaks against it; the export was not tried here, or the kernel hides what its drivers can",
            "Try it where programs run, in the pod with GPU and card: `sluice doctor rdma`."},
    Finding{"rdma.peermem", Section::rdma, Harm::fine, "network cards can reach GPU memory by nvidia_peermem",
            "it is loaded, and ib_core registers peer memory", "Nothing to do; dma-buf is what NVIDIA advises by now."},
    Finding{"rdma.peermem_cannot", Section::rdma, Harm::degraded,
            "nvidia_peermem is wanted, and ib_core has no ib_register_peer_memory_client",
            "the kernel's own RDMA and DOCA from 3.4 on do not have it, only MLNX_OFED did",
            "Use dma-buf (open GPU module, kernel 5.12 or later) and drop nvidia_peermem from /etc/modules-load.d."},
    Finding{"rdma.peermem_not_loaded", Section::rdma, Harm::degraded,
            "ib_core can register peer memory, and nvidia_peermem is not loaded",
            "without dma-buf this module is the only way", "Load it: `modprobe nvidia-peermem`."},
    Finding{"rdma.peermem_refused", Section::rdma, Harm::degraded,
            "the kernel has refused nvidia_peermem: it disagrees about {symbol}",
            "the network drivers were renewed after the GPU driver was built against the old ones",
            "Build the GPU driver anew against them, or by the GPU Operator: delete the node's driver pod."},
    Finding{
        "rdma.operator_without_peermem", Section::rdma, Harm::degraded,
        "ib_core can register peer memory, and the GPU Operator has not loaded nvidia_peermem",
        "the closed GPU module has no dma-buf, and the operator loads this module only when told to",
        "Its values: driver.rdma.enabled=true, and driver.rdma.useHostMofed=true where the node itself has OFED; the "
        "open module needs neither."},
    Finding{"rdma.operator_waits_for_ofed", Section::rdma, Harm::degraded,
            "OFED {ofed} is the node's own, and the GPU Operator has not loaded nvidia_peermem",
            "unless told otherwise it waits for the Network Operator's drivers in /run/mellanox/drivers",
            "The GPU Operator's values: driver.rdma.enabled=true and driver.rdma.useHostMofed=true."},
    Finding{"rdma.export_refused", Section::rdma, Harm::degraded,
            "{gpu} says that it exports dma-bufs, and the export answers {error}",
            "driver and kernel do not fit, or a hypervisor gives out a part of the GPU",
            "Look for the driver's word on it: `dmesg | grep -i nvrm`."},
    Finding{"rdma.no_export", Section::rdma, Harm::degraded, "the open driver {driver} exports no dma-buf",
            "it does from release 515 on, with kernel 5.12 or later; kernel {kernel} runs",
            "Renew what is older of the two."},
    Finding{"rdma.kernel_without_dma_buf", Section::rdma, Harm::degraded, "ib_core of kernel {kernel} takes no dma-buf",
            "the kernel's has done so since 5.12, old OFED puts its own in the place; the GPU's half is there",
            "Run a newer kernel, or NVIDIA's network drivers for this one."},
    Finding{"rdma.card_without_dma_buf", Section::rdma, Harm::degraded,
            "{driver}, the driver of {device}, registers no dma-buf",
            "ib_core of kernel {kernel} takes them; each card's driver has to, too, and some came to it late",
            "Run a newer kernel, or the maker's own driver for this card."},
    Finding{"rdma.legacy_module", Section::rdma, Harm::advice, "nv_peer_mem is loaded",
            "the old module of the driver's days before 470",
            "Replace it: `modprobe -r nv_peer_mem && modprobe nvidia-peermem`."},
    Finding{"rdma.no_way", Section::rdma, Harm::advice, "network cards cannot reach GPU memory",
            "neither dma-buf (open GPU module) nor nvidia_peermem is there", "Install the open flavour of the driver."},
    Finding{"rdma.unified", Section::rdma, Harm::advice, "{gpu} has no GPUDirect RDMA",
            "its memory is the CPU's: cards reach it as host memory", "Register host memory with the card."},
    Finding{"rdma.gpu_without", Section::rdma, Harm::advice, "{gpu} has no GPUDirect RDMA",
            "the driver offers it on data-centre and workstation cards only",
            "Nothing to do: bytes go through host memory."},
    Finding{"rdma.port_down", Section::rdma, Harm::degraded, "{device} port {port} is {state}",
            "no cable, no link partner, or no subnet manager", "Look at it: `rdma link show`."},
    Finding{"rdma.soft_roce", Section::rdma, Harm::advice, "{device} is RDMA in software",
            "it copies by the CPU and cannot reach GPU memory", "Use it for tests only."},
    Finding{"rdma.pod_without_nic", Section::rdma, Harm::degraded,
            "network cards with RDMA are on the bus, and /dev/infiniband is missing",
            "this container was not given them",
            "Give it one: a resource rdma/... of the Network Operator's device plugin, or --device=/dev/infiniband."},
    Finding{"rdma.foreign_address", Section::rdma, Harm::degraded, "{key} has {address}, which no interface here has",
            "the list wants the addresses of this machine's own cards, not the servers'",
            "Write the cards' own addresses: `ip -4 addr`."},
    Finding{"rdma.address_unusable", Section::rdma, Harm::degraded, "{key} has {address}, which cannot be used",
            "{why}", "Write addresses of cards with RDMA: `rdma link show`, `ip -4 addr`."},
};

}  // namespace sluice::doctor
