# SPDX-License-Identifier: Apache-2.0
"""The cases: one boot each. A new one is an entry in CASES and a script in guest/.

All of them take as long as a build does. Each case names the folders whose code it is there for, so that a change boots
those that it can touch. The check has time for a few of these: the core, and what nothing outside the lab shows of a change of
the library (`in_check`). A case whose own script has changed is booted, too. All run in `./run check --full`.
"""

import dataclasses
import os
import pathlib
import shlex

import power
from machine import MARK, Drive, Topology

GPU_MEBIBYTES = 64

MARK_DRIVE = Drive(MARK, nsid=99, mebibytes=64)
GPU0 = Drive("GPU0", nsid=1, memory_mebibytes=GPU_MEBIBYTES)
GPU1 = Drive("GPU1", nsid=2, memory_mebibytes=GPU_MEBIBYTES)
# PLN0 has queues of each kind that the driver asks for, PLN1 one queue: none is left over for polling.
PLN0 = Drive("PLN0", nsid=11)
PLN1 = Drive("PLN1", nsid=12, options="max_ioqpairs=1")
PLN2 = Drive("PLN2", nsid=13)
SMALL = Drive("SMALL", nsid=14, mebibytes=36, options="max_ioqpairs=1")  # as much as the matrix of transfers expects
TWO_PATHS = Drive("SHARED", nsid=21, paths=2)
CUT = Drive("CUT", nsid=31, node=power.LOGGED)  # the drive of a power cut, as an NVMe drive


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    what: str
    script: str
    drives: tuple = (GPU0, PLN0)
    topology: Topology = Topology()
    memory_mebibytes: int = 1024
    limit_seconds: int = 1800
    settings: dict = dataclasses.field(default_factory=dict)  # what the script is told
    job: str = ""
    core: bool = False  # booted whatever has changed
    in_check: bool = False  # the check boots it, too, where a change touches it
    wants: dict = dataclasses.field(default_factory=dict)  # variables of the environment, and what they name
    reaches: bool = False  # some drive reaches the memory of another one in it
    file_system: str = ""  # its machine is killed while it writes to a drive with one (power.py)
    touched_by: tuple = ()  # folders of src/ that it is there for; its script and the lab's own parts touch it, too

    def is_touched(self, paths):
        """Whether a change of these files (relative to the project) can change what this case shows."""
        return self.core or any(self.is_touched_by(pathlib.PurePosixPath(path)) for path in paths)

    def is_for_check(self, paths):
        """Whether the check boots it for these; paths is None where nothing is known of the change."""
        if paths is None:
            return self.core or self.in_check
        own = any(self.is_its_own(pathlib.PurePosixPath(path)) for path in paths)
        return self.is_touched(paths) and (self.core or self.in_check or own)

    def is_its_own(self, path):
        """What is there for this case above all, be it as the subject or as the script."""
        if path.parts[:2] == ("deploy", "csi"):
            return self.script == "csi.sh"
        return path.parts[:3] == ("tests", "lab", "guest") and path.name == self.script

    def is_touched_by(self, path):
        if path.parts[:2] == ("deploy", "csi"):
            return self.is_its_own(path)
        if path.parts[0] == "src" and len(path.parts) > 2:
            return path.parts[1] in self.touched_by
        if path.parts[:2] == ("tests", "model"):
            return self.script == "model.sh"
        if path.parts[:2] == ("tests", "lab") and path.parts[2].startswith("power") or path.name.startswith("power_"):
            return self.file_system != ""
        if path.parts[:3] == ("tests", "lab", "guest"):
            scripts = {case.script for case in CASES}
            return path.name == self.script or path.name not in scripts
        return path.parts[:2] == ("tests", "lab") and path.name not in ("CMakeLists.txt", "parts_test.py")

    def missing(self):
        """Why it cannot be booted here; "" where it can. What it wants is told to its script by the same names."""
        without = [f"{name} ({what})" for name, what in self.wants.items() if not os.environ.get(name)]
        return f"not given: {', '.join(without)}" if without else ""

    def all_drives(self):
        return (*self.drives, MARK_DRIVE) if self.drives else ()

    def prepared(self, lab, build):
        """The case as the machine boots it: with the drive for marks, and what the guest's shell is to run."""
        drives = self.all_drives()
        settings = {
            "LAB": str(lab), "LAB_BUILD": str(build), "LAB_GPU_MIB": str(GPU_MEBIBYTES),
            "LAB_DRIVES": " ".join(drive.serial for drive in drives),
            "LAB_GPUS": " ".join(drive.serial for drive in drives if drive.memory_mebibytes),
            **{name: str(pathlib.Path(os.environ.get(name, "")).resolve()) for name in self.wants},
            **self.settings,
        }
        lines = [f"export {name}={shlex.quote(value)}" for name, value in settings.items()]
        job = "\n".join([*lines, f'exec bash "$LAB/guest/{self.script}"', ""])
        return dataclasses.replace(self, drives=drives, job=job)


