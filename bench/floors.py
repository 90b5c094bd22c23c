# SPDX-License-Identifier: Apache-2.0
"""The rows that are compared, and what has to hold for each.

A requirement names what our row is held against:
  incumbent      the other library, on the same row
  reference ROW  a row without cuFile: the link, a bare copy, plain pread or pwrite
  own ROW        another row of our own library
  limit          nothing; a number in itself

Some references are what bounds a row and no target: they are measured in the same turns, so that a reader of the
verdicts sees on the same machine how far a row could get, and their floor is None.
"""

import dataclasses
import re


@dataclasses.dataclass(frozen=True)
class Requirement:
    metric: str    # speed, latency, processor, slowdown, first, idle
    against: str   # "incumbent", "reference", "own", "limit"
    row: str       # of what it is held against; "" for a limit
    floor: float   # a ratio that is to be reached; for slowdown, first and idle, a number not to be exceeded;
                   # None: shown, and nothing asked


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    requirements: tuple = ()

    def participants(self):
        """What is measured in each turn: (who, row), ours first; theirs unless nothing but a number is asked."""
        found = [("ours", self.name)]
        if not self.requirements or any(wanted.against != "limit" for wanted in self.requirements):
            found.append(("theirs", self.name))
        for requirement in self.requirements:
            who = {"reference": "reference", "own": "ours"}.get(requirement.against)
            if who and (who, requirement.row) not in found:
                found.append((who, requirement.row))
        return found

    def has_speed(self):
        """Not those whose time or idleness is what counts."""
        return not any(wanted.metric in ("first", "idle") for wanted in self.requirements)

    def of_speed(self, floor):
        """The row with nothing asked but that much of the other side's speed: nothing else is measured then."""
        return Row(self.name, (Requirement("speed", "incumbent", self.name, floor),))


UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def size_of(name):
    match = re.search(r"-(\d+)([KMG]?)(?=-|$)", name)
    return int(match.group(1)) * UNITS[match.group(2)] if match else 0


def processor_limit(name):
    """Processor time per GiB: as much as the incumbent's for batches and streams, twice for single requests of 256K to 4M,
    1.25 times elsewhere."""
    if name.startswith(("batch", "async")):
        return 1.0
    single = not re.search(r"-x\d+", name)
    return 2.0 if single and UNITS["K"] * 256 <= size_of(name) <= UNITS["M"] * 4 else 1.25


def row(name, incumbent=None, latency=None, **others):
    """A row and its floors: `link`, `own` and `plain` as (row, floor) or as a floor. Then what bounds it: references
    whose speed (`beside`) or whose median time (`beside_p50`) is shown next to its own."""
    wanted = []
    if incumbent is not None:
        wanted.append(Requirement("speed", "incumbent", name, incumbent))
    if latency is not None:
        wanted.append(Requirement("latency", "incumbent", name, latency))
    if "link" in others:
        wanted.append(Requirement("speed", "reference", "link-h2d", others["link"]))
    if "plain" in others:
        wanted.append(Requirement("speed", "reference", *others["plain"]))
    if "own" in others:
        wanted.append(Requirement("speed", "own", *others["own"]))
    wanted.append(Requirement("processor", "incumbent", name, 1 / processor_limit(name)))
    wanted += [Requirement("speed", "reference", bound, None) for bound in others.get("beside", ())]
    wanted += [Requirement("latency", "reference", bound, None) for bound in others.get("beside_p50", ())]
    return Row(name, tuple(wanted))


def busy(name):
    """While a product keeps the device busy: never behind, and the product slows by 5 points more at most."""
    return Row(name, (Requirement("speed", "incumbent", name, 1.0), Requirement("slowdown", "incumbent", name, 0.05)))


def bare(name):
    """Measured against the incumbent; nothing is asked of it."""
    return Row(name)


# What a kernel, rather than the copy engine, makes of the link: cached reads are moved by one.
KERNEL = "link-kernel"
# What as many threads as a large batch has hands get from the page cache, at random places and for no device.
CACHE = "pread-rand-1M-x12"

# Streams that ring, and wait for the answer, with neither a library nor a file.
BELLS = ("bell-4K-x8",)

CACHED = (
    row("read-4K", 1.0),
    # Its halves, of which the first takes longer from the small pages of tmpfs.
    row("read-64K", 1.1, beside_p50=("pread-64K", "copy-in-64K")),
    # What one thread alone takes for reading it.
    row("read-256K", 1.8, beside_p50=("pread-256K",)),
    row("read-1M", 3.0), row("read-4M", 4.5),
    row("read-16M", 3.0), row("read-64M", 2.5, link=0.88, beside=(KERNEL,)),
    row("read-256M", link=0.88, beside=(KERNEL,)),
    row("read-1M-x8", 1.2), row("read-16M-x8", 1.0, link=0.93, beside=(KERNEL,)),
    row("read-rand-4K-x16", 2.0),
    # Its two halves, of which neither can begin before the other has ended.
    row("write-4K", 1.1, beside_p50=("pwrite-4K", "copy-out-4K")),
    # The first of its two pieces has to come before anything can be written.
    row("write-1M", 1.0, plain=("pwrite-1M", 0.97), beside_p50=("pwrite-1M", "copy-out-512K")),
    row("write-4M", 1.0, plain=("pwrite-4M", 0.97)), row("write-16M", 1.0, plain=("pwrite-16M", 0.97)),
    row("write-64M", 1.0, plain=("pwrite-64M", 0.97)),
    row("write-1M-x8", 1.0, plain=("pwrite-1M-x8", 0.97)), row("write-16M-x8", 1.0, plain=("pwrite-16M-x8", 0.97)),
    row("read-4K-unreg", own=("read-4K", 0.95)), row("read-1M-unreg", own=("read-1M", 0.95)),
    row("read-16M-unreg", own=("read-16M", 0.95)), row("write-1M-unreg", own=("write-1M", 0.95)),
)

