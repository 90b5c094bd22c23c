# SPDX-License-Identifier: Apache-2.0
"""Where the bytes of an array are: PyTorch, CuPy, Numba, JAX, numpy, bytearray, or an address.

Asked in this order: our own tensors, PyTorch's `data_ptr()`, `__cuda_array_interface__`, `__dlpack__`, the buffer
protocol. Arrays have to be contiguous.
"""

from __future__ import annotations

import ctypes
from typing import Any

from . import _cuda, _dlpack
from ._memory import CPU


LEGACY_STREAM = 1  # the driver's name for the default stream


class View:
    """`size` bytes at `pointer` on `device` (CPU for host memory), which stay alive as long as this does."""

    __slots__ = ("pointer", "size", "device", "keep", "stream")

    def __init__(self, pointer: int, size: int, device: int, keep: object, stream: "int | None" = None) -> None:
        self.pointer = pointer
        self.size = size
        self.device = device
        self.keep = keep
        self.stream = stream  # what is queued there for the array has to be done first


def view_of(array: Any, write: bool = False) -> View:
    """The bytes of an array; with `write` its memory has to be writable. TypeError, BufferError with a remedy."""
    if hasattr(array, "data_ptr"):
        return _of_torch(array)
    if getattr(array, "__cuda_array_interface__", None) is not None:
        return _of_interface(array, array.__cuda_array_interface__, write)
    try:
        return _of_buffer(array, write)
    except TypeError:
        pass
    if hasattr(array, "__dlpack__"):
        return _of_dlpack(array)
    raise TypeError(f"a {type(array).__name__} has no memory that can be found: it offers neither "
                    "__cuda_array_interface__ nor __dlpack__ nor the buffer protocol")


def sized(view: View, size: "int | None", place: int) -> int:
    """How many bytes go; never more than the array has."""
    room = view.size - place
    if place < 0 or room < 0:
        raise ValueError(f"dev_offset {place} lies outside of an array of {view.size} bytes")
    if size is None:
        return room
    if not 0 <= size <= room:
        raise ValueError(f"{size} bytes at {place} do not fit an array of {view.size}")
    return size


def wait_for_owner(view: View) -> None:
    """Waits for work that is queued for the array: on PyTorch's current stream, or on the one that the array names."""
    if view.stream and view.device != CPU:
        with _cuda.current(view.device) as there:
            there.call("cuStreamSynchronize", view.stream)


def _of_torch(array: Any) -> View:
    if not hasattr(array, "is_contiguous"):  # our own tensors are contiguous always
        return View(array.data_ptr(), array.nbytes, array._buffer.device, array)
    if not array.is_contiguous():
        raise BufferError("the tensor is not contiguous: use .contiguous(), or read into a new tensor and copy_() it")
    size = array.numel() * array.element_size()
    if array.device.type == "cpu":
        return View(array.data_ptr(), size, CPU, array)
    import torch

    device = array.device.index
    return View(array.data_ptr(), size, device, array, torch.cuda.current_stream(device).cuda_stream or LEGACY_STREAM)


def _of_interface(array: Any, about: dict, write: bool) -> View:
    pointer, read_only = about["data"]
    if read_only and write:
        raise BufferError("the array is read-only")
    shape, item = about["shape"], int(about["typestr"][2:])
    size = item
    for extent in shape:
        size *= extent
    strides, due = about.get("strides"), item
    if strides is not None and size:
        for extent, stride in zip(reversed(shape), reversed(strides)):
            if extent > 1 and stride != due:
                raise BufferError("the array is not contiguous: copy it into one that is")
            due *= extent
    device = _cuda.device_of(pointer) if pointer else CPU
    return View(pointer or 0, size, CPU if device is None else device, array, about.get("stream"))


def _of_buffer(array: Any, write: bool) -> View:
    view = memoryview(array)
    if not view.c_contiguous:
        raise BufferError("the array is not contiguous: use numpy.ascontiguousarray()")
    if write and view.readonly:
        raise BufferError(f"the memory of a {type(array).__name__} cannot be written: use a bytearray or a numpy array")
    if view.nbytes == 0:
        return View(0, 0, CPU, view)
    if view.readonly:
        return View(_address_of_read_only(view), view.nbytes, CPU, view)
    room = (ctypes.c_char * view.nbytes).from_buffer(view.cast("B") if view.format != "B" or view.ndim != 1 else view)
    return View(ctypes.addressof(room), view.nbytes, CPU, room)


class _Py_buffer(ctypes.Structure):  # noqa: N801 - C's name; its layout has never changed
    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.c_void_p), ("len", ctypes.c_ssize_t),
                ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int), ("ndim", ctypes.c_int),
                ("format", ctypes.c_char_p), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
                ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p)]


def _address_of_read_only(view: memoryview) -> int:
    """ctypes refuses memory that is read-only, so Python is asked directly; `view` keeps the memory where it is."""
    told = _Py_buffer()
    get, release = ctypes.pythonapi.PyObject_GetBuffer, ctypes.pythonapi.PyBuffer_Release
    if get(ctypes.py_object(view), ctypes.byref(told), ctypes.c_int(0)) != 0:
        raise BufferError("the memory cannot be found")
    address = told.buf
    release(ctypes.byref(told))
    return address


def _of_dlpack(array: Any) -> View:
    taken = _dlpack.Taken(array.__dlpack__())
    kind, number = taken.device
    if kind not in (_dlpack.KDL_CPU, _dlpack.KDL_CUDA, _dlpack.KDL_CUDA_HOST, _dlpack.KDL_CUDA_MANAGED):
        raise BufferError(f"the array is on a device of DLPack's kind {kind}: only CUDA and host memory are served")
    host = kind in (_dlpack.KDL_CPU, _dlpack.KDL_CUDA_HOST)
    # An exporter that is asked without a stream orders its work before the default stream.
    return View(taken.pointer, taken.size, CPU if host else number, taken, None if host else LEGACY_STREAM)
