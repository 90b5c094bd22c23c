# SPDX-License-Identifier: Apache-2.0
"""A guest: which drives it has, how they hang together, and one boot of it."""

from __future__ import annotations

import dataclasses
import pathlib
import re
import shutil
import subprocess
import time

QEMU = "qemu-system-x86_64"
MARK = "MARK"

# More than a loaded machine needs for the way from power-on to the first process; 5 seconds are usual.
UP_SECONDS = 120

# What the checker needs of QEMU: which command a drive got, and where its data lies.
TRACED = ("pci_nvme_admin_cmd", "pci_nvme_read", "pci_nvme_write", "pci_nvme_io_cmd", "pci_nvme_map_addr")


@dataclasses.dataclass(frozen=True)
class Drive:
    """A drive and its one namespace. The number tells drives apart in QEMU's trace, which does not name them."""
    serial: str
    nsid: int
    mebibytes: int = 512
    memory_mebibytes: int = 0  # its controller memory buffer, if it has one
    options: str = ""
    paths: int = 1  # controllers that lead to the namespace
    node: str = ""  # QEMU's block node with its bytes, where another drive has them, too; else an image of its own


@dataclasses.dataclass(frozen=True)
class Topology:
    switch: bool = True  # all drives below one PCIe switch; else each below a root port of its own
    cpu: str = "max"
    iommu: str = "off"  # "pass-through" or "translating"


@dataclasses.dataclass
class Boot:
    came_up: bool
    status: int | None  # of the guest's job; None when it never ended
    seconds: float
    attempts: int


def escaped(path):
    """QEMU's options are separated by commas."""
    return str(path).replace(",", ",,")


def drive_arguments(drive, image, ports):
    """QEMU's arguments for one drive; takes the port that it hangs on from `ports`."""
    port = next(ports)
    name = drive.serial.lower()
    more = f",{drive.options}" if drive.options else ""
    if drive.memory_mebibytes:
        more += f",cmb_size_mb={drive.memory_mebibytes}"
    if drive.node:
        return ["-device", f"nvme,id={name},serial={drive.serial},bus={port}{more}",
                "-device", f"nvme-ns,drive={drive.node},nsid={drive.nsid},bus={name},share-rw=on"]
    arguments = ["-drive", f"if=none,id=image-{name},file={escaped(image)},format=raw,cache=unsafe"]
    if drive.paths == 1:
        arguments += ["-device", f"nvme,id={name},serial={drive.serial},bus={port}{more}"]
        bus = name
        shared = ""
    else:
        arguments += ["-device", f"nvme-subsys,id=subsystem-{name},nqn=lab-{name}"]
        for path in range(drive.paths):
            arguments += ["-device", f"nvme,id={name}-{path},serial={drive.serial},bus={port},addr=0.{path},"
                                     f"multifunction=on,subsys=subsystem-{name}{more}"]
        bus = f"{name}-0"
        shared = ",shared=on"
    return arguments + ["-device", f"nvme-ns,drive=image-{name},nsid={drive.nsid},bus={bus}{shared}"]


def pci_arguments(topology, drives, images):
    arguments = []
    if topology.iommu != "off":
        arguments += ["-device", "intel-iommu,intremap=on,caching-mode=on"]
    count = len(drives)
    if topology.switch:
        arguments += ["-device", "pcie-root-port,id=root,chassis=1,slot=1,bus=pcie.0",
                      "-device", "x3130-upstream,id=up,bus=root"]
        for port in range(count):
            arguments += ["-device", f"xio3130-downstream,id=port{port},bus=up,chassis={10 + port},slot={10 + port}"]
    else:
        for port in range(count):
            arguments += ["-device", f"pcie-root-port,id=port{port},chassis={1 + port},slot={1 + port},bus=pcie.0"]
    ports = iter([f"port{port}" for port in range(count)])
    for drive in drives:
        arguments += drive_arguments(drive, images.get(drive.serial), ports)
    return arguments