# Where the next request will lie cannot be foreseen there.
RANDOM = tuple(bare(name) for name in ("read-rand-64K", "read-rand-256K", "write-rand-1M"))

BUSY = tuple(busy(name) for name in ("read-4K-matmul", "read-1M-matmul", "read-16M-matmul", "read-16M-x8-matmul",
                                     "read-1M-hog", "read-16M-hog"))

LIFE = (
    Row("first-1M", (Requirement("first", "limit", "", 20.0),)),
    Row("first-64M", (Requirement("first", "limit", "", 20.0),)),
    Row("idle", (Requirement("idle", "limit", "", 1.0),)),
    Row("held", (Requirement("idle", "limit", "", 10.0),)),
)

BATCHES = (
    row("batch-4K-x128", 9.0), row("batch-64K-x64", 4.2), row("batch-1M-x32", 2.0, link=0.86, beside=(KERNEL, CACHE)),
    row("batch-write-4K-x128"), row("batch-write-1M-x32", 1.0, plain=("pwrite-1M", 0.97)),
)

STREAMS = (
    row("async-1M-x1-fixed", 8.0), row("async-4K-x8-fixed", 6.0, beside=BELLS), row("async-1M-x8-fixed", 3.0),
    row("async-16M-x4", 2.4),
    row("async-write-4K-x8-fixed", 3.0), row("async-write-1M-x8-fixed", 3.0, plain=("pwrite-1M-x8", 0.95)),
    bare("async-1M-x1"),
)

def cycle(name):
    """The whole life of a handle, file by file: never behind, and the plain calls beside it."""
    return Row(name, (Requirement("speed", "incumbent", name, 1.0),
                      Requirement("speed", "reference", f"p{name}", None)))


CYCLES = tuple(cycle(name) for name in ("cycle-4K", "cycle-1M", "cycle-16M"))

# What reading takes of the processors where nothing else is done, into memory that stays in their caches: pages of tmpfs
# are small ones.
READING = "pread-256K-x8"


def beside_reading(measured):
    """The same row of tmpfs: what its processor time is held against comes from a file of larger pages."""
    if not measured.name.startswith("read-") or size_of(measured.name) < 256 * UNITS["K"]:
        return measured
    return dataclasses.replace(
        measured, requirements=(*measured.requirements, Requirement("processor", "reference", READING, None)))


TMPFS = tuple(beside_reading(measured) for measured in CACHED)

# What the same device gives to plain O_DIRECT reads when enough of them are under way.
DEPTH = "pread-1M-x16"

DIRECT = (
    row("read-4K", latency=1.0, beside_p50=("pread-4K", "copy-in-4K")), row("read-64K"), row("read-256K"),
    row("read-1M", plain=(DEPTH, 0.70)), row("read-4M", plain=(DEPTH, 0.85)), row("read-16M", plain=(DEPTH, 0.95)),
    row("read-64M", plain=(DEPTH, 0.95)),
    row("read-1M-x8"), row("read-16M-x8"), row("read-rand-4K-x16"), row("write-4K"), row("write-1M"),
    row("write-16M"), row("write-1M-x8"),
    row("batch-4K-x128", 1.0), row("batch-64K-x64", 1.0), row("batch-1M-x32", 1.0, plain=(DEPTH, 0.95)),
    *(row(name, 1.0) for name in ("async-1M-x1-fixed", "async-4K-x8-fixed", "async-1M-x8-fixed", "async-16M-x4")),
)

def lent(name, floor):
    """Our library against itself without neighbours' links (sluice.links): compare.py --same --with SLUICE_LINKS=..."""
    return Row(name, (Requirement("speed", "incumbent", name, floor), Requirement("speed", "reference", "link-h2d", None),
                      Requirement("processor", "incumbent", name, None)))



def wanted_by_all(name):
    """All GPUs read at once: no link is idle, and asking for others' costs next to nothing."""
    return Row(name, (Requirement("speed", "incumbent", name, 0.97), Requirement("processor", "incumbent", name, None)))


def beside_work(name):
    """A product on every neighbour: it slows by 5 points at most, and the read is no slower than by its own link."""
    return Row(name, (Requirement("slowdown", "limit", "", 0.05), Requirement("slowdown", "incumbent", name, None),
                      Requirement("speed", "incumbent", name, 1.0), Requirement("processor", "incumbent", name, None)))


# A warm file into one GPU: alone by more than its own link, beside others of the same GPU never slower than without;
# then where links, or GPUs, are at work. In order of what a short run should have.
def links(floor):
    return (lent("read-1G", floor), wanted_by_all("read-1G-each"), beside_work("read-1G-matmul-others"),
            lent("read-256M", 1.3), wanted_by_all("read-64M-each"), wanted_by_all("read-16M-each-x8"),
            beside_work("read-256M-matmul-others"), lent("async-1G-x1", 1.3), lent("read-64M", 0.97), lent("read-64M-x8", 0.97),
            lent("read-1M", 0.97), lent("read-16M-x8", 0.97))


TWO_LINKS = links(1.6)
FOUR_LINKS = links(1.9)

KINDS = {
    "cached": CACHED + RANDOM + BUSY + LIFE + BATCHES + STREAMS + CYCLES,
    "tmpfs": TMPFS,  # the incumbent refuses it: there it reads the page-cached file
    "virtio": DIRECT,
    "loop": DIRECT,
    "two_links": TWO_LINKS,  # of a file in the page cache (bench/links.sh)
    "four_links": FOUR_LINKS,
}
