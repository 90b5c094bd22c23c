// SPDX-License-Identifier: Apache-2.0
// Findings about virtual machines, containers, io_uring, the configuration and the topology.
#pragma once

#include <array>

#include "doctor/finding.h"

namespace sluice::doctor {

inline constexpr std::array host_findings{
    // vm
    Finding{
        "vm.guest", Section::vm, Harm::advice, "this is a guest of {hypervisor}",
        "whether a drive reaches a GPU depends on the host's switches, ACS and IOMMU, which cannot be seen from here",
        "Only a trial tells: `sluice doctor FILE`."},
    Finding{
        "vm.iommu_off", Section::vm, Harm::broken, "vfio-pci is to hold a device, and no IOMMU is on",
        "devices can be passed through only behind one",
        "Switch on VT-d or AMD-Vi in the firmware, add intel_iommu=on (Intel) to the kernel's command line, restart."},
    Finding{"vm.shared_group", Section::vm, Harm::degraded, "IOMMU group {group} holds {gpu} together with {others}",
            "a group goes to one guest as a whole: no port between them has ACS",
            "Move the card to another slot, or bind all of the group to vfio-pci."},
    Finding{"vm.acs_override", Section::vm, Harm::degraded, "the kernel runs with pcie_acs_override",
            "it claims isolation that the hardware does not have: a device may reach another guest's memory",
            "Take it out of the command line, and use slots of groups of their own."},
    Finding{"vm.hidden_hypervisor", Section::vm, Harm::broken, "a GeForce card with driver {driver} runs in a guest",
            "drivers of these cards before 465 refuse to start where they see a hypervisor",
            "Install a driver of 465 or later; hiding the hypervisor is needed for older ones only."},
    Finding{"vm.host_translates", Section::vm, Harm::advice,
            "devices are held for guests, and host devices have the domain type {type}",
            "the host's own drives go through translation", "Add iommu=pt to the kernel's command line."},

    // container
    Finding{
        "container.no_gpu", Section::container, Harm::broken,
        "the host has an NVIDIA driver, and this container has no device nodes", "it was started without a GPU",
        "Start it with one: `docker run --gpus all ...`, `podman run --device nvidia.com/gpu=all ...`, or a pod with "
        "nvidia.com/gpu: 1."},
    Finding{"container.no_compute", Section::container, Harm::broken, "the container has a GPU and no libcuda.so.1",
            "NVIDIA_DRIVER_CAPABILITIES is {value}, without compute",
            "Set NVIDIA_DRIVER_CAPABILITIES=compute,utility."},
    Finding{"container.no_sysfs", Section::container, Harm::degraded, "/sys is not mounted here",
            "drives, IOMMU and PCI bridges cannot be seen, so no direct path can be judged",
            "Mount it read-only: -v /sys:/sys:ro."},
    Finding{"container.no_udev", Section::container, Harm::fine, "/run/udev is not there",
            "NVIDIA's libcufile wants it, Sluice asks sysfs", "Nothing to do."},
    Finding{"container.gds_ignored", Section::container, Harm::advice,
            "NVIDIA_GDS=enabled is set, and /dev/nvidia-fs0 is missing",
            "the toolkit injects nodes only where the host has them: it gave nothing",
            "Leave it out; Sluice needs neither node nor udev."},
    Finding{"container.stale_cdi", Section::container, Harm::degraded,
            "{file} gives containers the libraries of driver {version}, and {driver} is loaded",
            "the driver was renewed and CDI's file was not: containers with GPUs do not start",
            "Make it anew: `nvidia-ctk cdi generate --output={file}`."},
    Finding{"container.huge_pages", Section::container, Harm::fine, "{count} huge pages are set aside",
            "neither cuFile nor Sluice uses them, and other programs lack that memory",
            "Nothing to do; a pod for Sluice needs no hugepages resource."},
    Finding{"container.memlock", Section::container, Harm::advice, "this process may lock {size}",
            "RDMA registers locked memory; cuFile with Sluice does not need it",
            "For RDMA start the container with `--ulimit memlock=-1`."},

    // uring
    Finding{"uring.works", Section::uring, Harm::fine, "io_uring works ({modes})", "deep reading of drives uses it",
            "Nothing to do."},
    Finding{"uring.missing", Section::uring, Harm::degraded, "the kernel answers ENOSYS to io_uring_setup",
            "kernel {kernel} was built without it, or is older than 5.1: threads read in its place",
            "Run a kernel that has it."},
    Finding{"uring.switched_off", Section::uring, Harm::degraded, "kernel.io_uring_disabled is {value}",
            "the administrator has switched io_uring off for this user: threads read in its place",
            "Allow it: `sysctl kernel.io_uring_disabled=0`."},
    Finding{"uring.seccomp", Section::uring, Harm::degraded,
            "io_uring_setup is refused with EPERM under a seccomp filter",
            "the filter of containerd 2, Docker 25 and later forbids it: threads read in its place",
            "Give the container a profile that allows io_uring_setup, io_uring_enter and io_uring_register."},
    Finding{"uring.memlock", Section::uring, Harm::degraded, "io_uring_setup answers ENOMEM",
            "before Linux 5.12 rings count as locked memory, and {size} may be locked",
            "Raise the limit: `ulimit -l unlimited`."},
    Finding{"uring.refused", Section::uring, Harm::degraded, "io_uring_setup answers {error}",
            "a security module or a limit refuses it: threads read in its place",
            "Look at the audit log: `dmesg | tail`."},

    // config
    Finding{"config.unusable", Section::config, Harm::broken, "{note}", "none of the file counts, all defaults hold",
            "Mend it, and look: `gdscheck -p`."},
    Finding{"config.missing", Section::config, Harm::broken, "CUFILE_ENV_PATH_JSON names {file}, which cannot be read",
            "all defaults hold", "Name a file that is there, or unset the variable."},
    Finding{"config.unknown_key", Section::config, Harm::advice, "{note}", "it changes nothing",
            "Take it out, or spell it right."},
    Finding{"config.bad_value", Section::config, Harm::degraded, "{note}", "the default of this key holds",
            "Give a value in its range."},
    Finding{"config.bad_variable", Section::config, Harm::degraded, "{note}",
            "what the file says of it holds, or the default", "Give the variable a value in its range, or unset it."},
    Finding{"config.no_log", Section::config, Harm::degraded, "the log cannot be written: {why}",
            "what the library has to say of faults is lost",
            "Make the folder for the user of the program, or name another one: logging.dir, CUFILE_LOGFILE_PATH."},
    Finding{"config.no_profile", Section::config, Harm::degraded, "nothing of the profile is taken: {why}",
            "nothing is chosen by what was measured",
            "Make one on this machine, by sluice profile -o FILE DIR, or unset what names it: sluice.profile, "
            "SLUICE_PROFILE."},
    Finding{"config.trace_to_nowhere", Section::config, Harm::degraded,
            "profile.trace is {word}, which is neither on nor a socket that is there",
            "it counts as on: what transfers are at is recorded, and costs time",
            "Write on, or leave it out: profile.trace, SLUICE_TRACE."},
    Finding{"config.no_effect", Section::config, Harm::fine, "{file} gives values that change nothing here",
            "they are read and checked: {keys}", "Nothing to do."},
    Finding{"config.p2pdma_in_vain", Section::config, Harm::degraded,
            "use_pci_p2pdma is set, and this machine cannot do it", "the section p2pdma tells what is missing",
            "Mend that first: `sluice doctor p2pdma`."},
    Finding{"config.compat_off", Section::config, Harm::degraded,
            "allow_compat_mode is false, and no direct path is ready",
            "the driver does not open, or programs fail where bytes would go through host memory",
            "Set properties.allow_compat_mode to true."},
    Finding{"config.forced", Section::config, Harm::degraded,
            "force_compat_mode is set, and the direct path would be ready", "all bytes go through host memory",
            "Set properties.force_compat_mode to false."},
    Finding{"config.file", Section::config, Harm::fine, "{file} is read",
            "values in it that differ from the stock ones: {count}", "Nothing to do."},

    // topology
    Finding{"topology.cross_socket", Section::topology, Harm::advice,
            "{device} is on NUMA node {device_node}, {gpu} on {gpu_node}",
            "bytes between them cross the link between the processors", "Use {device} with {better}."},
    Finding{"topology.trained_down", Section::topology, Harm::degraded,
            "{device} runs its link at {now}, and both ends can do {most}",
            "the link came up with less: a bad contact, a riser, or a setting of the firmware",
            "Seat card and cable anew and look again: `sluice topology`."},
    Finding{"topology.unknown_nodes", Section::topology, Harm::advice,
            "{count} NUMA nodes, and the firmware says of no GPU where it is",
            "programs cannot keep threads near their GPU",
            "Look for a firmware setting (ACPI SRAT, NPS), or pin by hand."},
    Finding{"topology.same_switch", Section::topology, Harm::fine, "{device} and {gpu} are below one switch",
            "the shortest way", "Nothing to do."},
};

}  // namespace sluice::doctor
