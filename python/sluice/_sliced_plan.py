# SPDX-License-Identifier: Apache-2.0
"""Carries many ranges of many files into many places, by slices.

A plan takes ranges, cuts them into slices, and lets a few threads carry the slices by `cuFileRead` and `cuFileWrite`,
which give up Python's lock while they work. Callers wait for a prefix of the ranges, in the order in which they were
added. Plans that carry by other means have the same methods: LibraryPlan, and those of _staged.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from typing import Iterable

from . import _library
from ._errors import Cancelled, cut_short, io_error
from ._fast import native
from ._open_file import OpenFile, transfer

MIB = 1 << 20
# A slice is large enough to run at the link's speed, and small enough that the last one of a thread is not waited for
# long. bench/results holds the measurements.
SLICE = 32 * MIB
THREADS = 4


def sliced_plan_of(threads: int = THREADS, slice_size: int = SLICE, write: bool = False) -> "SlicedPlan | NativeSlicedPlan":
    """A plan, by the extension where it is there."""
    return (SlicedPlan if native is None else NativeSlicedPlan)(threads, slice_size, write)


def write_ranges(file: OpenFile, size: int, ranges: "Iterable[tuple[int, int, int]]", threads: int = THREADS) -> None:
    """Makes the file that long, and writes (offset, size, pointer) for each range; returns when all are written."""
    os.ftruncate(file.descriptor, size)
    plan = sliced_plan_of(threads, write=True).start()
    try:
        for offset, length, pointer in ranges:
            plan.add(file, offset, length, pointer)
        plan.seal()
        plan.wait()
    except BaseException:
        plan.cancel()
        raise
    finally:
        plan.close()


class NativeSlicedPlan:
    """A plan whose threads stay outside of Python until it ends, so that Python code does not hold them up."""

    def __init__(self, threads: int = THREADS, slice_size: int = SLICE, write: bool = False) -> None:
        there = _library.library()
        self._plan = native.Plan(there.write_address if write else there.read_address, there.error_address, slice_size)
        self._threads = max(1, threads)
        self._write = write
        self._files: "list[OpenFile]" = []  # of each range
        self._workers: "list[threading.Thread]" = []
        self.bytes = 0

    def add(self, file: OpenFile, offset: int, size: int, pointer: int) -> int:
        """One more range; its number. It may be on its way when this returns."""
        number = self._plan.add(file.handle.value, offset, size, pointer)
        self._files.append(file)
        self.bytes += size
        return number

    def start(self) -> "NativeSlicedPlan":
        for number in range(self._threads):
            worker = threading.Thread(target=self._plan.run, name=f"sluice-plan-{number}", daemon=True)
            self._workers.append(worker)
            worker.start()
        return self

    def seal(self) -> None:
        """No range comes any more: threads end when all are carried."""
        self._plan.seal()

    def wait(self, first: "int | None" = None) -> None:
        """Returns once the first ranges, or all, are in place. Raises what kept one of them from it."""
        if not self._plan.wait(len(self._files) if first is None else first):
            raise self._failure()

    def _failure(self) -> BaseException:
        told = self._plan.failure()
        if told is None:
            return Cancelled()
        code, number, at, text = told
        path = self._files[number].path
        return cut_short(path, at) if code == -1 else io_error("writing" if self._write else "reading", code, path, text)

    def done(self) -> int:
        """How many of the first ranges are in place."""
        return self._plan.done()

    def cancel(self) -> None:
        """Begins no slice any more; those on their way are waited for by `close()`."""
        self._plan.stop()

    def close(self) -> None:
        """Waits until no thread of the plan touches memory, and ends it."""
        self._plan.seal()
        for worker in self._workers:
            worker.join()
        self._workers = []


class SlicedPlan:
    """The same in Python alone."""

    def __init__(self, threads: int = THREADS, slice_size: int = SLICE, write: bool = False) -> None:
        self._threads = max(1, threads)
        self._slice = slice_size
        self._write = write
        self._slices: "deque[tuple[OpenFile, int, int, int, int]]" = deque()
        self._left: "list[int]" = []
        self._first_open = 0
        self._sealed = False
        self._failure: "BaseException | None" = None
        self._workers: "list[threading.Thread]" = []
        self._change = threading.Condition()
        self.bytes = 0

    def add(self, file: OpenFile, offset: int, size: int, pointer: int) -> int:
        """One more range; its number. It may be on its way when this returns."""
        with self._change:
            number = len(self._left)
            self._left.append(size)
            for at in range(0, size, self._slice):
                self._slices.append((file, offset + at, min(self._slice, size - at), pointer + at, number))
            self.bytes += size
            if size == 0:
                self._advance()
            self._change.notify_all()
        return number

    def start(self) -> "SlicedPlan":
        for number in range(self._threads):
            worker = threading.Thread(target=self._run, name=f"sluice-plan-{number}", daemon=True)
            self._workers.append(worker)
            worker.start()
        return self

    def seal(self) -> None:
        """No range comes any more: threads end when all are carried."""
        with self._change:
            self._sealed = True
            self._change.notify_all()

    def wait(self, first: "int | None" = None) -> None:
        """Returns once the first ranges, or all, are in place. Raises what kept one of them from it."""
        with self._change:
            wanted = len(self._left) if first is None else first
            self._change.wait_for(lambda: self._first_open >= wanted or self._failure is not None)
            if self._first_open < wanted and self._failure is not None:
                raise self._failure

    def done(self) -> int:
        """How many of the first ranges are in place."""
        with self._change:
            return self._first_open

    def cancel(self) -> None:
        """Begins no slice any more; those on their way are waited for by `close()`."""
        self._fail(Cancelled())

    def close(self) -> None:
        """Waits until no thread of the plan touches memory, and ends it."""
        with self._change:
            self._sealed = True
            self._change.notify_all()
        for worker in self._workers:
            worker.join()
        self._workers = []

    def _fail(self, failure: BaseException) -> None:
        with self._change:
            if self._failure is None:
                self._failure = failure
            self._slices.clear()
            self._change.notify_all()

    def _take(self, wait: bool = True) -> "tuple[OpenFile, int, int, int, int] | None":
        """The next slice; None at the end, and without `wait` also where none is there now."""
        with self._change:
            while not self._slices:
                if self._sealed or self._failure is not None or not wait:
                    return None
                self._change.wait()
            return self._slices.popleft()

    def _run(self) -> None:
        while True:
            part = self._take()
            if part is None:
                return
            file, offset, size, pointer, number = part
            try:
                count = transfer(file, pointer, size, offset, self._write)
                if count < size:
                    raise cut_short(file.path, offset + count)
            except BaseException as failure:  # noqa: B902 - it is raised where the caller waits
                self._fail(failure)
                return
            self._arrived(number, size)

    def _arrived(self, number: int, size: int) -> None:
        """So many bytes of a range are in place."""
        with self._change:
            self._left[number] -= size
            if self._left[number] == 0 and number == self._first_open:
                self._advance()
                self._change.notify_all()

    def _advance(self) -> None:
        """Moves the prefix past all that is in place; the lock is held."""
        while self._first_open < len(self._left) and self._left[self._first_open] == 0:
            self._first_open += 1
