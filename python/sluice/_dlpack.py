# SPDX-License-Identifier: Apache-2.0
"""DLPack by ctypes: capsules that hand our memory to other packages, and pointers out of theirs.

A capsule's deleter is called by its consumer, on any thread, at any time. Ours takes Python's lock by itself; at
the end of the process, when there is no Python any more, the deleters still out there are exchanged for C's free().
"""

from __future__ import annotations

import atexit
import ctypes
from ctypes import POINTER, c_char_p, c_int32, c_int64, c_size_t, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p

KDL_CPU, KDL_CUDA, KDL_CUDA_HOST, KDL_CUDA_MANAGED = 1, 2, 3, 13
MAX_RANK = 64


class Device(ctypes.Structure):
    _fields_ = [("kind", c_int32), ("number", c_int32)]


class DataType(ctypes.Structure):
    _fields_ = [("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16)]


class Tensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = [("data", c_void_p), ("device", Device), ("rank", c_int32), ("dtype", DataType),
                ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)), ("byte_offset", c_uint64)]


class Managed(ctypes.Structure):
    """DLManagedTensor, as consumers before version 1.0 know it."""

    _fields_ = [("tensor", Tensor), ("context", c_void_p), ("deleter", c_void_p)]


class ManagedVersioned(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = [("major", c_uint32), ("minor", c_uint32), ("context", c_void_p), ("deleter", c_void_p),
                ("flags", c_uint64), ("tensor", Tensor)]


_python = ctypes.pythonapi
_python.PyCapsule_New.restype = ctypes.py_object
_python.PyCapsule_New.argtypes = [c_void_p, c_char_p, c_void_p]
_python.PyCapsule_IsValid.argtypes = [ctypes.py_object, c_char_p]
_python.PyCapsule_GetPointer.restype = c_void_p
_python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, c_char_p]
# In its destructor a capsule must not be counted as an object again, so it is an address there.
_dying = ctypes.PyDLL(None)
_dying.PyCapsule_IsValid.argtypes = [c_void_p, c_char_p]
_dying.PyCapsule_GetPointer.restype = c_void_p
_dying.PyCapsule_GetPointer.argtypes = [c_void_p, c_char_p]
_c = ctypes.CDLL(None)
_c.malloc.restype = c_void_p
_c.malloc.argtypes = [c_size_t]
_c.free.argtypes = [c_void_p]
_FREE = ctypes.cast(_c.free, c_void_p).value

NAME, NAME_VERSIONED = b"dltensor", b"dltensor_versioned"

# Address of a managed tensor that is out: what keeps its memory alive, and where its deleter stands.
_out: "dict[int, tuple[object, int]]" = {}


@ctypes.CFUNCTYPE(None, c_void_p)
def _delete(address: int) -> None:
    _out.pop(address, None)
    _c.free(address)


_DELETE = ctypes.cast(_delete, c_void_p).value


@ctypes.CFUNCTYPE(None, c_void_p)
def _drop_capsule(dying: int) -> None:
    """A capsule that was not consumed dies: its tensor with it. Consumers rename the capsule."""
    for name in (NAME, NAME_VERSIONED):
        if _dying.PyCapsule_IsValid(dying, name):
            _delete(_dying.PyCapsule_GetPointer(dying, name))


def _leave_to_c() -> None:
    for address, (_, deleter_at) in list(_out.items()):
        c_void_p.from_address(address + deleter_at).value = _FREE


atexit.register(_leave_to_c)


def capsule(pointer: int, shape: "tuple[int, ...]", dtype: "tuple[int, int, int]", device: "tuple[int, int]",
            keep: object, versioned: bool) -> object:
    """A capsule of contiguous memory, with `keep` kept alive until the consumer has done with it."""
    kind = ManagedVersioned if versioned else Managed
    rank = len(shape)
    head = ctypes.sizeof(kind)
    address = _c.malloc(head + 16 * rank)
    if not address:
        raise MemoryError("no memory for a DLPack capsule")
    managed = kind.from_address(address)
    numbers = (c_int64 * (2 * rank)).from_address(address + head)
    stride = 1
    for axis in range(rank - 1, -1, -1):
        numbers[axis] = shape[axis]
        numbers[rank + axis] = stride
        stride *= max(shape[axis], 1)
    managed.context = None
    managed.deleter = _DELETE
    if versioned:
        managed.major, managed.minor, managed.flags = 1, 0, 0
    tensor = managed.tensor
    tensor.data = pointer
    tensor.device = Device(*device)
    tensor.rank = rank
    tensor.dtype = DataType(*dtype)
    tensor.shape = ctypes.cast(address + head, POINTER(c_int64))
    tensor.strides = ctypes.cast(address + head + 8 * rank, POINTER(c_int64))
    tensor.byte_offset = 0
    _out[address] = (keep, kind.deleter.offset)
    return _python.PyCapsule_New(address, NAME_VERSIONED if versioned else NAME,
                                 ctypes.cast(_drop_capsule, c_void_p))


class Taken:
    """Memory of another library's capsule: `pointer`, `size`, `device` ((kind, number)). Alive as long as this is."""

    def __init__(self, given: object) -> None:
        versioned = bool(_python.PyCapsule_IsValid(given, NAME_VERSIONED))
        if not versioned and not _python.PyCapsule_IsValid(given, NAME):
            raise BufferError("This is no DLPack capsule, or one that was used before.")
        address = _python.PyCapsule_GetPointer(given, NAME_VERSIONED if versioned else NAME)
        managed = (ManagedVersioned if versioned else Managed).from_address(address)
        tensor = managed.tensor
        rank, count, stride = tensor.rank, 1, 1
        contiguous = True
        for axis in range(rank - 1, -1, -1):
            extent = tensor.shape[axis]
            if tensor.strides and extent > 1 and tensor.strides[axis] != stride:
                contiguous = False
            stride *= extent
            count *= extent
        if not contiguous and count:
            raise BufferError("The array is not contiguous: make it so, by numpy.ascontiguousarray() or .contiguous().")
        self.pointer = (tensor.data or 0) + tensor.byte_offset
        self.size = (count * tensor.dtype.bits * tensor.dtype.lanes + 7) // 8
        self.device = (tensor.device.kind, tensor.device.number)
        self._keep = given
