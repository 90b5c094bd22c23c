# SPDX-License-Identifier: Apache-2.0
"""The C interface of libcufile.so.0, as ctypes sees it: types, prototypes, constants.

Nothing is loaded here; `bind()` gives a loaded library its prototypes.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_bool, c_char, c_char_p, c_int, c_int64, c_long, c_size_t, c_ssize_t, c_uint, c_uint64, c_void_p

READ, WRITE = 0, 1
SUCCESS = 0
CUFILE_BASE = 5000
CUDA_DRIVER_ERROR = 5011
ALREADY_REGISTERED = 5023
HANDLE_ALREADY_REGISTERED = 5028
HANDLE_TYPE_FD = 1

# Bits of a CUfileEvent's status.
COMPLETE, FAILED, CANCELED, INVALID, TIMEOUT = 0x10, 0x40, 0x08, 0x04, 0x20


class Error(ctypes.Structure):
    """CUfileError_t, which calls return by value."""

    _fields_ = [("err", c_int), ("cu_err", c_int)]


class Description(ctypes.Structure):
    """CUfileDescr_t with a descriptor."""

    _fields_ = [("type", c_int), ("fd", c_void_p), ("operations", c_void_p)]


class Parameters(ctypes.Structure):
    """CUfileIOParams_t: one entry of a batch."""

    _fields_ = [("mode", c_int), ("memory", c_void_p), ("file_offset", c_int64), ("memory_offset", c_int64),
                ("size", c_size_t), ("file", c_void_p), ("opcode", c_int), ("cookie", c_void_p)]


class Event(ctypes.Structure):
    """CUfileIOEvents_t: the end of one entry of a batch."""

    _fields_ = [("cookie", c_void_p), ("status", c_int), ("result", c_ssize_t)]


class Timespec(ctypes.Structure):
    _fields_ = [("seconds", c_long), ("nanoseconds", c_long)]


class Explanation(ctypes.Structure):
    """sluice_explanation_t."""

    _fields_ = [("path", c_int), ("reason", c_int), ("path_name", c_char_p), ("reason_name", c_char_p),
                ("sentence", c_char_p), ("remedy", c_char_p), ("detail", c_char * 256)]


class PathCounter(ctypes.Structure):
    """sluice_path_counter_t."""

    _fields_ = [("path", c_int), ("reason", c_int), ("reads", c_uint64), ("read_bytes", c_uint64),
                ("writes", c_uint64), ("written_bytes", c_uint64), ("errors", c_uint64)]


class Range(ctypes.Structure):
    """sluice_range_t: one item of a plan."""

    _fields_ = [("file", c_void_p), ("file_offset", c_int64), ("memory", c_void_p), ("size", c_size_t)]


class PlanOptions(ctypes.Structure):
    """sluice_plan_options_t."""

    _fields_ = [("size", c_size_t), ("opcode", c_int), ("flags", c_uint), ("at_a_time", c_uint)]


class PlanCounts(ctypes.Structure):
    """sluice_plan_counts_t."""

    _fields_ = [("size", c_size_t), ("state", c_int), ("items", c_size_t), ("items_ended", c_size_t),
                ("items_in_front", c_size_t), ("items_failed", c_size_t), ("items_cancelled", c_size_t),
                ("bytes", c_uint64), ("bytes_in_place", c_uint64)]


class ItemResult(ctypes.Structure):
    """sluice_item_result_t."""

    _fields_ = [("state", c_int), ("error", c_int), ("bytes", c_uint64), ("path", c_int), ("reason", c_int)]


PLAN_FOR_STREAMS = 1

ExplanationVisitor = ctypes.CFUNCTYPE(None, POINTER(Explanation), c_char_p, c_void_p)
NoteVisitor = ctypes.CFUNCTYPE(None, c_char_p, c_void_p)

# Name: (result, arguments).
CUFILE = {
    "cuFileDriverOpen": (Error, []),
    "cuFileDriverClose_v2": (Error, []),
    "cuFileUseCount": (c_long, []),
    "cuFileGetVersion": (Error, [POINTER(c_int)]),
    "cuFileHandleRegister": (Error, [POINTER(c_void_p), POINTER(Description)]),
    "cuFileHandleDeregister": (None, [c_void_p]),
    "cuFileBufRegister": (Error, [c_void_p, c_size_t, c_int]),
    "cuFileBufDeregister": (Error, [c_void_p]),
    "cuFileRead": (c_ssize_t, [c_void_p, c_void_p, c_size_t, c_int64, c_int64]),
    "cuFileWrite": (c_ssize_t, [c_void_p, c_void_p, c_size_t, c_int64, c_int64]),
    "cuFileBatchIOSetUp": (Error, [POINTER(c_void_p), c_uint]),
    "cuFileBatchIOSubmit": (Error, [c_void_p, c_uint, POINTER(Parameters), c_uint]),
    "cuFileBatchIOGetStatus": (Error, [c_void_p, c_uint, POINTER(c_uint), POINTER(Event), POINTER(Timespec)]),
    "cuFileBatchIODestroy": (None, [c_void_p]),
    "cuFileReadAsync": (Error, [c_void_p, c_void_p] + [c_void_p] * 4 + [c_void_p]),
    "cuFileWriteAsync": (Error, [c_void_p, c_void_p] + [c_void_p] * 4 + [c_void_p]),
    "cuFileStreamRegister": (Error, [c_void_p, c_uint]),
    "cuFileStreamDeregister": (Error, [c_void_p]),
    "cuFileGetParameterBool": (Error, [c_int, POINTER(c_bool)]),
}

SLUICE = {
    "sluice_version": (c_char_p, []),
    "sluice_last_error": (c_char_p, []),
    "sluice_path_name": (c_char_p, [c_int]),
    "sluice_reason_name": (c_char_p, [c_int]),
    "sluice_explain_all": (Error, [c_void_p, c_void_p, c_int, c_int, c_size_t, c_int64, ExplanationVisitor, c_void_p]),
    "sluice_path_counters": (Error, [POINTER(PathCounter), c_size_t, POINTER(c_size_t)]),
    "sluice_configuration_file": (Error, [c_char_p, c_size_t]),
    "sluice_configuration_notes": (Error, [NoteVisitor, c_void_p]),
    "sluice_plan_create": (Error, [POINTER(Range), c_size_t, POINTER(PlanOptions), POINTER(c_void_p)]),
    "sluice_plan_submit": (Error, [c_void_p]),
    "sluice_plan_wait": (c_long, [c_void_p, c_size_t, POINTER(Timespec)]),
    "sluice_plan_wait_item": (c_int, [c_void_p, c_size_t, POINTER(Timespec)]),
    "sluice_plan_wait_in_stream": (Error, [c_void_p, c_size_t, c_void_p]),
    "sluice_plan_eventfd": (c_int, [c_void_p]),
    "sluice_plan_cancel": (Error, [c_void_p]),
    "sluice_plan_progress": (Error, [c_void_p, POINTER(PlanCounts)]),
    "sluice_plan_results": (Error, [c_void_p, c_size_t, c_size_t, POINTER(ItemResult)]),
    "sluice_plan_explain": (Error, [c_void_p, c_size_t, POINTER(Explanation)]),
    "sluice_plan_destroy": (Error, [c_void_p]),
}


def text_of(value: "bytes | None") -> str:
    """A text of the library's, which may be none."""
    return (value or b"").decode(errors="replace")


def bind(library: ctypes.CDLL, table: dict) -> None:
    """Gives the functions of `library` that `table` names their prototypes. AttributeError where one is missing."""
    for name, (result, arguments) in table.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
