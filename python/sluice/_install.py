# SPDX-License-Identifier: Apache-2.0
"""Makes this process use Sluice's libcufile.so.0, also in packages that load one by themselves.

The loader serves a request for `libcufile.so.0` by the first library of that name in the process. So ours has to be
first: before `import torch`, before KvikIO, fastsafetensors, cuda-python.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys

from . import _library
from ._errors import SluiceError

HINT = ("call sluice.install() before importing torch, kvikio, cuda.bindings or fastsafetensors; or start the program by "
        "`python -m sluice run SCRIPT`")


class TooLate(SluiceError):
    """Another libcufile.so.0 is in the process already, and packages use it."""


def foreign_libraries() -> "list[str]":
    """Files named libcufile.so* in this process that are not Sluice's."""
    return [path for path in _library.mapped_files("libcufile.so")
            if not hasattr(ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_NOW), "sluice_version")]


def install(strict: bool = False) -> "_library.Library | None":
    """Loads Sluice's library first, so that packages imported later use it. Returns it.

    Where another libcufile is in the process already it is too late: this says so on stderr and returns None, and
    with `strict` it raises TooLate. Also makes `import cufile` (as LMCache does) ours where no such package is installed.
    """
    foreign = foreign_libraries()
    if foreign:
        text = f"sluice.install() comes too late: {', '.join(foreign)} is loaded already. Remedy: {HINT}."
        if strict:
            raise TooLate(text)
        print(f"sluice: {text}", file=sys.stderr)
        return None
    there = _library.library()
    _offer_cufile_module()
    return there


def _offer_cufile_module() -> None:
    if "cufile" in sys.modules or importlib.util.find_spec("cufile") is not None:
        return
    from . import cufile
    from .cufile import bindings

    sys.modules["cufile"] = cufile
    sys.modules["cufile.bindings"] = bindings
