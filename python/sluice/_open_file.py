# SPDX-License-Identifier: Apache-2.0
"""A file that is registered with the library, and one transfer of it by `cuFileRead` or `cuFileWrite`."""

from __future__ import annotations

import ctypes
import os

from . import _abi, _library
from ._errors import io_error
from ._fast import native

# As open() in Python names them.
MODES = {"r": os.O_RDONLY, "r+": os.O_RDWR, "w": os.O_WRONLY | os.O_CREAT | os.O_TRUNC,
         "w+": os.O_RDWR | os.O_CREAT | os.O_TRUNC, "a": os.O_WRONLY | os.O_CREAT, "a+": os.O_RDWR | os.O_CREAT}


def flags_of(mode: str) -> int:
    """What open() of the system is given. ValueError names the modes that there are."""
    if mode not in MODES:
        raise ValueError(f"{mode!r} is no mode: say one of {', '.join(MODES)}")
    return MODES[mode]


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
