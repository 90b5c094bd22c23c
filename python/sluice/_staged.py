# SPDX-License-Identifier: Apache-2.0
"""Plans that carry by the copy engine: threads read into pinned windows, and the engine copies from there.

Where the CPU has to move the bytes anyhow (files in memory and in the page cache), the engine reaches more of the link
than a kernel that fetches staging memory does, if its pieces are large enough and the windows together small enough for
the processors' caches. bench/results holds the measurements.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
from collections import deque
from ctypes import byref, c_void_p

from . import _cuda
from ._errors import SluiceError, cut_short
from ._fast import native
from ._open_file import OpenFile
from ._sliced_plan import MIB, NativeSlicedPlan, SlicedPlan

# On an H100 with 16 processors 80 MiB of windows fill the link best: fewer threads cannot read as fast, larger windows
# leave the processors' caches.
THREADS = 10
WINDOW = 4 * MIB
WINDOWS = 2  # a thread
# That threads share, kept for the next load: the first ten streams of a process take some 40 ms to make, four 10. 0: one
# for each thread.
STREAMS = 4
HUGE_PAGE = 2 << 20
PORTABLE = 1  # pinned for every context
CUDA_CODE = 100_000  # as in native.c


class Windows:
    """Pinned memory of one thread, with an event for each window; kept for the next load, since pinning is slow."""

    _kept: "list[Windows]" = []
    _lock = threading.Lock()

    def __init__(self, device: int, size: int, count: int) -> None:
        self.about = (device, size, count)
        self.size, self.device = size, device
        pages = mmap.mmap(-1, size * count + HUGE_PAGE)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            try:
                pages.madvise(mmap.MADV_HUGEPAGE)
            except OSError:
                pass  # small pages do as well, slower to pin
        first = ctypes.addressof(ctypes.c_char.from_buffer(pages))
        self.pointer = (first + HUGE_PAGE - 1) // HUGE_PAGE * HUGE_PAGE
        ctypes.memset(self.pointer, 0, size * count)
        self.view = memoryview(pages)[self.pointer - first:self.pointer - first + size * count]
        self.events = [c_void_p() for _ in range(count)]
        with _cuda.current(device) as there:
            there.call("cuMemHostRegister_v2", self.pointer, size * count, PORTABLE)
            for event in self.events:
                there.call("cuEventCreate", byref(event), _cuda.EVENT_NO_TIMING)

    @classmethod
    def take(cls, device: int, size: int, count: int) -> "Windows":
        with cls._lock:
            for number, windows in enumerate(cls._kept):
                if windows.about == (device, size, count):
                    return cls._kept.pop(number)
        return cls(device, size, count)

    def give_back(self) -> None:
        with self._lock:
            self._kept.append(self)

    def free(self) -> None:
        with _cuda.current(self.device) as there:
            for event in self.events:
                there.functions.cuEventDestroy_v2(event)
            there.functions.cuMemHostUnregister(self.pointer)


def free_staging() -> int:
    """Gives back the pinned memory that is kept for the next load; how many bytes that were."""
    with Windows._lock:
        kept, Windows._kept = Windows._kept, []
    for windows in kept:
        windows.free()
    return sum(windows.size * len(windows.events) for windows in kept)


_carried = {"bytes": 0}


def _count(size: int) -> None:
    with Windows._lock:
        _carried["bytes"] += size


def carried() -> "dict[str, int]":
    """What plans of this kind were given so far; the library's own counters do not see it."""
    with Windows._lock:
        return dict(_carried)


_shared_streams: "dict[int, list[_cuda.Stream]]" = {}


class _Staged:
    """What both kinds of staged plans share: streams, and a thread's windows."""

    def _prepare(self, device: int, windows: int, streams: int) -> None:
        self._device, self._count = device, windows
        self._stream_count = streams
        self._streams: "list[_cuda.Stream]" = []
        self._turn = self._without = 0

    def _stream(self) -> _cuda.Stream:
        """The stream of one more thread: its own, or one of those that threads share."""
        with Windows._lock:
            if self._stream_count == 0:
                self._streams.append(_cuda.Stream(self._device))
                return self._streams[-1]
            shared = _shared_streams.setdefault(self._device, [])
            self._turn += 1
            if len(shared) <= self._turn % self._stream_count:
                shared.append(_cuda.Stream(self._device))
                return shared[-1]
            return shared[self._turn % self._stream_count]

    def _windows(self, size: int) -> "Windows | None":
        """A thread's pinned memory. One that gets none leaves the work to the others; the last one says so."""
        try:
            return Windows.take(self._device, size, self._count)
        except (SluiceError, OSError, MemoryError) as failure:
            with Windows._lock:
                self._without += 1
                if self._without < self._threads:
                    return None
            raise SluiceError(f"No host memory could be pinned for the copy engine ({failure}). Free some, or load with "
                              "engine=\"cufile\", which needs less.") from failure

    def _finish(self) -> None:
        """After the threads have ended; a plan may be closed more than once."""
        while self._streams:
            self._streams.pop().close()
        size, self.bytes = self.bytes, 0
        _count(size)


