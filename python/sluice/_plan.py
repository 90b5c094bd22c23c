# SPDX-License-Identifier: Apache-2.0
"""Many ranges of many files, each with a place of its own, as one object: `sluice.Plan`, over `sluice_plan_*`."""

from __future__ import annotations

import asyncio
import ctypes
import operator
import os
from array import array
from itertools import chain
from typing import Any, Generator, NamedTuple

from . import _abi, _library
from ._abi import text_of
from ._buffers import View, sized, view_of, wait_for_owner
from ._cuda import stream_address
from ._errors import SluiceError, io_error
from ._explain import Explanation
from ._file import File

STATES = ("waiting", "done", "failed", "cancelled")
PLAN_STATES = ("made", "running", "ended")
MAX_OFFSET = 1 << 63


class ItemResult(NamedTuple):
    """What came of one item: "waiting", "done", "failed" or "cancelled"; the bytes in place; an errno or a cuFile code."""

    state: str
    bytes: int
    error: int
    path: str
    reason: str


class PlanProgress(NamedTuple):
    """How far a plan is. `items_in_front`: so many of the first items have all ended."""

    state: str
    items: int
    items_ended: int
    items_in_front: int
    items_failed: int
    items_cancelled: int
    bytes: int
    bytes_in_place: int


class Plan:
    """Ranges of files to be read into arrays, or written out of them, all in one go.

        with sluice.File("weights") as file, sluice.Plan() as plan:
            for array, offset in wanted:
                plan.add(file, array, file_offset=offset)
            plan.submit()                # returns at once
            plan.wait(1)                 # the first one is in place
            plan.wait()                  # all are; raises what kept one from it

    Arrays may be on any device or in host memory, of any package. Files and arrays are kept until the plan is closed, and
    closing waits until nothing of it touches memory. `write` makes a plan that writes; with `for_streams` streams may
    wait for it. In a coroutine, `await plan` waits for all.
    """

    def __init__(self, write: bool = False, for_streams: bool = False, at_a_time: int = 0) -> None:
        self._there = _library.library()
        if not self._there.is_sluice:
            raise SluiceError(f"{self._there.path} has no plans: they are Sluice's own")
        self._write = write
        self._options = _abi.PlanOptions(ctypes.sizeof(_abi.PlanOptions), _abi.WRITE if write else _abi.READ,
                                         _abi.PLAN_FOR_STREAMS if for_streams else 0, at_a_time)
        self._ranges: "list[tuple[int, int, int, int]]" = []  # as in sluice_range_t
        self._files: "list[Any]" = []  # of each range
        self._views: "list[View]" = []
        self._plan: "ctypes.c_void_p | None" = None
        self._closed = False
        self._sound = 0  # so many of the first are known to be in place

    def __len__(self) -> int:
        return len(self._ranges)

    def add(self, file: File, buf: object, size: "int | None" = None, file_offset: int = 0, dev_offset: int = 0) -> int:
        """One more range: `size` bytes of `buf` from its byte `dev_offset` on; its number. Before submit()."""
        view = view_of(buf, not self._write)
        size = sized(view, size, dev_offset)
        opened = file._file()
        self._require_unsubmitted()
        if not -MAX_OFFSET <= operator.index(file_offset) < MAX_OFFSET:
            raise OverflowError(f"{file_offset} is no place in a file")
        wait_for_owner(view)
        self._views.append(view)
        return self.add_range(opened, view.pointer + dev_offset, size, file_offset)

    def add_range(self, file: Any, pointer: int, size: int, file_offset: int) -> int:
        """The same by an address, whose memory the caller keeps."""
        if self._plan is not None or self._closed:
            self._require_unsubmitted()
        self._files.append(file)
        # An empty array of bytes has no address; nothing of it is touched.
        self._ranges.append((file.handle.value, file_offset, pointer or 1, size))
        return len(self._ranges) - 1

    def _require_unsubmitted(self) -> None:
        if self._plan is not None or self._closed:
            raise ValueError("the plan was submitted or closed: make another one")

    def submit(self) -> "Plan":
        """Begins, and returns at once."""
        self._require_unsubmitted()
        calls, count = self._there.calls, len(self)
        ranges = (_abi.Range * count).from_buffer(array("q", chain.from_iterable(self._ranges)))
        plan = ctypes.c_void_p()
        self._there.check(calls.sluice_plan_create(ranges, count, self._options, ctypes.byref(plan)), "making a plan")
        error = calls.sluice_plan_submit(plan)
        if error.err != _abi.SUCCESS:
            detail = self._there.last_error()
            calls.sluice_plan_destroy(plan)
            raise io_error("submitting a plan", error.err, None, detail)
        self._plan = plan
        return self

    def _submitted(self) -> ctypes.c_void_p:
        if self._plan is None:
            raise ValueError("the plan is closed" if self._closed else "the plan was not submitted")
        return self._plan

    def wait(self, first: "int | None" = None, timeout: "float | None" = None) -> None:
        """Returns once the first ranges, or all, are in place. Raises what kept one of them from it, or TimeoutError."""
        plan, wanted = self._submitted(), len(self) if first is None else first
        ended = self._there.calls.sluice_plan_wait(plan, wanted, _timespec(timeout))
        if ended < 0:
            raise SluiceError(self._there.last_error())
        self.raise_failure(ended)
        if ended < wanted:
            raise TimeoutError(f"{ended} of the first {wanted} ranges were in place after {timeout} s")

    def wait_item(self, number: int, timeout: "float | None" = None) -> ItemResult:
        """Waits for one range, and tells what came of it. Raises TimeoutError."""
        ended = self._there.calls.sluice_plan_wait_item(self._submitted(), number, _timespec(timeout))
        if ended < 0:
            raise SluiceError(self._there.last_error())
        if ended == 0:
            raise TimeoutError(f"range {number} was not in place after {timeout} s")
        return self.results(number, 1)[0]

    def wait_in_stream(self, stream: object, first: "int | None" = None) -> None:
        """What is put into the stream from now on waits for the first ranges, or all; the caller does not."""
        wanted = len(self) if first is None else first
        error = self._there.calls.sluice_plan_wait_in_stream(self._submitted(), wanted, stream_address(stream))
        self._there.check(error, "having a stream wait for a plan")

    def fileno(self) -> int:
        """A descriptor that is readable when ranges have ended: for select, poll and event loops."""
        found = self._there.calls.sluice_plan_eventfd(self._submitted())
        if found < 0:
            raise SluiceError(self._there.last_error())
        return found

    def cancel(self) -> None:
        """Ends what has not been begun, and returns at once; close() waits for the rest."""
        self._there.check(self._there.calls.sluice_plan_cancel(self._submitted()), "cancelling a plan")

    def progress(self) -> PlanProgress:
        counts = _abi.PlanCounts(ctypes.sizeof(_abi.PlanCounts))
        self._there.check(self._there.calls.sluice_plan_progress(self._submitted(), counts), "asking a plan")
        return PlanProgress(PLAN_STATES[counts.state], counts.items, counts.items_ended, counts.items_in_front,
                            counts.items_failed, counts.items_cancelled, counts.bytes, counts.bytes_in_place)

    def _results(self, first: int, count: int) -> "ctypes.Array[_abi.ItemResult]":
        results = (_abi.ItemResult * max(count, 1))()
        self._there.check(self._there.calls.sluice_plan_results(self._submitted(), first, count, results), "asking a plan")
        return results

    def results(self, first: int = 0, count: "int | None" = None) -> "list[ItemResult]":
        """What has come so far of `count` ranges, or all, from number `first` on."""
        count = len(self) - first if count is None else count
        name, why = self._there.calls.sluice_path_name, self._there.calls.sluice_reason_name
        return [ItemResult(STATES[one.state], one.bytes, one.error, text_of(name(one.path)), text_of(why(one.reason)))
                for one in self._results(first, count)[:count]]

    def raise_failure(self, first: "int | None" = None) -> None:
        """Raises what kept one of the first ranges, or of all, from its place; also a file that ended before."""
        count, so_far = len(self) if first is None else first, self.progress()
        begin, self._sound = self._sound, max(self._sound, count)
        if so_far.bytes_in_place == so_far.bytes and so_far.items_failed == so_far.items_cancelled == 0:
            return
        for number, one in enumerate(self._results(begin, max(count - begin, 0))[:max(count - begin, 0)], begin):
            _, at, _, size = self._ranges[number]
            if one.state != 1 or one.bytes < size:
                self._sound = min(self._sound, number)
            path = self._files[number].path
            if one.state == 2:
                raise io_error(f"{'writing' if self._write else 'reading'} range {number} of a plan", one.error, path)
            if one.state == 3:
                raise SluiceError(f"range {number} of the plan, of {path}, was cancelled before all of it was carried")
            if one.state == 1 and one.bytes < size:
                raise SluiceError(f"{path} ends at {at + one.bytes}: range {number} of the plan wants {size} bytes from {at} on")

    def explain(self, number: int) -> Explanation:
        """Which way a range goes, and why."""
        told = _abi.Explanation()
        self._there.check(self._there.calls.sluice_plan_explain(self._submitted(), number, told), "explaining a range")
        return Explanation(text_of(told.path_name), text_of(told.reason_name), text_of(told.sentence), text_of(told.remedy),
                           text_of(told.detail))

    def close(self) -> None:
        """Cancels what has not begun, waits until nothing of the plan touches memory, and ends it."""
        plan, self._plan, self._closed = self._plan, None, True
        if plan is not None:
            self._there.calls.sluice_plan_destroy(plan)
        self._files, self._views = [], []

    def __enter__(self) -> "Plan":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        # Memory of the plan must not go before it has ended.
        if getattr(self, "_plan", None) is not None:
            self.close()

    async def _arrival(self) -> None:
        loop, descriptor = asyncio.get_running_loop(), self.fileno()
        while self.progress().state != "ended":
            news = loop.create_future()
            loop.add_reader(descriptor, lambda: news.done() or news.set_result(None))
            try:
                await news
            finally:
                loop.remove_reader(descriptor)
            os.read(descriptor, 8)
        self.raise_failure()

    def __await__(self) -> "Generator[Any, None, None]":
        return self._arrival().__await__()


def _timespec(timeout: "float | None") -> "_abi.Timespec | None":
    if timeout is None:
        return None
    seconds = int(max(timeout, 0))
    return _abi.Timespec(seconds, int((max(timeout, 0) - seconds) * 1_000_000_000))
