# SPDX-License-Identifier: Apache-2.0
"""Files read and written into any array, at once or in the background: `sluice.File`, in the shape of kvikio.CuFile."""

from __future__ import annotations

import asyncio
import concurrent.futures
import ctypes
import os
import threading
from typing import Any, Callable, Generator

from . import _abi, _cuda, _library
from ._buffers import View, sized, view_of, wait_for_owner
from ._cuda import stream_address
from ._errors import io_error
from ._open_file import OpenFile, flags_of, transfer

_lock = threading.Lock()
_pool: "concurrent.futures.ThreadPoolExecutor | None" = None


def _workers() -> concurrent.futures.ThreadPoolExecutor:
    """Threads for what is asked to happen in the background; made with the first request."""
    global _pool
    with _lock:
        if _pool is None:
            _pool = concurrent.futures.ThreadPoolExecutor(min(16, (os.cpu_count() or 1) + 4), "sluice-file")
        return _pool


def _forget_pool() -> None:
    """A child of fork() has none of its parent's threads."""
    global _pool, _lock
    _pool, _lock = None, threading.Lock()


os.register_at_fork(after_in_child=_forget_pool)


class Future:
    """The bytes of one transfer, once they are in place: `.get()`, `.result(timeout)`, `.done()`, or `await` it."""

    __slots__ = ("_inner",)

    def __init__(self, inner: "concurrent.futures.Future[int]") -> None:
        self._inner = inner

    def get(self) -> int:
        """Waits; the count of bytes. Raises what went wrong."""
        return self._inner.result()

    def result(self, timeout: "float | None" = None) -> int:
        """As get(), for so many seconds at most (concurrent.futures.TimeoutError)."""
        return self._inner.result(timeout)

    def exception(self, timeout: "float | None" = None) -> "BaseException | None":
        return self._inner.exception(timeout)

    def done(self) -> bool:
        return self._inner.done()

    def add_done_callback(self, call: "Callable[[Future], None]") -> None:
        self._inner.add_done_callback(lambda _: call(self))

    def __await__(self) -> "Generator[Any, None, int]":
        return asyncio.wrap_future(self._inner).__await__()


class StreamFuture:
    """A transfer in the order of a stream. `check_bytes_done()` waits for the stream and tells the count."""

    def __init__(self, file: OpenFile, view: View, stream: int, numbers: "tuple[int, int, int]") -> None:
        size, offset, place = numbers
        self._keep = (file, view)
        self._stream = stream
        self._size, self._done = ctypes.c_size_t(size), ctypes.c_ssize_t(0)
        self._offset, self._place = ctypes.c_int64(offset), ctypes.c_int64(place)
        self._checked = False

    def pointers(self) -> "tuple[Any, ...]":
        return tuple(ctypes.byref(one) for one in (self._size, self._offset, self._place, self._done))

    def check_bytes_done(self) -> int:
        if not self._checked:
            with _cuda.current(max(self._keep[1].device, 0)) as there:
                there.call("cuStreamSynchronize", self._stream)
            self._checked = True
        if self._done.value < 0:
            raise io_error("a transfer in a stream", -self._done.value, self._keep[0].path)
        return self._done.value

    get = check_bytes_done

    def __del__(self) -> None:
        # The stream writes into this object: it must not go before the stream has passed.
        if not getattr(self, "_checked", True):
            try:
                self.check_bytes_done()
            except Exception:  # noqa: B902 - there is no caller to tell
                pass


