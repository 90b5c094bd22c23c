# SPDX-License-Identifier: Apache-2.0
"""What the drives did, from QEMU's trace: each command's namespace and the memory that its data lay in.

The trace is written by one thread, command after command: the segments that follow a command are that command's. A
stretch is the commands between two marks, which are reads of the mark drive at places that follow from the number.
"""

import dataclasses
import re

BLOCK = 512
MARK_BLOCK = 4096
FIRST_MARK = 1024

# Zeros are written without data (ext4 does, in the background, after it was made).
COMMAND = re.compile(r"pci_nvme_(read|write) (?!.*WRITE_ZEROES).*?\bnsid (\d+) .*?\bcount (\d+) lba (0x[0-9a-f]+)")
# Any other command ends the one before it.
OTHER_COMMAND = re.compile(r"pci_nvme_(?:admin|io)_cmd ")
SEGMENT = re.compile(r"pci_nvme_map_addr addr (0x[0-9a-f]+) len (\d+)")


@dataclasses.dataclass
class Command:
    operation: str
    nsid: int
    length: int
    place: int  # in bytes, from the start of the namespace
    segments: list = dataclasses.field(default_factory=list)  # of (address, length)


@dataclasses.dataclass(frozen=True)
class Window:
    """A provider's memory as the PCI bus sees it; `nsid` is the namespace of the drive that it belongs to."""
    name: str
    first: int
    last: int
    nsid: int

    def holds(self, segment):
        return self.first <= segment[0] and segment[0] + segment[1] - 1 <= self.last


@dataclasses.dataclass(frozen=True)
class Promise:
    """In the stretch's commands of this operation `inside` bytes lay in the window, and none in another."""
    stretch: int
    row: str
    operation: str
    inside: int
    window: str


def read_commands(lines):
    commands, current = [], None
    for line in lines:
        if found := SEGMENT.search(line):
            if current is not None:
                current.segments.append((int(found.group(1), 16), int(found.group(2))))
        elif found := COMMAND.search(line):
            current = Command(found.group(1), int(found.group(2)), int(found.group(3)), int(found.group(4), 16) * BLOCK)
            commands.append(current)
        elif OTHER_COMMAND.search(line):
            current = None
    return commands


def stretches(commands, mark_nsid):
    """Number of the stretch -> the commands within, for the stretches that have both marks."""
    found, open_stretches = {}, {}
    for command in commands:
        if command.nsid != mark_nsid:
            for within in open_stretches.values():
                within.append(command)
            continue
        mark = command.place // MARK_BLOCK - FIRST_MARK
        if mark < 0 or command.place % MARK_BLOCK or command.length != MARK_BLOCK:
            continue
        number, is_end = divmod(mark, 2)
        if not is_end:
            open_stretches[number] = []
        elif number in open_stretches:
            found[number] = open_stretches.pop(number)
    return found


def judge(promise, stretch, windows):
    """Why the promise is broken; empty when it is kept."""
    if stretch is None:
        return "the trace does not hold both marks of this stretch"
    inside = {window.name: 0 for window in windows}
    for command in stretch:
        if command.operation != promise.operation:
            continue
        if command.length != sum(length for _, length in command.segments):
            return f"the trace has segments of other {command.operation}s, or lacks some"
        for window in windows:
            if command.nsid != window.nsid:
                inside[window.name] += sum(segment[1] for segment in command.segments if window.holds(segment))
    if promise.window not in inside:
        return f"the guest told no window of {promise.window}"
    for name, length in inside.items():
        wanted = promise.inside if name == promise.window else 0
        if length != wanted:
            return f"drives' {promise.operation}s moved {length} bytes in the memory of {name}, not {wanted}"
    return ""


def count_segments(commands, windows):
    """How many segments of drives lay in the memory of another one."""
    return sum(any(command.nsid != window.nsid and window.holds(segment) for window in windows)
               for command in commands for segment in command.segments)