# The folders that decide for a path and prove it, and those that move bytes between files and memory.
DECIDING = ("facts", "paths", "route", "topology")
MOVING = ("io", "paths", "staging", "stream", "transfer", "workers")
EVERYTHING = (*DECIDING, *MOVING, "api", "base", "batch", "config", "gpu", "observe", "plan", "process", "rdma", "request")


def topology_case(name, what, expectation, topology, drives=(GPU0, PLN0), core=False, **settings):
    return Case(f"topology: {name}", what, "topology.sh", drives=drives, topology=topology, core=core, touched_by=DECIDING,
                reaches=expectation == "direct", settings={"LAB_EXPECTATION": expectation, "LAB_TOPOLOGY": name, **settings})


def power_case(file_system, name, what, drives=()):
    return Case(f"power cut, {name}", what, "power_write.sh", drives=drives, file_system=file_system, reaches=drives != (),
                settings={"LAB_FILE_SYSTEM": file_system, "LAB_WRITERS": " ".join(power.writers(drives != ()))},
                touched_by=("batch", "io", "paths", "request", "stream", "transfer"))


def power_cases(file_system):
    return [power_case(file_system, file_system, "nothing acknowledged as durable is lost, no part of a file has its name"),
            power_case(file_system, f"{file_system}, device to device", "the same of what the drive itself writes from device memory",
                       drives=(GPU0, CUT))]


