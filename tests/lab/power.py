# SPDX-License-Identifier: Apache-2.0
"""Power cuts: what of a drive with a volatile write cache is left when its machine is gone from one moment to the next.

Killing QEMU loses nothing that a guest has handed to its drive, whatever its cache mode: the bytes are with the host by
then. So QEMU's driver blklogwrites writes down what the drive was told, in the order in which it answered, flushes among
it. What a cut leaves is made from that log: all up to the last flush, and of what was written since any part, in blocks,
for a drive may write those in whatever order it likes. A log has a cut for each of its moments; the last one is that at
which QEMU was killed.

The drive is virtio's: QEMU's NVMe drive takes a write with forced unit access for any other, so it could not tell which
blocks are durable without a flush. virtio's has no such writes, and the kernel flushes instead. For the direct path the
same drive is an NVMe drive as well, with the file system on that side. Its journal, the one to force writes, lies on a
partition that is written on virtio's; what is left on the other side is durable by flushes alone.

Acknowledgements are sectors that a writer puts on a second partition of the drive: their place in the log tells what was
acknowledged before a cut. They are the world outside, so the cache does not lose them.
"""

import dataclasses
import mmap
import pathlib
import random
import re
import shutil
import struct
import subprocess
import time

import dma
import machine
import rows

MEBI = 1 << 20
SECTOR = 512
BLOCK = 4096  # in such pieces a cut keeps or loses what was not flushed
FLUSH, DISCARD = 1, 4
ACKNOWLEDGED = b"SLCACK01"
FIRST_PARTITION = MEBI
SIZES = {"ext4": 128 * MEBI, "xfs": 320 * MEBI}  # xfs wants 300
JOURNALS = {"ext4": 16 * MEBI, "xfs": 64 * MEBI}  # where they are not inside the file system; xfs wants 64
LOGGED = "logged"  # QEMU's block node of the drive whose writes are written down
WRITERS = ("calls", "batches", "streams", "synchronous", "gdscp", "save_file", "careless_calls", "careless_direct",
           "careless_copies")
# Those of them that write ranges, durable by fsync or not at all: what they write in device memory a drive can fetch.
DIRECT_WRITERS = ("calls", "batches", "streams", "careless_direct")
# More than a loaded machine needs until each writer has acknowledged some; how long they go on then, at most.
ENOUGH_SECONDS, LONGEST_SECONDS = 600, 12
CUTS_OF_A_KILL = 25


@dataclasses.dataclass(frozen=True)
class Entry:
    """What the drive was told: a flush, or bytes at a place."""
    place: int = 0
    bytes: memoryview = memoryview(b"")
    flush: bool = False


@dataclasses.dataclass(frozen=True)
class Cut:
    """The power fails after so many entries; of what was not flushed the drive has kept "all", "none" or "some"."""
    entries: int
    kept: str


def writers(direct):
    return DIRECT_WRITERS if direct else WRITERS


def is_direct(case):
    return bool(case.drives)


def kept_size(case):
    """Of what lies on the drive before the acknowledgements: the file system, and its journal if that is elsewhere."""
    return SIZES[case.file_system] + (JOURNALS[case.file_system] if is_direct(case) else 0)


def read_log(data):
    """The entries of a log, in order. One that the kill has left unfinished ends it: it was never answered."""
    if len(data) < SECTOR or struct.unpack_from("<Q", data)[0] != 0x6a736677736872:
        raise ValueError("this is no log of writes")
    entries, at = [], SECTOR
    view = memoryview(data)
    while at + SECTOR <= len(data):
        sector, count, flags, _ = struct.unpack_from("<QQQQ", data, at)
        at += SECTOR
        if flags & ~(FLUSH | DISCARD) or (count == 0) != bool(flags & FLUSH) or at + count * SECTOR > len(data):
            break
        if flags & FLUSH:
            entries.append(Entry(flush=True))
        elif not flags & DISCARD:
            entries.append(Entry(sector * SECTOR, view[at:at + count * SECTOR]))
            at += count * SECTOR
    return entries


def acknowledgements(entries, first):
    """(index, writer, number) of each sector that a writer has put at or behind `first`."""
    found = []
    for index, entry in enumerate(entries):
        if not entry.flush and entry.place >= first and bytes(entry.bytes[:8]) == ACKNOWLEDGED:
            found.append((index, *struct.unpack_from("<QQ", entry.bytes, 8)))
    return found


