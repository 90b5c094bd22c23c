// SPDX-License-Identifier: Apache-2.0
// The keys that are about where files live: RDMA, file systems, block devices, denylists, and the rest.
#pragma once

#include <array>

#include "config/key.h"

namespace sluice::config {

inline constexpr std::string_view no_rdma = "None: the path rdma (docs/reference/rdma.md) has no such thing.";
inline constexpr std::string_view routes_only =
    "Part of the route that sluice_explain, sluice topology and gdscheck show; no transfer goes by it.";
inline constexpr std::string_view of_operations =
    "For handles with operations of their own on such a mount, in place of properties.rdma_dev_addr_list.";
inline constexpr std::string_view trial_decides =
    "None: properties.use_pci_p2pdma and a trial (docs/reference/paths.md) decide alone.";

inline constexpr std::array storage_keys{
    Key{"properties.gds_rdma_write_support", Kind::flag, "true", Effect::obeyed,
        "Write by RDMA where the file system can; false sends such writes through the CPU.",
        "Of file systems that are given as operations (docs/reference/rdma.md); others have no RDMA here."},
    Key{"properties.rdma_dev_addr_list", Kind::addresses, "[]", Effect::obeyed,
        "IPv4 addresses of this machine's RDMA adapters.",
        "File systems that are given as operations use ports with these addresses alone; without any, each "
        "that has a link."},
    Key{"properties.rdma_load_balancing_policy", Kind::choice, "\"RoundRobin\"", Effect::obeyed,
        "How adapters are chosen.",
        "Among the nearest ports with links: FirstFit takes the nearest, MaxMinFit the one with the fewest "
        "bytes under way, RoundRobin each in turn, RoundRobinMaxMin each in turn of those with the fewest, Randomized "
        "any."}
        .of("FirstFit|MaxMinFit|RoundRobin|RoundRobinMaxMin|Randomized"),
    Key{"properties.rdma_dynamic_routing", Kind::flag, "false", Effect::reported,
        "Choose a way for GPU and adapter that share no PCIe tree; wants addresses.", routes_only},
    Key{"properties.rdma_dynamic_routing_order", Kind::choices,
        "[\"GPU_MEM_NVLINKS\", \"GPU_MEM\", \"SYS_MEM\", \"P2P\"]", Effect::reported,
        "The ways in the order of preference.", routes_only}
        .of("GPU_MEM_NVLINKS|GPU_MEM|SYS_MEM|P2P"),
    Key{"properties.rdma_dc_key", Kind::hex, "\"0xffeeddcc\"", Effect::accepted,
        "The key of dynamically connected transports.", no_rdma}
        .by("CUFILE_RDMA_DC_KEY"),
    Key{"properties.rdma_access_mask", Kind::hex, "\"0x1f\"", Effect::obeyed, "Access rights of RDMA registrations.",
        "Of the rights in libibverbs' numbers, the adapter's and the server's writes and the server's reads "
        "count (0x7)."},
    Key{"properties.rdma_peer_type", Kind::choice, "\"\"", Effect::obeyed,
        "How device memory is made known to the adapter.",
        "dmabuf and peer_mem leave the other way out; without it, a dma-buf is tried first."}
        .of("peer_mem|dmabuf"),
    Key{"properties.rdma_transport_type", Kind::choice, "\"\"", Effect::accepted, "The transport.", no_rdma}.of(
        "DC_V1|EXT_RC_V1"),
    Key{"properties.rdma_topN_ranks", Kind::number, "1", Effect::obeyed, "How many of the nearest adapters are used.",
        "Ports are ranked by their distance from the GPU (docs/reference/topology.md); without a GPU, or where "
        "the bus tells nothing, all are alike."}
        .within({.lowest = 1}),
    Key{"properties.allow_rdma_token_reset", Kind::flag, "false", Effect::accepted, "Let RDMA tokens be made anew.",
        no_rdma},
    Key{"properties.rdma_multipath_enabled", Kind::flag, "false", Effect::accepted,
        "Use several adapters for one mount.", no_rdma},
    Key{"properties.rdma_max_backup_devices", Kind::number, "0", Effect::accepted, "Adapters that are kept in reserve.",
        no_rdma},
    Key{"properties.rdma_io_retry_count", Kind::number, "0", Effect::accepted, "How often a transfer is tried again.",
        no_rdma},
    Key{"properties.rdma_io_retry_delay_ms", Kind::number, "0", Effect::accepted, "The pause between two tries.",
        no_rdma},
    Key{"properties.rdma_failback_enabled", Kind::flag, "false", Effect::accepted,
        "Go back to an adapter that works again.", no_rdma},
    Key{"properties.rdma_failback_delay_ms", Kind::number, "0", Effect::accepted, "How long it has to work before.",
        no_rdma},
    Key{"properties.rdma_health_check_interval_ms", Kind::number, "0", Effect::accepted,
        "The pause between two looks at the adapters.", no_rdma},
    Key{"properties.rdma_async_event_monitoring", Kind::flag, "false", Effect::accepted, "Follow the adapters' events.",
        no_rdma},
    Key{"properties.rdma_unhealthy_threshold", Kind::number, "0", Effect::accepted,
        "Failures that take an adapter out of use.", no_rdma},
    Key{"fs.generic.posix_unaligned_writes", Kind::flag, "false", Effect::accepted,
        "Leave unaligned writes to the CPU.", trial_decides},
    Key{"fs.lustre.posix_gds_min_kb", Kind::number, "0", Effect::accepted,
        "Lustre: transfers up to this size are left to the CPU.", trial_decides}
        .within({.highest = 4294967292, .step = 4}),
    Key{"fs.lustre.rdma_dev_addr_list", Kind::addresses, "[]", Effect::obeyed,
        "Lustre: addresses of the adapters for all its mounts; not together with mount_table.", of_operations},
    Key{"fs.lustre.mount_table", Kind::mounts, "{}", Effect::obeyed,
        "Lustre: addresses of the adapters, mount by mount.", of_operations},
    Key{"fs.lustre.use_pci_p2pdma", Kind::flag, "false", Effect::accepted, "Lustre: use the kernel's PCI P2PDMA.",
        trial_decides},
    Key{"fs.beegfs.posix_gds_min_kb", Kind::number, "0", Effect::accepted,
        "BeeGFS: transfers up to this size are left to the CPU.", trial_decides}
        .within({.highest = 4294967292, .step = 4}),
    Key{"fs.beegfs.rdma_dev_addr_list", Kind::addresses, "[]", Effect::obeyed,
        "BeeGFS: addresses of the adapters for all its mounts; not together with mount_table.", of_operations},
    Key{"fs.beegfs.mount_table", Kind::mounts, "{}", Effect::obeyed,
        "BeeGFS: addresses of the adapters, mount by mount.", of_operations},
    Key{"fs.beegfs.use_pci_p2pdma", Kind::flag, "false", Effect::accepted, "BeeGFS: use the kernel's PCI P2PDMA.",
        trial_decides},
    Key{"fs.scatefs.posix_gds_min_kb", Kind::number, "0", Effect::accepted,
        "ScaTeFS: transfers up to this size are left to the CPU.", trial_decides}
        .within({.highest = 4294967292, .step = 4}),
    Key{"fs.scatefs.use_pci_p2pdma", Kind::flag, "false", Effect::accepted, "ScaTeFS: use the kernel's PCI P2PDMA.",
        trial_decides},
    Key{"fs.nfs.rdma_dev_addr_list", Kind::addresses, "[]", Effect::obeyed,
        "NFS: addresses of the adapters for all its mounts; not together with mount_table.", of_operations},
    Key{"fs.nfs.mount_table", Kind::mounts, "{}", Effect::obeyed, "NFS: addresses of the adapters, mount by mount.",
        of_operations},
    Key{"fs.nfs.use_pci_p2pdma", Kind::flag, "false", Effect::accepted, "NFS: use the kernel's PCI P2PDMA.",
        trial_decides},
    Key{"fs.weka.rdma_dev_addr_list", Kind::addresses, "[]", Effect::obeyed,
        "WekaFS: addresses of the adapters for all its mounts; not together with mount_table.", of_operations},
    Key{"fs.weka.mount_table", Kind::mounts, "{}", Effect::obeyed, "WekaFS: addresses of the adapters, mount by mount.",
        of_operations},
    Key{"fs.weka.rdma_write_support", Kind::flag, "false", Effect::accepted, "WekaFS: write by RDMA.", no_rdma},
    Key{"fs.gpfs.rdma_dev_addr_list", Kind::addresses, "[]", Effect::obeyed,
        "IBM Spectrum Scale: addresses of the adapters for all its mounts; not together with mount_table.",
        of_operations},
    Key{"fs.gpfs.mount_table", Kind::mounts, "{}", Effect::obeyed,
        "IBM Spectrum Scale: addresses of the adapters, mount by mount.", of_operations},
    Key{"fs.gpfs.gds_write_support", Kind::flag, "false", Effect::accepted, "IBM Spectrum Scale: write by RDMA.",
        no_rdma}
        .also("true"),
    Key{"fs.gpfs.gds_async_support", Kind::flag, "true", Effect::accepted,
        "IBM Spectrum Scale: streams and batches by RDMA.", no_rdma},
    Key{"fs.gpfs.use_pci_p2pdma", Kind::flag, "false", Effect::accepted,
        "IBM Spectrum Scale: use the kernel's PCI P2PDMA.", trial_decides},
    Key{"fs.virtiofs.use_pci_p2pdma", Kind::flag, "false", Effect::accepted, "virtiofs: use the kernel's PCI P2PDMA.",
        trial_decides},
    Key{"block.nvme.use_pci_p2pdma", Kind::flag, "false", Effect::accepted,
        "Local NVMe drives: use the kernel's PCI P2PDMA.", trial_decides},
    Key{"block.nvmeof.use_pci_p2pdma", Kind::flag, "false", Effect::accepted,
        "NVMe over a network: use the kernel's PCI P2PDMA.", trial_decides},
    Key{"block.raid.use_pci_p2pdma", Kind::flag, "false", Effect::accepted, "md RAID 0: use the kernel's PCI P2PDMA.",
        trial_decides},
    Key{"block.raid1.use_pci_p2pdma", Kind::flag, "false", Effect::accepted, "md RAID 1: use the kernel's PCI P2PDMA.",
        trial_decides},
    Key{"block.raid10.use_pci_p2pdma", Kind::flag, "false", Effect::accepted,
        "md RAID 10: use the kernel's PCI P2PDMA.", trial_decides},
    Key{"sparse.min_p2pdma_threshold_kb", Kind::number, "8", Effect::accepted,
        "Sparse files: smaller transfers are left to the CPU.", trial_decides},
    Key{"sparse.p2p_compat_enable", Kind::flag, "true", Effect::accepted, "Sparse files: leave holes to the CPU.",
        trial_decides},
    Key{"denylist.drivers", Kind::texts, "[]", Effect::obeyed, "Drivers of block devices whose files are refused.",
        "A file there cannot be registered."},
    Key{"denylist.devices", Kind::texts, "[]", Effect::obeyed,
        "Block devices, as nvme0n1 or /dev/nvme0n1, whose files are refused.", "A file there cannot be registered."},
    Key{"denylist.mounts", Kind::texts, "[]", Effect::obeyed, "Mount points whose files are refused.",
        "A file there cannot be registered."},
    Key{"denylist.filesystems", Kind::texts, "[]", Effect::obeyed,
        "File systems, by their names in /proc/mounts, whose files are refused.", "A file there cannot be registered."},
    Key{"miscellaneous.api_check_aggressive", Kind::flag, "false", Effect::reported, "Strict checks of arguments.",
        "Shown by the parameters; arguments are always checked."},
    Key{"miscellaneous.skip_topology_detection", Kind::flag, "false", Effect::reported,
        "Do not look at the PCI tree at the start.", "Shown by the parameters; the start never looks."}
        .by("CUFILE_SKIP_TOPOLOGY_DETECTION"),
    Key{"miscellaneous.stream_memops_bypass", Kind::flag, "false", Effect::obeyed,
        "Do without stream memory operations.", "Stream transfers ring and wait by host functions."}
        .by("CUFILE_STREAM_MEMOPS_BYPASS"),
    Key{"miscellaneous.enable_static_routing", Kind::flag, "false", Effect::reported,
        "Take distances between GPUs and adapters from a file.", routes_only},
    Key{"miscellaneous.static_routing_filepath", Kind::text, "\"/etc/topology.json\"", Effect::reported, "That file.",
        routes_only},
    Key{"miscellaneous.rdma_token_reset_timeout_secs", Kind::number, "30", Effect::accepted,
        "How long a reset of RDMA tokens may take.", no_rdma},
};

}  // namespace sluice::config