class NativeStagedPlan(_Staged, NativeSlicedPlan):
    """By the extension: threads stay outside of Python until the plan ends."""

    def __init__(self, device: int, threads: int = THREADS, window: int = WINDOW, windows: int = WINDOWS,
                 streams: int = 0) -> None:
        super().__init__(threads, window)
        self._prepare(device, windows, streams)
        self._window = window
        self._failed_thread: "BaseException | None" = None

    def add(self, file: OpenFile, offset: int, size: int, pointer: int) -> int:
        number = self._plan.add(file.descriptor, offset, size, pointer)
        self._files.append(file)
        self.bytes += size
        return number

    def start(self) -> "NativeStagedPlan":
        for number in range(self._threads):
            worker = threading.Thread(target=self._run, name=f"sluice-plan-{number}", daemon=True)
            self._workers.append(worker)
            worker.start()
        return self

    def _run(self) -> None:
        try:
            windows = self._windows(self._window)
            if windows is None:
                return
            stream = self._stream()
            with _cuda.current(self._device) as there:
                try:
                    self._plan.run_staged(there.address("cuMemcpyHtoDAsync_v2"), there.address("cuEventRecord"),
                                          there.address("cuEventSynchronize"), stream.handle.value, windows.pointer,
                                          tuple(event.value for event in windows.events))
                finally:
                    # No copy may read the windows once they serve another call.
                    there.functions.cuStreamSynchronize(stream.handle)
                    windows.give_back()
        except BaseException as failure:  # noqa: B902 - it is raised where the caller waits
            self._failed_thread = failure
            self._plan.stop()

    def _failure(self) -> BaseException:
        told = self._plan.failure()
        if told is not None and told[0] >= CUDA_CODE:
            return SluiceError(f"copying {self._files[told[1]].path} to the device failed with CUDA code "
                               f"{told[0] - CUDA_CODE}", told[0] - CUDA_CODE)
        if told is None and self._failed_thread is not None:
            return self._failed_thread
        return super()._failure()

    def close(self) -> None:
        super().close()
        self._finish()


class StagedPlan(_Staged, SlicedPlan):
    """The same in Python alone."""

    def __init__(self, device: int, threads: int = THREADS, window: int = WINDOW, windows: int = WINDOWS,
                 streams: int = 0) -> None:
        super().__init__(threads, window)
        self._prepare(device, windows, streams)

    def close(self) -> None:
        super().close()
        self._finish()

    def _run(self) -> None:
        try:
            self._carry()
        except BaseException as failure:  # noqa: B902 - it is raised where the caller waits
            self._fail(failure)

    def _carry(self) -> None:
        windows = self._windows(self._slice)
        if windows is None:
            return
        stream = self._stream()
        under_way: "deque[tuple[c_void_p, int, int]]" = deque()
        turn = 0
        with _cuda.current(self._device) as there:
            try:
                while True:
                    # A thread that has copies under way must tell of them before it sleeps.
                    part = self._take(wait=not under_way)
                    if part is None and not under_way:
                        return
                    if part is None or len(under_way) == self._count:
                        self._settle(there, under_way.popleft())
                    if part is None:
                        continue
                    file, offset, count, pointer, number = part
                    begin, event = turn % self._count * self._slice, windows.events[turn % self._count]
                    _read(file, windows.view[begin:begin + count], offset)
                    there.call("cuMemcpyHtoDAsync_v2", pointer, windows.pointer + begin, count, stream.handle)
                    there.call("cuEventRecord", event, stream.handle)
                    under_way.append((event, number, count))
                    turn += 1
            finally:
                there.functions.cuStreamSynchronize(stream.handle)
                windows.give_back()

    def _settle(self, there: _cuda.Driver, copied: "tuple[c_void_p, int, int]") -> None:
        event, number, count = copied
        there.call("cuEventSynchronize", event)
        self._arrived(number, count)


def _read(file: OpenFile, into: memoryview, offset: int) -> None:
    done = 0
    while done < len(into):
        count = os.preadv(file.descriptor, [into[done:] if done else into], offset + done)
        if count == 0:
            raise cut_short(file.path, offset + done)
        done += count


def staged_plan_of(device: int, threads: "int | None" = None, window: "int | None" = None, windows: "int | None" = None,
                   streams: "int | None" = None) -> "NativeStagedPlan | StagedPlan":
    """A plan by the copy engine, by the extension where it is there."""
    return (StagedPlan if native is None else NativeStagedPlan)(
        device, threads or THREADS, window or WINDOW, windows or WINDOWS, STREAMS if streams is None else streams)