def acknowledged_before(told, count):
    """By writer: the last number that was acknowledged within the first `count` entries."""
    return {writer: number for index, writer, number in told if index < count}


def first_with_all(told, names=WRITERS):
    """The number of entries after which each writer has acknowledged something."""
    seen = set()
    for index, writer, _ in told:
        seen.add(WRITERS[writer])
        if seen.issuperset(names):
            return index + 1
    silent = [name for name in names if name not in seen]
    raise ValueError(f"these writers acknowledged nothing: {', '.join(silent)}")


def unflushed(entries, told, writer):
    """Indices of acknowledgements of one writer with no flush since its last one: what it acknowledged was not flushed."""
    found, before = [], None
    flushes = [0]
    for entry in entries:
        flushes.append(flushes[-1] + entry.flush)
    for index, who, _ in told:
        if who != writer:
            continue
        if before is not None and flushes[index] == flushes[before]:
            found.append(index)
        before = index
    return found


def choose_cuts(entries, told, number, chance, names=WRITERS):
    """`number` moments, in their order, at which each writer has acknowledged some; the kill is the last.

    Half are any moment. The others come right behind an acknowledgement, which is the worst one for who gave it too early.
    """
    first = first_with_all(told, names)
    direct = [index for index in unflushed(entries, told, WRITERS.index("careless_direct")) if index >= first]
    cuts = [Cut(len(entries), "some")]
    while len(cuts) < number:
        if len(cuts) == 1 and direct:
            cuts.append(Cut(chance.choice(direct) + 1, "none"))
        elif len(cuts) % 2 == 1:
            writer = WRITERS.index(chance.choice(names))
            behind = [index for index, who, _ in told if index >= first and who == writer]
            cuts.append(Cut(chance.choice(behind or [first - 1]) + 1, "none"))
        else:
            cuts.append(Cut(chance.randint(first, len(entries)), chance.choice(["all", "none", "some", "some"])))
    return sorted(cuts, key=lambda cut: cut.entries)


def put(image, entry, size):
    """What of an entry lies on the first partition, into its image."""
    begin = entry.place - FIRST_PARTITION
    if begin >= 0 and begin + len(entry.bytes) <= size:
        image[begin:begin + len(entry.bytes)] = entry.bytes


def put_part(image, entry, size, chance):
    """Each block of the entry or not: a drive writes out its cache in whatever order it likes."""
    for at in range(0, len(entry.bytes), BLOCK):
        if chance.random() < 0.5:
            put(image, Entry(entry.place + at, entry.bytes[at:at + BLOCK]), size)


def leftovers(entries, cuts, size, chance):
    """For each cut, in order: the image of the first partition as the drive has kept it; the same memory each time."""
    durable = mmap.mmap(-1, size)
    flushed = 0  # entries that lie in `durable`
    for cut in cuts:
        last_flush = max((index + 1 for index in range(flushed, cut.entries) if entries[index].flush), default=flushed)
        for entry in entries[flushed:last_flush]:
            put(durable, entry, size)
        flushed = last_flush
        pending = [entry for entry in entries[flushed:cut.entries] if not entry.flush] if cut.kept != "none" else []
        undo = []  # what is put on top is taken off again: the next cut has lost other parts
        for entry in pending:
            begin = entry.place - FIRST_PARTITION
            if 0 <= begin <= size - len(entry.bytes):
                undo.append((begin, durable[begin:begin + len(entry.bytes)]))
                if cut.kept == "all":
                    put(durable, entry, size)
                else:
                    put_part(durable, entry, size, chance)
        yield durable
        for begin, old in reversed(undo):
            durable[begin:begin + len(old)] = old


def write_sparsely(file, at, image):
    """The image without its zeros, which the file holds already."""
    zeros = bytes(1 << 16)
    for begin in range(0, len(image), len(zeros)):
        piece = image[begin:begin + len(zeros)]
        if piece != zeros[:len(piece)]:
            file.seek(at + begin)
            file.write(piece)


