# SPDX-License-Identifier: Apache-2.0
"""Many ranges of many files into many places, carried by plans of the library."""

from __future__ import annotations

from ._errors import Cancelled
from ._open_file import OpenFile
from ._plan import Plan

class LibraryPlan:
    """A plan whose ranges the library carries (`sluice.Plan`): some calls for all of them, whatever their number.

    Ranges that are added go together when there is so much of them that a submission is worth it, or when a caller waits.
    """

    PORTION = 256 << 20

    def __init__(self, at_a_time: int = 0, write: bool = False) -> None:
        self._at_a_time = at_a_time
        self._write = write
        self._portions: "list[tuple[int, Plan]]" = []  # how many ranges there are up to its end, and the plan
        self._filling: "Plan | None" = None
        self._filling_bytes = 0
        self._count = 0
        self._waited = 0  # so many portions are in place
        self._cancelled = False
        self.bytes = 0

    def add(self, file: OpenFile, offset: int, size: int, pointer: int) -> int:
        """One more range; its number."""
        if self._filling is None:
            self._filling = Plan(write=self._write, at_a_time=self._at_a_time)
        self._filling.add_range(file, pointer, size, offset)
        self._count += 1
        self._filling_bytes += size
        self.bytes += size
        if self._filling_bytes >= self.PORTION:
            self.begin()
        return self._count - 1

    def start(self) -> "LibraryPlan":
        return self

    def begin(self) -> None:
        """What was added goes now."""
        if self._filling is not None and not self._cancelled:
            self._filling.submit()
            self._portions.append((self._count, self._filling))
            self._filling, self._filling_bytes = None, 0

    def seal(self) -> None:
        """No range comes any more."""
        self.begin()

    def wait(self, first: "int | None" = None) -> None:
        """Returns once the first ranges, or all, are in place. Raises what kept one of them from it."""
        wanted = self._count if first is None else first
        if self._filling is not None and wanted > (self._portions[-1][0] if self._portions else 0):
            self.begin()
        for end, plan in self._portions[self._waited:]:
            begin = end - len(plan)
            if wanted <= begin:
                return
            plan.wait(min(wanted, end) - begin)
            if wanted >= end:
                self._waited += 1
        if self._cancelled and wanted > (self._portions[-1][0] if self._portions else 0):
            raise Cancelled()

    def done(self) -> int:
        """How many of the first ranges are in place."""
        front = 0
        for end, plan in self._portions:
            front = end - len(plan) + plan.progress().items_in_front
            if front < end:
                break
        return front

    def cancel(self) -> None:
        """Begins nothing any more; what is on its way is waited for by `close()`."""
        self._cancelled = True
        for _, plan in self._portions:
            plan.cancel()

    def close(self) -> None:
        """Waits until nothing of the plan touches memory, and ends it."""
        for _, plan in self._portions:
            plan.close()
        self._portions, self._filling = [], None
