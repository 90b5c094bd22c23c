// SPDX-License-Identifier: Apache-2.0
// The texts. docs/reference/paths.md holds the same ones, and a test compares them: change both.
#include "route/reasons.h"

#include <array>
#include <cstddef>

namespace sluice::route {

namespace {

constexpr std::array<const char*, SLUICE_PATH_COUNT> path_names = {"posix", "p2pdma", "nvfs", "userspace", "rdma"};

// By value: reason n is entry n.
constexpr std::array<ReasonText, SLUICE_REASON_COUNT> texts = {{
    {"host_memory", "The buffer is host memory, so there is no device memory to reach past the CPU.",
     "None is needed; direct paths are for device memory."},
    {"plain_mode", "SLUICE_MODE=plain asks for the simplest way.", "Unset SLUICE_MODE."},
    {"forced_by_configuration", "The property force_compat_mode is on, which asks for the CPU's way.",
     "Switch force_compat_mode off (CUFILE_FORCE_COMPAT_MODE=false), and vanilla_posix_io_mode."},
    {"managed_memory", "The buffer is managed memory, which moves between host and device and has no lasting address.",
     "Allocate the buffer with cuMemAlloc or cudaMalloc."},
    {"soft_gpu", "The device is the soft GPU, whose memory is host memory in disguise.",
     "Run on a machine with a GPU and its driver, or give the soft GPU other memory (SLUICE_SOFTGPU_BACKING)."},
    {"memory_file_system",
     "The file lives in memory (tmpfs, ramfs, hugetlbfs, memfd) and has no storage device below it.",
     "Put the file on ext4 or xfs on a local NVMe drive."},
    {"stacked_file_system", "The file is on a stacked file system, which hands out another one's files.",
     "Use a path outside the stack; in a container, mount a folder of an ext4 or xfs file system into it."},
    {"fuse_file_system", "A process serves this file system, so every byte passes through the CPU.",
     "Put the file on ext4 or xfs on a local NVMe drive."},
    {"network_file_system", "The bytes arrive by a network file system that has no direct path here.",
     "Copy the file to ext4 or xfs on a local NVMe drive."},
    {"unsupported_file_system",
     "The CPU copies or transforms this file's bytes: on btrfs and its like, on ext4 with data=journal, on DAX.",
     "Put the file on xfs, or on ext4 with data=ordered, on a local NVMe drive."},
    {"unsupported_device", "No drive lies below, but memory, a process or a network that the CPU serves.",
     "Put the file on ext4 or xfs on a local NVMe drive."},
    {"direct_path_off", "The property use_pci_p2pdma is off, and so is sluice.nvfs.",
     "Switch use_pci_p2pdma on (CUFILE_USE_PCIP2PDMA=true), or sluice.nvfs where nvidia-fs.ko is loaded."},
    {"kernel_without_p2pdma", "The running kernel has no PCI P2PDMA, as far as it tells.",
     "Boot a kernel that was built with CONFIG_PCI_P2PDMA=y."},
    {"no_direct_provider",
     "File, drive and kernel would do, but nothing here hands this device's memory to the kernel.",
     "Use NVIDIA's open kernel modules with static BAR1 (docs/reference/paths.md); the explanation tells which step "
     "failed."},
    {"caller_operations", "The handle was registered with read and write operations of its own.",
     "None is needed; register the handle as a plain descriptor to leave the transfers to the library."},
    {"buffered_descriptor", "The file was opened without O_DIRECT, so its bytes pass through the page cache.",
     "Open the file with O_DIRECT."},
    {"pages_refused", "The block device takes no pages of device memory (EREMOTEIO).",
     "Use a file system that lies directly on a PCIe NVMe drive."},
    {"unreachable_device", "The kernel knows no peer-to-peer way between the drive and the device (EINVAL).",
     "Put both behind one PCIe switch, or use a host bridge that the kernel trusts."},
    {"pinning_refused", "The kernel cannot pin this device's memory (EFAULT).",
     "Use a driver that maps device memory with pages of the kernel (docs/reference/paths.md)."},
    {"data_lost", "A trial read was reported as done, and its bytes did not arrive.",
     "Set the IOMMU to pass-through (iommu=pt) or switch it off, then open the driver again."},
    {"not_proven", "No trial read of this file system into this device has been made so far.",
     "Read with a descriptor that may read, from a file that holds data; the explanation tells what was missing."},
    {"ragged_request", "Too little of the request is whole blocks of the file in step with the memory.",
     "Align file offset, memory and size to the file's blocks (4096 bytes will do)."},
    {"direct", "The drive moves the bytes itself: a verified read has shown that it reaches this device.",
     "None is needed; this is the direct path."},
    {"stopped_in_flight", "The drive's own transfer stopped in mid-way, and the CPU carried the rest.",
     "Look at the transfer's own answer; once is no fault of the direct path."},
    {"nvfs_not_loaded", "The key sluice.nvfs is on, and nvidia-fs.ko is not loaded.",
     "Load it (modprobe nvidia-fs); `sluice doctor nvidia-fs` tells what keeps it from loading."},
    {"nvfs_too_old", "The version of nvidia-fs.ko that is loaded is older than 2.12.", "Install a current nvidia-fs."},
    {"nvfs_no_node", "No node of nvidia-fs.ko can be opened here.",
     "Give the process /dev/nvidia-fs0 (in a container: NVIDIA_GDS=enabled)."},
    {"nvfs_no_hooks", "The driver below this file has no hooks for nvidia-fs.ko, as far as the module lists them.",
     "Use a driver with hooks (DOCA-OFED, linux-nvidia) that is loaded before nvidia-fs, or use_pci_p2pdma."},
    {"nvfs_foreign_hooks",
     "The module that drives this drive has no hooks for nvidia-fs.ko; another one of its kind has.",
     "Load the driver with hooks for this drive, and then nvidia-fs."},
    {"nvfs_unregistered", "The memory is in no registered buffer, and nvidia-fs.ko maps whole blocks of those only.",
     "Register the buffer (cuFileBufRegister)."},
    {"nvfs_call_refused", "The trial read, or a transfer of whole blocks, was refused by nvidia-fs.ko.",
     "Read the kernel's log; the explanation tells the error."},
    {"nvfs_bytes_elsewhere", "A read was reported as done by nvidia-fs.ko, and its bytes were not in device memory.",
     "The driver has no hooks that work: use one that has (DOCA-OFED, linux-nvidia), or use_pci_p2pdma."},
    {"nvfs_write_lost", "A write was reported as done by nvidia-fs.ko, and the file did not hold its bytes.",
     "The driver has no hooks that work: use one that has (DOCA-OFED, linux-nvidia), or use_pci_p2pdma."},
    {"nvfs_writes_not_proven",
     "No trial write could be made, since there was no place for a file of the library's own.",
     "Let the process make a file without a name in the file's folder (O_TMPFILE); raw drives are only read this way."},
    {"served_by_rdma", "The file system has its server move the bytes by RDMA, straight to or from this memory.",
     "None is needed; this is the direct path of a file system in user space."},
    {"rdma_no_library", "RDMA is wanted for this file, and this process has not loaded Sluice's libcufile_rdma.so.1.",
     "The file system's client connects its links by that library (docs/reference/rdma.md); set an address list for "
     "such "
     "file systems only."},
    {"rdma_not_connected", "No link to a server is connected on a port that file system and configuration allow.",
     "Look at the file system's own log, at `rdma link show`, and at the addresses in properties.rdma_dev_addr_list."},
    {"rdma_unregistered", "The memory is in no registered buffer, and adapters know the memory of those only.",
     "Register the buffer (cuFileBufRegister)."},
    {"rdma_not_tried", "No adapter has been asked to register this memory so far.",
     "Register the buffer after the file system has connected, or make a call once before transfers in streams."},
    {"rdma_no_key", "No adapter registers this memory.",
     "The explanation tells each answer; `sluice doctor rdma` tells what GPU memory needs, and `ulimit -l` bounds host "
     "memory."},
    {"rdma_revoked", "An operation of the file system's did not answer in time, so the key that it had was revoked.",
     "Register the buffer anew, and look at the file system's server; sluice.operation_timeout_ms is the time."},
    {"rdma_refused", "The file system answered that it does not do this by RDMA, or did not say by which port.",
     "Look at the file system's own log; it is asked again after a while."},
    {"rdma_writes_off", "The property gds_rdma_write_support is off, which keeps writes from RDMA.",
     "Switch gds_rdma_write_support on."},
}};

}  // namespace

const char* path_name(Path path) noexcept {
  const auto index = static_cast<std::size_t>(path);
  return index < path_names.size() ? path_names[index] : nullptr;
}

const ReasonText* reason_text(Reason reason) noexcept {
  const auto index = static_cast<std::size_t>(reason);
  return index < texts.size() ? &texts[index] : nullptr;
}

}  // namespace sluice::route