def partition_table(size, journal):
    """A boot record: the file system's partition, one mebibyte for acknowledgements, and a journal between them."""
    def partition(begin, length):
        return struct.pack("<8BII", 0, 0, 0, 0, 0x83, 0, 0, 0, begin // SECTOR, length // SECTOR)

    table = partition(FIRST_PARTITION, size) + partition(FIRST_PARTITION + size + journal, MEBI)
    if journal:
        table += partition(FIRST_PARTITION + size, journal)
    return bytes(446) + table.ljust(64, b"\0") + b"\x55\xaa"


def file_node(name, path):
    return ["-blockdev", f"driver=file,node-name={name},filename={machine.escaped(path)},cache.no-flush=on"]


def disk(node):
    return ["-device", f"virtio-blk-pci,drive={node},bus=pcie.0,share-rw=on"]


def prepare(folder, job):
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "out").mkdir(parents=True)
    (folder / "out/job").write_text(job, encoding="utf-8")


def kill_while_writing(case, kernel, folder, chance):
    """Boots the guest, lets its writers begin, and kills QEMU at some moment. Its log, or why there is none."""
    size, kept = SIZES[case.file_system], kept_size(case)
    prepare(folder, case.job)
    images = machine.make_images(case, folder)
    with open(folder / "image", "wb") as image:
        image.write(partition_table(size, kept - size))
        image.truncate(FIRST_PARTITION + kept + MEBI)
    (folder / "log").touch()
    logged = [*file_node("image", folder / "image"), *file_node("log", folder / "log"), "-blockdev",
              f"driver=blklogwrites,node-name={LOGGED},file=image,log=log", *disk(LOGGED)]
    enough = [folder / "out/enough"]
    if "save_file" in writers(is_direct(case)):
        enough.append(folder / "out/enough-python")
    with open(folder / "qemu.log", "wb") as output:
        with subprocess.Popen([*machine.command_line(case, kernel, folder, images), *logged], stdin=subprocess.DEVNULL,
                              stdout=output, stderr=output) as process:
            try:
                end = time.monotonic() + ENOUGH_SECONDS
                while process.poll() is None and time.monotonic() < end and not all(map(pathlib.Path.exists, enough)):
                    time.sleep(0.1)
                if all(map(pathlib.Path.exists, enough)):
                    time.sleep(chance.uniform(0, LONGEST_SECONDS))
            finally:
                process.kill()
    for image in (folder / "image", *images.values()):
        image.unlink()
    if all(map(pathlib.Path.exists, enough)):
        return ""
    return f"not each writer acknowledged something within {ENOUGH_SECONDS} s; see {folder}/out/output and serial"


@dataclasses.dataclass
class Tally:
    """What the guests that looked at cuts have said."""
    cuts: int = 0
    held: dict = dataclasses.field(default_factory=dict)  # writer: cuts that lost nothing
    lost: dict = dataclasses.field(default_factory=dict)  # writer: what was lost, by cut

    def add(self, output, of_kill):
        for line in output.splitlines():
            if found := re.match(r"looked (\d+)$", line):
                self.cuts += 1
            elif found := re.match(r"held (\d+) (\S+)$", line):
                self.held[found.group(2)] = self.held.get(found.group(2), 0) + 1
            elif found := re.match(r"lost (\d+) (\S+) -- (.*)$", line):
                self.lost.setdefault(found.group(2), []).append(f"{of_kill[int(found.group(1))]}: {found.group(3)}")


def look_at_cuts(case, kernel, folder, cuts, told, entries, chance):
    """Boots a guest that mounts what each cut has left, and says what of it is lost. Its output."""
    size, kept = SIZES[case.file_system], kept_size(case)
    with open(folder.parent / f"{folder.name}-cuts", "wb") as images:
        images.truncate(kept * len(cuts))
        for number, image in enumerate(leftovers(entries, cuts, kept, chance)):
            write_sparsely(images, number * kept, image)
    expected = []
    for number, cut in enumerate(cuts):
        last = acknowledged_before(told, cut.entries)
        words = " ".join(f"{WRITERS[writer]}={last[writer]}" for writer in sorted(last))
        expected.append(f"{number} {number * kept} {size} {kept - size} {words}\n")
    case = dataclasses.replace(case, drives=(), job=case.job.replace("power_write.sh", "power_check.sh"))
    prepare(folder, case.job)
    (folder / "out/cuts").write_text("".join(expected), encoding="utf-8")
    arguments = [*machine.command_line(case, kernel, folder, {}), *file_node("cuts", f"{folder}-cuts"), *disk("cuts")]
    with open(folder / "qemu.log", "wb") as output:
        with subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=output, stderr=output) as process:
            try:
                machine.wait_for_end(process, case, folder / "serial")
            finally:
                process.kill()
    pathlib.Path(f"{folder}-cuts").unlink()
    output = folder / "out/output"
    return output.read_text(errors="replace") if output.exists() else ""


