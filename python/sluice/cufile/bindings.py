# SPDX-License-Identifier: Apache-2.0
"""The calls of `cufile.bindings` that LMCache makes, by address and size."""

from __future__ import annotations

import ctypes

from .. import _library


def address(place: "ctypes.c_void_p | int") -> int:
    """An address that is given as a number or as a c_void_p."""
    return int(getattr(place, "value", place) or 0)


def cuFileBufRegister(place: "ctypes.c_void_p | int", size: int, flags: int = 0) -> None:  # noqa: N802 - C's name
    """Registers memory; raises where the library refuses it."""
    there = _library.library()
    length = int(getattr(size, "value", size))
    there.check(there.calls.cuFileBufRegister(address(place), length, flags), "registering memory")


def cuFileBufDeregister(place: "ctypes.c_void_p | int") -> None:  # noqa: N802 - C's name
    """Takes a registration back."""
    there = _library.library()
    there.check(there.calls.cuFileBufDeregister(address(place)), "deregistering memory")


def cuFileDriverOpen() -> None:  # noqa: N802 - C's name
    there = _library.library()
    there.check(there.calls.cuFileDriverOpen(), "opening the driver")


def cuFileDriverClose() -> None:  # noqa: N802 - C's name
    there = _library.library()
    there.check(there.calls.cuFileDriverClose_v2(), "closing the driver")
