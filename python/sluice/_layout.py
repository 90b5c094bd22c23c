# SPDX-License-Identifier: Apache-2.0
"""Where the bytes of a file's tensors go: groups of a bounded size, each with one buffer and a few ranges to read.

Tensors keep the order and the distances that they have in the file, so that a group is one large range. Where the next
tensor would not lie at a multiple of its element size, a new range begins at the next multiple of 256 bytes. Files that
are read past the page cache keep in step with their blocks instead: a direct path moves whole blocks by itself only then.
"""

from __future__ import annotations

from typing import Iterable, NamedTuple

from ._dtypes import DTYPES
from ._header import Entry
from ._memory import ALIGNMENT

BLOCK = 4096
ELEMENT_SIZE = {name: max(dtype.bits // 8, 1) for name, dtype in DTYPES.items()}


class Group(NamedTuple):
    """`places`: entries with their offset in the buffer. `runs`: (offset in the data, size, offset in the buffer)."""

    places: "list[tuple[Entry, int]]"
    runs: "list[tuple[int, int, int]]"
    size: int


def _place_of_run(size: int, element: int, begin: int, data_begin: "int | None") -> int:
    """Where a run that begins at `begin` of the data goes in a buffer that holds `size` bytes so far."""
    if data_begin is not None:
        place = size + (data_begin + begin - size) % BLOCK
        if place % element == 0:
            return place
    return (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


def groups_of(entries: "Iterable[Entry]", limit: int, data_begin: "int | None" = None) -> "list[Group]":
    """Lays out entries, which are in the order of their data and may have gaps; a group is larger than `limit` only where
    one tensor is. With `data_begin`, where the data begins in the file, ranges keep in step with the file's blocks."""
    groups: "list[Group]" = []
    places: "list[tuple[Entry, int]]" = []
    runs: "list[tuple[int, int, int]]" = []
    run_begin = run_place = size = 0  # of the run at hand: where it begins in the data, and in the buffer
    at = -1  # where the run at hand ends in the data
    for entry in entries:
        begin, end = entry.begin, entry.end
        if places and size + end - begin > limit:
            if at > run_begin:
                runs.append((run_begin, at - run_begin, run_place))
            groups.append(Group(places, runs, size))
            places, runs, size, at, run_begin = [], [], 0, -1, 0
        element = ELEMENT_SIZE[entry.dtype]
        if begin != at or (run_place + begin - run_begin) % element:
            if at > run_begin:
                runs.append((run_begin, at - run_begin, run_place))
            run_begin = begin
            run_place = _place_of_run(size, element, begin, data_begin)
        place = run_place + begin - run_begin
        places.append((entry, place))
        size = place + end - begin
        at = end
    if places:
        if at > run_begin:
            runs.append((run_begin, at - run_begin, run_place))
        groups.append(Group(places, runs, size))
    return groups