def written_by_the_drive(folder, drives):
    """What the drive has fetched from the memory of others for its writes: (segments, bytes)."""
    output = folder / "out/output"
    told = rows.read_output(output.read_text(errors="replace") if output.exists() else "").windows
    nsid = {drive.serial: drive.nsid for drive in drives}
    windows = [dma.Window(name, first, last, nsid[name]) for name, (first, last) in told.items()]
    with open(folder / "trace", encoding="ascii", errors="replace") as lines:
        # The last command may lack segments: the kill has cut the trace, too.
        fetched = [segment for command in dma.read_commands(lines) if command.operation == "write"
                   for segment in command.segments if any(window.holds(segment) and command.nsid != window.nsid
                                                          for window in windows)]
    return len(fetched), sum(length for _, length in fetched)


def judge(case, tally, wanted):
    """Rows: each writer that was careful has lost nothing, each that was not has been caught."""
    found = []

    def about(name, why):
        found.append(rows.Row("failed" if why else "passed", f"{case.name}: {name}", why))

    about("each cut is looked at", "" if tally.cuts == wanted else f"{tally.cuts} of {wanted} were")
    for writer in writers(is_direct(case)):
        lost = tally.lost.get(writer, [])
        if writer.startswith("careless"):
            about(f"{writer} is caught", "" if lost else f"it lost nothing in {tally.held.get(writer, 0)} cuts")
        else:
            about(f"{writer}: nothing acknowledged is lost, no part of a file has its name",
                  f"in {len(lost)} of {tally.cuts} cuts, as in {lost[0]}" if lost else
                  "" if tally.held.get(writer) else "it was looked at in no cut")
    return found


def run_case(case, kernel, folder, wanted, seed):
    """Kills the case's guest and looks at `wanted` cuts. Rows, segments in device memory, counts, and seconds."""
    begin = time.monotonic()
    chance, tally, problems, operations = random.Random(f"{seed} {case.name}"), Tally(), [], 0
    segments = fetched = 0
    names = writers(is_direct(case))
    shutil.rmtree(folder, ignore_errors=True)
    for kill in range(-(-wanted // CUTS_OF_A_KILL)):
        count = min(CUTS_OF_A_KILL, wanted - kill * CUTS_OF_A_KILL)
        writing = folder / f"kill-{kill}"
        # As the lab's other guests, once more only when it never got that far.
        why = kill_while_writing(case, kernel, writing, chance)
        if why and not machine.came_up(machine.console_of(writing / "serial")):
            why = kill_while_writing(case, kernel, writing, chance)
        if why:
            problems.append(why)
            continue
        if is_direct(case):
            more, bytes_ = written_by_the_drive(writing, case.drives)
            segments, fetched = segments + more, fetched + bytes_
            (writing / "trace").unlink()
            if not more:
                problems.append(f"kill {kill}: the drive has written nothing from device memory by itself")
        with open(writing / "log", "rb") as log, mmap.mmap(log.fileno(), 0, access=mmap.ACCESS_READ) as data:
            entries = read_log(data)
            told = acknowledgements(entries, FIRST_PARTITION + kept_size(case))
            operations += len(told)
            try:
                cuts = choose_cuts(entries, told, count, chance, names)
                said = look_at_cuts(case, kernel, folder / f"look-{kill}", cuts, told, entries, chance)
            except ValueError as error:
                problems.append(str(error))
                continue
            finally:
                entries.clear()
        tally.add(said, [f"kill {kill} of seed {seed}, entry {cut.entries}, {cut.kept} kept" for cut in cuts])
        (writing / "log").unlink()
    found = [rows.Row("failed", f"{case.name}: the guest is killed while it writes", why) for why in problems[:1]]
    found += judge(case, tally, wanted)
    what = case.name.removeprefix("power cut, ")
    counts = {f"Power cuts, {what}": tally.cuts,
              f"Operations acknowledged until the power was cut, {what}": operations}
    if is_direct(case):
        counts[f"Bytes that the drive wrote from device memory by itself, {what}"] = fetched
    return found, segments, counts, time.monotonic() - begin
