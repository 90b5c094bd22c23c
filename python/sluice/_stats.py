# SPDX-License-Identifier: Apache-2.0
"""What this process has moved: counters of the library, and of what loaders move beside it."""

from __future__ import annotations

from ctypes import byref, c_size_t

from . import _abi, _library
from ._abi import text_of
from ._errors import SluiceError
from ._staged import carried


def stats() -> "dict[str, object]":
    """What this process has moved so far, by path and reason; and what loaders have moved beside the library, through
    pinned windows and the copy engine (`staged`)."""
    there = _library.library()
    if not there.is_sluice:
        raise SluiceError(f"{there.path} is not Sluice's library and keeps no such counters.")
    count = c_size_t()
    counters = (_abi.PathCounter * 256)()
    there.check(there.calls.sluice_path_counters(counters, 256, byref(count)), "reading the counters")
    rows = [{"path": text_of(there.calls.sluice_path_name(one.path)),
             "reason": text_of(there.calls.sluice_reason_name(one.reason)), "reads": one.reads,
             "read_bytes": one.read_bytes, "writes": one.writes, "written_bytes": one.written_bytes,
             "errors": one.errors} for one in counters[:min(count.value, 256)]]
    return {"paths": rows, "staged": carried(), **{what: sum(row[what] for row in rows)
                              for what in ("reads", "read_bytes", "writes", "written_bytes", "errors")}}