CASES = [
    Case("facts", "what the kernel does with device memory, target by target", "facts.sh",
         drives=(GPU0, GPU1, PLN0, PLN1, TWO_PATHS), reaches=True),
    Case("library", "which way the library goes on each file system and device, and what the drives did", "library.sh",
         drives=(GPU0, PLN0, PLN1, TWO_PATHS), core=True, reaches=True, touched_by=EVERYTHING),
    Case("direct", "the library's direct path on arrays, mappings, two devices, and drives that are polled", "direct.sh",
         drives=(GPU0, GPU1, PLN0, PLN1, TWO_PATHS), in_check=True, reaches=True,
         touched_by=(*DECIDING, "batch", "gpu", "paths", "process", "request")),
    Case("disk", "reads through staging memory by threads, io_uring and IOPOLL", "disk.sh",
         drives=(GPU0, PLN0, SMALL), in_check=True, settings={"LAB_SAMPLE": "25"}, touched_by=MOVING),
    Case("fabrics", "NVMe/TCP and NVMe/RDMA; paths that go and come back under load", "fabrics.sh",
         drives=(GPU0, PLN0, PLN1), settings={"LAB_CLIENTS": "pread cufile"},
         touched_by=("facts", "observe", "paths", "process")),
    Case("kubernetes", "volumes of sluice-csi: quotas, the direct path, bandwidths, paths that go and come back under load", "csi.sh",
         drives=(GPU0, PLN0, PLN1), reaches=True, touched_by=("facts", "paths")),
    Case("rdma", "a server reaches registered memory by RDMA over soft RoCE: 1 GiB both ways by verbs and by the library, refused and "
         "revoked keys, torn links; NFS over RDMA", "rdma.sh", drives=(), memory_mebibytes=3072, settings={"LAB_MEBIBYTES": "1024"},
         touched_by=("paths", "rdma", "request")),
    Case("project", "the project's own tests on file systems on NVMe drives", "project.sh",
         drives=(GPU0, PLN0, PLN1, PLN2), memory_mebibytes=2048, touched_by=(*MOVING, "facts", "request"),
         # Of the parts those that speak to the kernel about files, of the contract what moves their bytes, of the matrix
         # what does not lie in memory.
         settings={"LAB_SUITES": "unit contract matrix",
                   "LAB_UNIT": "*DirectIo*:Uring*:Spans*:PrivateFiles*:OfFile*:OfMachine*:TemporaryFile*",
                   "LAB_CONTRACT": "-Large.*:Nixl.*:Lifetime*:Buffer*:FileHandle.*:Parameter*:Properties.*:Driver.*:"
                                   "Statistics.*:ThreadsAtOnce.*:SlabArrays.*:SmallReads.*:StreamModel.*:WindowReads.*",
                   "LAB_MATRIX": "-IoMatrix.memfd_*", "LAB_SAMPLE": "2"}),
    Case("nvidia-fs", "the path nvfs by the real module, on stand-ins for the GPU's driver and for a drive with hooks",
         "nvfs.sh", drives=(GPU0, PLN0), memory_mebibytes=2048, in_check=True, touched_by=("facts", "nvfs", "paths", "request", "route"),
         wants={"SLUICE_LAB_NVFS_KO": "nvidia-fs.ko, built for this kernel",
                "SLUICE_LAB_NVFS_PARTS": "what tests/lab/nvfs/build.sh has made for this kernel"}),
    Case("model", "the model of tests/model on device memory that drives reach: others' bytes stay, each way to wait forced",
         "model.sh", drives=(GPU0, PLN0, PLN2), reaches=True, settings={"LAB_SECONDS": "10"},
         touched_by=("batch", "io", "paths", "plan", "request", "stream", "transfer")),
    *power_cases("ext4"),
    *power_cases("xfs"),
    topology_case("root ports, CPU not listed", "the kernel refuses to cross an unknown host bridge", "EINVAL",
                  Topology(switch=False)),
    topology_case("root ports, CPU listed", "the kernel trusts the host bridge of this CPU", "direct",
                  Topology(switch=False, cpu="EPYC")),
    topology_case("switch, IOMMU in pass-through", "bus addresses stay as they are", "direct",
                  Topology(iommu="pass-through")),
    topology_case("switch, IOMMU translating", "success is reported and the data is lost, of one drive of an array, too",
                  "lost", Topology(iommu="translating"), drives=(GPU0, PLN0, PLN1), core=True, LAB_MIXED="yes"),
    topology_case("root ports, CPU listed, IOMMU translating", "data arrives; QEMU's trace tells untranslated addresses", "right",
                  Topology(switch=False, cpu="EPYC", iommu="translating")),
    topology_case("root ports, CPU not listed, IOMMU translating", "refused as without an IOMMU", "EINVAL",
                  Topology(switch=False, iommu="translating")),
]


def chosen_of(offered, paths, for_check):
    """Those to boot for a change of these files (None: not known), those that it does not touch, and those that take too long
    for the check."""
    untouched = [case for case in offered if paths is not None and not case.is_touched(paths)]
    too_long = [case for case in offered if for_check and case not in untouched and not case.is_for_check(paths)]
    return [case for case in offered if case not in untouched and case not in too_long], untouched, too_long


def status_of(booted, failed, segments):
    """The exit status of a run. Where drives are to reach the memory of others, a run without one such segment shows nothing."""
    return 1 if failed or (any(case.reaches for case in booted) and not segments) else 0
