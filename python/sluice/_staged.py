"""A plan that carries by the copy engine: threads read into pinned windows, and the engine copies from there.

The engine reaches more of the link than a kernel does where its pieces are large. It serves files whose bytes the CPU
has to move anyhow: those in memory, and those in the page cache.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
from collections import deque
from ctypes import byref, c_void_p

from . import _cuda
from ._engine import MIB, OpenFile, Plan
from ._errors import SluiceError

THREADS = 12
WINDOW = 8 * MIB
WINDOWS = 2
HUGE_PAGE = 2 << 20
PORTABLE = 1  # pinned for every context


class PinnedMemory:
    """Pinned host memory; kept for the next load, since pinning is slow."""

    _kept: "list[PinnedMemory]" = []
    _lock = threading.Lock()

    def __init__(self, device: int, size: int) -> None:
        self.size = size
        self.pages = mmap.mmap(-1, size + HUGE_PAGE)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            try:
                self.pages.madvise(mmap.MADV_HUGEPAGE)
            except OSError:
                pass  # small pages do as well, slower to pin
        first = ctypes.addressof(ctypes.c_char.from_buffer(self.pages))
        self.pointer = (first + HUGE_PAGE - 1) // HUGE_PAGE * HUGE_PAGE
        ctypes.memset(self.pointer, 0, size)
        with _cuda.current(device) as there:
            there.call("cuMemHostRegister_v2", self.pointer, size, PORTABLE)
        self.view = memoryview(self.pages)[self.pointer - first:self.pointer - first + size]

    @classmethod
    def take(cls, device: int, size: int) -> "PinnedMemory":
        with cls._lock:
            for number, memory in enumerate(cls._kept):
                if memory.size == size:
                    return cls._kept.pop(number)
        return cls(device, size)

    def give_back(self) -> None:
        with self._lock:
            self._kept.append(self)


class StagedPlan(Plan):
    """As a Plan; every range must go to memory of one device, and only reads are carried."""

    def __init__(self, device: int, threads: int = THREADS, window: int = WINDOW, windows: int = WINDOWS,
                 blocking: bool = False) -> None:
        super().__init__(threads, window)
        self._device = device
        self._windows = windows
        self._flags = _cuda.EVENT_NO_TIMING | (_cuda.EVENT_BLOCKING if blocking else 0)

    def _run(self) -> None:
        try:
            self._carry()
        except BaseException as failure:  # noqa: B902 - it is raised where the caller waits
            self._fail(failure)

    def _carry(self) -> None:
        size = self._slice
        memory = PinnedMemory.take(self._device, size * self._windows)
        stream = _cuda.Stream(self._device)
        events = [c_void_p() for _ in range(self._windows)]
        under_way: "deque[tuple[c_void_p, int, int]]" = deque()
        turn = 0
        with _cuda.current(self._device) as there:
            try:
                for event in events:
                    there.call("cuEventCreate", byref(event), self._flags)
                while True:
                    part = self._take()
                    if part is None:
                        break
                    file, offset, count, pointer, number = part
                    if len(under_way) == self._windows:
                        self._settle(there, under_way.popleft())
                    begin = turn % self._windows * size
                    _read(file, memory.view[begin:begin + count], offset)
                    there.call("cuMemcpyHtoDAsync_v2", pointer, memory.pointer + begin, count, stream.handle)
                    event = events[turn % self._windows]
                    there.call("cuEventRecord", event, stream.handle)
                    under_way.append((event, number, count))
                    turn += 1
                while under_way:
                    self._settle(there, under_way.popleft())
            finally:
                # No copy may read the windows once they serve somebody else.
                there.functions.cuStreamSynchronize(stream.handle)
                for event in events:
                    if event:
                        there.functions.cuEventDestroy_v2(event)
                stream.close()
                memory.give_back()

    def _settle(self, there: _cuda.Driver, copied: "tuple[c_void_p, int, int]") -> None:
        event, number, count = copied
        there.call("cuEventSynchronize", event)
        self._arrived(number, count)


def _read(file: OpenFile, into: memoryview, offset: int) -> None:
    done = 0
    while done < len(into):
        count = os.preadv(file.descriptor, [into[done:] if done else into], offset + done)
        if count == 0:
            raise SluiceError(f"{file.path} ended at {offset + done}: the file was cut while it was read.")
        done += count