class File:
    """An open file for transfers to and from arrays: on a GPU or in host memory, of any package.

        with sluice.File("data.bin") as file:
            count = file.read(array)                         # as many bytes as the array has
            future = file.pread(other, file_offset=4096)     # in the background
            future.get()

    flags: "r", "r+", "w", "w+", "a", "a+". `direct` opens the file with O_DIRECT: past the page cache. Sizes and offsets
    need no alignment either way.
    """

    def __init__(self, path: "str | os.PathLike[str]", flags: str = "r", direct: bool = False) -> None:
        self._flags = flags_of(flags)
        self._open: "OpenFile | None" = OpenFile(path, self._flags, direct)
        self._busy = 0
        self._idle = threading.Condition()

    def _file(self) -> OpenFile:
        if self._open is None:
            raise ValueError("the file is closed")
        return self._open

    def fileno(self) -> int:
        return self._file().descriptor

    @property
    def closed(self) -> bool:
        return self._open is None

    def open_flags(self) -> int:
        return self._flags | (os.O_DIRECT if self._file().direct else 0)

    def close(self) -> None:
        """Waits for what is on its way in the background, then closes."""
        with self._idle:
            self._idle.wait_for(lambda: self._busy == 0)
            file, self._open = self._open, None
        if file is not None:
            file.close()

    def __enter__(self) -> "File":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, buf: object, size: "int | None" = None, file_offset: int = 0, dev_offset: int = 0) -> int:
        """Reads into the memory of `buf`, from its byte `dev_offset` on; the count, short only at the file's end."""
        return self._now(buf, size, file_offset, dev_offset, False)

    def write(self, buf: object, size: "int | None" = None, file_offset: int = 0, dev_offset: int = 0) -> int:
        """Writes out of the memory of `buf`; the count."""
        return self._now(buf, size, file_offset, dev_offset, True)

    raw_read, raw_write = read, write

    def pread(self, buf: object, size: "int | None" = None, file_offset: int = 0, task_size: "int | None" = None,
              dev_offset: int = 0) -> Future:
        """As read(), in the background. `task_size` is accepted; the library divides a request by itself."""
        return self._later(buf, size, file_offset, dev_offset, False)

    def pwrite(self, buf: object, size: "int | None" = None, file_offset: int = 0, task_size: "int | None" = None,
               dev_offset: int = 0) -> Future:
        """As write(), in the background."""
        return self._later(buf, size, file_offset, dev_offset, True)

    def raw_read_async(self, buf: object, stream: object, size: "int | None" = None, file_offset: int = 0,
                       dev_offset: int = 0) -> StreamFuture:
        """Reads when a stream gets there. `stream`: its address, or an object of PyTorch, CuPy or Numba."""
        return self._in_stream("cuFileReadAsync", buf, stream, size, file_offset, dev_offset, True)

    def raw_write_async(self, buf: object, stream: object, size: "int | None" = None, file_offset: int = 0,
                        dev_offset: int = 0) -> StreamFuture:
        """Writes when a stream gets there, what is in memory then."""
        return self._in_stream("cuFileWriteAsync", buf, stream, size, file_offset, dev_offset, False)

    def _now(self, buf: object, size: "int | None", offset: int, place: int, write: bool) -> int:
        view = view_of(buf, not write)
        wait_for_owner(view)
        return transfer(self._file(), view.pointer + place, sized(view, size, place), offset, write)

    def _later(self, buf: object, size: "int | None", offset: int, place: int, write: bool) -> Future:
        view = view_of(buf, not write)
        size = sized(view, size, place)
        wait_for_owner(view)
        with self._idle:
            file = self._file()
            self._busy += 1
        try:
            inner = _workers().submit(self._carry, file, view, size, offset, place, write)
        except BaseException:
            self._leave()
            raise
        return Future(inner)

    def _carry(self, file: OpenFile, view: View, size: int, offset: int, place: int, write: bool) -> int:
        try:
            return transfer(file, view.pointer + place, size, offset, write)
        finally:
            self._leave()

    def _leave(self) -> None:
        with self._idle:
            self._busy -= 1
            self._idle.notify_all()

    def _in_stream(self, name: str, buf: object, stream: object, size: "int | None", offset: int, place: int,
                   into_memory: bool) -> StreamFuture:
        view = view_of(buf, into_memory)
        file, there, handle = self._file(), _library.library(), stream_address(stream)
        future = StreamFuture(file, view, handle, (sized(view, size, place), offset, place))
        error = getattr(there.calls, name)(file.handle, view.pointer, *future.pointers(), handle)
        if error.err != _abi.SUCCESS:
            future._checked = True
        there.check(error, "a transfer in a stream", file.path)
        return future


def memory_register(buf: object) -> None:
    """Registers the memory of an array with the library: transfers to it need less work. Optional."""
    view = view_of(buf)
    there = _library.library()
    there.check(there.calls.cuFileBufRegister(view.pointer, view.size, 0), "registering memory")


def memory_deregister(buf: object) -> None:
    """Takes a registration back."""
    there = _library.library()
    there.check(there.calls.cuFileBufDeregister(view_of(buf).pointer), "deregistering memory")


def stream_register(stream: object, flags: int = 0) -> None:
    """Prepares a stream for transfers in its order. Optional."""
    there = _library.library()
    there.check(there.calls.cuFileStreamRegister(stream_address(stream), flags), "registering a stream")


def stream_deregister(stream: object) -> None:
    there = _library.library()
    there.check(there.calls.cuFileStreamDeregister(stream_address(stream)), "deregistering a stream")