def kernel_arguments(topology):
    # The host may leave a guest without a processor for seconds: what would measure its time is told to leave it.
    patience = ["no_timer_check", "nosoftlockup", "rcupdate.rcu_cpu_stall_suppress=1"]
    words = ["console=ttyS0", "quiet", "panic=-1", "nokaslr", "mitigations=off", "nvme.poll_queues=1", *patience]
    if topology.iommu != "off":
        words.append("intel_iommu=on")
    if topology.iommu == "pass-through":
        words.append("iommu=pt")
    return " ".join(words)


def command_line(case, kernel, folder, images):
    machine = "q35" if case.topology.iommu == "off" else "q35,kernel-irqchip=split"

    def share(tag, path, more=""):
        return ["-fsdev", f"local,id=share-{tag},path={escaped(path)},security_model=none{more}",
                "-device", f"virtio-9p-pci,fsdev=share-{tag},mount_tag={tag},bus=pcie.0"]

    traces = [word for event in TRACED for word in ("-trace", f"enable={event}")]
    return [
        # Several threads of emulation have been seen to fail while the kernel patches its own code.
        QEMU, "-accel", "tcg,thread=single", "-machine", machine, "-cpu", case.topology.cpu,
        "-smp", "2", "-m", str(case.memory_mebibytes), "-nodefaults", "-no-reboot", "-display", "none",
        "-monitor", "none", "-serial", f"file:{folder / 'serial'}", "-D", str(folder / "trace"), *traces,
        "-kernel", str(kernel / "vmlinuz"), "-initrd", str(kernel / "initramfs"),
        "-append", kernel_arguments(case.topology),
        *share("host", "/", ",readonly=on,multidevs=remap"),
        *share("kernel", kernel, ",readonly=on"),
        *share("out", folder / "out"),
        *pci_arguments(case.topology, case.drives, images),
    ]


def make_images(case, folder):
    """An empty image for each drive that has one of its own, by its serial number."""
    images = {drive.serial: folder / f"{drive.serial}.img" for drive in case.drives if not drive.node}
    for drive in case.drives:
        if drive.serial in images:
            with open(images[drive.serial], "wb") as image:
                image.truncate(drive.mebibytes << 20)
    return images


def run_once(case, kernel, folder):
    shutil.rmtree(folder / "out", ignore_errors=True)
    (folder / "out").mkdir(parents=True)
    (folder / "out/job").write_text(case.job, encoding="utf-8")
    images = make_images(case, folder)
    with open(folder / "qemu.log", "wb") as log:
        with subprocess.Popen(command_line(case, kernel, folder, images), stdin=subprocess.DEVNULL, stdout=log,
                              stderr=log) as process:
            try:
                wait_for_end(process, case, folder / "serial")
            finally:
                process.kill()
    for image in images.values():
        image.unlink()
    return console_of(folder / "serial")


def console_of(serial):
    try:
        return serial.read_text(errors="replace").replace("\r", "")
    except FileNotFoundError:
        return ""  # QEMU did not start: qemu.log tells why


def came_up(console):
    return re.search(r"^LAB-UP$", console, re.MULTILINE) is not None


def wait_for_end(process, case, serial):
    """Until QEMU ends, or its time is up: a guest that does not come up has less of it."""
    begin = time.monotonic()
    up = False
    while process.poll() is None and time.monotonic() - begin < (case.limit_seconds if up else UP_SECONDS):
        up = up or came_up(console_of(serial))
        try:
            process.wait(0.5)
        except subprocess.TimeoutExpired:
            pass


def boot(case, kernel, folder):
    """Boots the guest and lets it do its job. Once more only when it never reported itself up."""
    begin = time.monotonic()
    shutil.rmtree(folder, ignore_errors=True)
    for attempt in (1, 2):
        console = run_once(case, kernel, folder)
        (folder / f"console-{attempt}").write_text(console, encoding="utf-8")
        if came_up(console):
            break
    status = re.search(r"^LAB-STATUS (\d+)$", console, re.MULTILINE)
    return Boot(came_up(console), int(status.group(1)) if status else None, time.monotonic() - begin, attempt)


