# SPDX-License-Identifier: Apache-2.0
"""Which libcufile.so.0 this process uses, and how it is loaded.

One process works with one library: two would double threads, staging memory and statistics. So a copy of Sluice that is
in the process already (LD_PRELOAD by `sluice run`, a program linked with it) is used as it is; the one that the wheel
brings is loaded only when there is none. The loader serves every later request for the name `libcufile.so.0` by the
first library of that name, which `sluice.install()` rests on.
"""

from __future__ import annotations

import ctypes
import os
import pathlib
import threading

from . import _abi
from ._errors import SluiceError, io_error

NAME = "libcufile.so.0"
HERE = pathlib.Path(__file__).resolve().parent

_lock = threading.Lock()
_loaded: "Library | None" = None


def mapped_files(name: str) -> "list[str]":
    """The files called `name*` that are mapped into this process, in the order of the map."""
    found: "dict[str, None]" = {}
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        for line in maps:
            path = line.rstrip("\n").split(" ", 5)[-1].strip()
            if path.startswith("/") and os.path.basename(path).startswith(name):
                found[path] = None
    return list(found)


def candidates() -> "list[pathlib.Path]":
    """Where our library may lie, best first: SLUICE_LIBRARY, the wheel, a build folder of the repository."""
    named = os.environ.get("SLUICE_LIBRARY")
    if named:
        return [pathlib.Path(named)]
    return [HERE / "lib" / NAME, HERE.parent.parent / "build" / "release" / "lib" / NAME]


def _address(function: object) -> int:
    """Where a function of C is, for the extension, which calls it without ctypes."""
    return ctypes.cast(function, ctypes.c_void_p).value or 0  # type: ignore[arg-type]


class Library:
    """The loaded library: its functions, typed, twice over.

    `errno` of a transfer is read through `calls`, which keeps it for each thread.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self.calls = ctypes.CDLL(path, use_errno=True)
            _abi.bind(self.calls, _abi.CUFILE)
        except (OSError, AttributeError) as error:
            named = "Name Sluice's libcufile.so.0 in SLUICE_LIBRARY, or unset it" if os.environ.get("SLUICE_LIBRARY") else \
                "Install the wheel again, or name the file in SLUICE_LIBRARY"
            raise SluiceError(f"{path} cannot be loaded as libcufile.so.0 ({error}). {named}.") from error
        self.is_sluice = hasattr(self.calls, "sluice_version")
        if self.is_sluice:
            _abi.bind(self.calls, _abi.SLUICE)
        self.read_address = _address(self.calls.cuFileRead)
        self.write_address = _address(self.calls.cuFileWrite)
        self.error_address = _address(self.calls.sluice_last_error) if self.is_sluice else 0

    def version(self) -> str:
        return self.calls.sluice_version().decode() if self.is_sluice else "none"

    def last_error(self) -> str:
        """The cause of this thread's last failure, in a sentence."""
        return (self.calls.sluice_last_error() or b"").decode(errors="replace") if self.is_sluice else ""

    def check(self, error: _abi.Error, what: str, path: "str | None" = None) -> None:
        """Raises when a call returned an error."""
        if error.err == _abi.SUCCESS:
            return
        detail = self.last_error()
        if error.err == _abi.CUDA_DRIVER_ERROR:
            detail = f"{detail} (CUDA code {error.cu_err})".strip()
        raise io_error(what, error.err, path, detail)


def find() -> str:
    """The file to load, without loading it."""
    mapped = mapped_files("libcufile.so")
    for path in mapped:
        if hasattr(ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_NOW), "sluice_version"):
            return path
    for path in candidates():
        if path.exists():
            return str(path)
    looked = ", ".join(str(path) for path in candidates())
    raise SluiceError(f"Sluice's libcufile.so.0 was not found (looked at {looked}). Install the wheel again, or name the "
                      "file in SLUICE_LIBRARY.")


def library() -> Library:
    """The library, loaded with the first call."""
    global _loaded
    if _loaded is None:
        with _lock:
            if _loaded is None:
                _loaded = Library(find())
    return _loaded


def is_loaded() -> bool:
    return _loaded is not None
