# SPDX-License-Identifier: Apache-2.0
"""Carries many ranges of many files into many places: the plan.

A plan takes ranges, cuts them into slices, and lets a few threads carry the slices by `cuFileRead` and `cuFileWrite`,
which give up Python's lock while they work. Callers wait for a prefix of the ranges, in the order in which they were
added. The interface is that of a plan in the library: its methods can call one without a change above.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections import deque
from typing import Any, Iterable

from . import _abi, _library
from ._errors import SluiceError, io_error
from ._fast import native

MIB = 1 << 20
# A slice is large enough to run at the link's speed, and small enough that the last one of a thread is not waited for
# long. bench/results holds the measurements.
SLICE = 32 * MIB
THREADS = 4


class OpenFile:
    """A file that is registered with the library; `close()` takes that back."""

    def __init__(self, path: "str | os.PathLike[str]", flags: int = os.O_RDONLY, direct: bool = False,
                 mode: int = 0o666, same_as: int = -1) -> None:
        """`same_as`: an open descriptor of the file, so that it is this one and not another that has taken the name."""
        self.path = os.fspath(path)
        self.handle: "ctypes.c_void_p | None" = None
        self.descriptor = -1
        self._library = _library.library()
        if direct:
            flags |= os.O_DIRECT
        self.descriptor = os.open(f"/proc/self/fd/{same_as}" if same_as >= 0 else self.path, flags | os.O_CLOEXEC, mode)
        self.direct = direct
        try:
            self._register()
        except BaseException:
            self.close()
            raise

    def _register(self) -> None:
        handle = ctypes.c_void_p()
        description = _abi.Description(_abi.HANDLE_TYPE_FD, self.descriptor, None)
        error = self._library.calls.cuFileHandleRegister(ctypes.byref(handle), ctypes.byref(description))
        self._library.check(error, "registering the file", self.path)
        self.handle = handle

    def size(self) -> int:
        return os.fstat(self.descriptor).st_size

    def close(self) -> None:
        if self.handle is not None:
            self._library.calls.cuFileHandleDeregister(self.handle)
            self.handle = None
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def __enter__(self) -> "OpenFile":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def transfer(file: OpenFile, pointer: int, size: int, offset: int, write: bool = False) -> int:
    """Moves bytes until all are there or the file ends; the count. Raises OSError or SluiceError."""
    there = _library.library()
    if native is not None:
        address = there.write_address if write else there.read_address
        count = native.transfer(address, file.handle.value, pointer, size, offset)
        if count < 0:
            raise io_error("writing" if write else "reading", -count, file.path, there.last_error())
        return count
    call = there.calls.cuFileWrite if write else there.calls.cuFileRead
    done = 0
    while done < size:
        count = call(file.handle, pointer + done, size - done, offset + done, 0)
        if count < 0:
            code = ctypes.get_errno() if count == -1 else -count
            raise io_error("writing" if write else "reading", code, file.path, there.last_error())
        if count == 0:
            break
        done += count
    return done


CANCELLED = "The plan was cancelled before all of its ranges were carried."


class Cancelled(SluiceError):
    """The plan was cancelled before this range was carried."""


def cut_short(path: str, at: int) -> SluiceError:
    return SluiceError(f"{path} ended at {at}, before all that its header told of: the file was cut while it was read.")


def plan_of(threads: int = THREADS, slice_size: int = SLICE, write: bool = False) -> "Plan | NativePlan":
    """A plan, by the extension where it is there."""
    return (Plan if native is None else NativePlan)(threads, slice_size, write)


def write_ranges(file: OpenFile, size: int, ranges: "Iterable[tuple[int, int, int]]", threads: int = THREADS) -> None:
    """Makes the file that long, and writes (offset, size, pointer) for each range; returns when all are written."""
    os.ftruncate(file.descriptor, size)
    plan = plan_of(threads, write=True).start()
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


class LibraryPlan:
    """A plan whose ranges the library carries (`sluice.Plan`): some calls for all of them, whatever their number.

    Ranges that are added go together when there is so much of them that a submission is worth it, or when one waits.
    """

    PORTION = 256 * MIB

    def __init__(self, at_a_time: int = 0, write: bool = False) -> None:
        self._at_a_time = at_a_time
        self._write = write
        self._portions: "list[tuple[int, Any]]" = []  # how many ranges there are up to its end, and the plan
        self._filling: "Any | None" = None
        self._filling_bytes = 0
        self._count = 0
        self._waited = 0  # so many portions are in place
        self._cancelled = False
        self.bytes = 0

    def add(self, file: OpenFile, offset: int, size: int, pointer: int) -> int:
        """One more range; its number."""
        from ._plan import Plan as Submitted

        if self._filling is None:
            self._filling = Submitted(write=self._write, at_a_time=self._at_a_time)
        self._filling.add_range(file, pointer, size, offset)
        self._count += 1
        self._filling_bytes += size
        self.bytes += size
        if self._filling_bytes >= self.PORTION:
            self._submit()
        return self._count - 1

    def start(self) -> "LibraryPlan":
        return self

    def _submit(self) -> None:
        if self._filling is not None and not self._cancelled:
            self._filling.submit()
            self._portions.append((self._count, self._filling))
            self._filling, self._filling_bytes = None, 0

    def seal(self) -> None:
        """No range comes any more."""
        self._submit()

    def wait(self, first: "int | None" = None) -> None:
        """Returns once the first ranges, or all, are in place. Raises what kept one of them from it."""
        wanted = self._count if first is None else first
        if self._filling is not None and wanted > (self._portions[-1][0] if self._portions else 0):
            self._submit()
        for end, plan in self._portions[self._waited:]:
            begin = end - len(plan)
            if wanted <= begin:
                return
            plan.wait(min(wanted, end) - begin)
            if wanted >= end:
                self._waited += 1
        if self._cancelled and wanted > (self._portions[-1][0] if self._portions else 0):
            raise Cancelled(CANCELLED)

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


class NativePlan:
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

    def start(self) -> "NativePlan":
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
            return Cancelled(CANCELLED)
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


class Plan:
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

    def start(self) -> "Plan":
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
        self._fail(Cancelled(CANCELLED))

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
