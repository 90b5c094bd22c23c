# SPDX-License-Identifier: Apache-2.0
"""The module `cufile` in the shape that LMCache imports: a driver object, and files read into raw addresses.

`sluice.install()` offers it as `cufile` where no package of that name is installed.
"""

from __future__ import annotations

import ctypes
import os

from .. import _library
from .._open_file import OpenFile, flags_of, transfer
from . import bindings

__all__ = ["CuFile", "CuFileDriver", "bindings"]


class CuFileDriver:
    """Opens the driver, and closes it when the last object goes."""

    def __init__(self) -> None:
        self._open = False
        there = _library.library()
        there.check(there.calls.cuFileDriverOpen(), "opening the driver")
        self._open = True

    def close(self) -> None:
        if self._open:
            self._open = False
            _library.library().calls.cuFileDriverClose_v2()

    def __del__(self) -> None:
        self.close()


class CuFile:
    """An open file. read() and write() take an address, a size, and where in the file and the memory."""

    def __init__(self, path: "str | os.PathLike[str]", mode: str = "r", use_direct_io: bool = False) -> None:
        self._path, self._flags, self._direct = os.fspath(path), flags_of(mode), use_direct_io
        self._file: "OpenFile | None" = None

    def open(self) -> None:
        if self._file is None:
            self._file = OpenFile(self._path, self._flags, self._direct)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> "CuFile":
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    @property
    def is_open(self) -> bool:
        return self._file is not None

    def get_handle(self) -> "int | None":
        """The cuFile handle of the open file."""
        return self._file.handle.value if self._file is not None and self._file.handle is not None else None

    def read(self, dest: "ctypes.c_void_p | int", size: int, file_offset: int = 0, dev_offset: int = 0) -> int:
        """Reads into device or host memory at an address; the count."""
        return self._move(dest, size, file_offset, dev_offset, False)

    def write(self, src: "ctypes.c_void_p | int", size: int, file_offset: int = 0, dev_offset: int = 0) -> int:
        """Writes out of memory at an address; the count."""
        return self._move(src, size, file_offset, dev_offset, True)

    def _move(self, place: "ctypes.c_void_p | int", size: int, file_offset: int, dev_offset: int, write: bool) -> int:
        if self._file is None:
            raise OSError("CuFile is not open: use it as a context manager, or call open()")
        pointer = bindings.address(place) + dev_offset
        return transfer(self._file, pointer, size, file_offset, write)
