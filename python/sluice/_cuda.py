# SPDX-License-Identifier: Apache-2.0
"""The CUDA driver, through ctypes: contexts, memory, copies, streams. No CUDA package is needed.

Every call here makes the device's primary context current for its own duration and puts back what was current.
PyTorch, CuPy and JAX use the same primary context, so memory from here is theirs to use.
"""

from __future__ import annotations

import ctypes
import os
import pathlib
import threading
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p

from . import _library
from ._errors import DeviceMemoryError, SluiceError

OUT_OF_MEMORY = 2
HOST_MEMORY, DEVICE_MEMORY = 1, 2
ATTRIBUTE_MEMORY_TYPE, ATTRIBUTE_IS_MANAGED, ATTRIBUTE_DEVICE_ORDINAL = 2, 8, 9
EVENT_NO_TIMING, EVENT_BLOCKING = 2, 1
STREAM_NON_BLOCKING = 1

CALLS = {
    "cuInit": [c_uint],
    "cuDriverGetVersion": [POINTER(c_int)],
    "cuDeviceGetCount": [POINTER(c_int)],
    "cuDeviceGet": [POINTER(c_int), c_int],
    "cuDeviceGetName": [c_char_p, c_int, c_int],
    "cuDevicePrimaryCtxRetain": [POINTER(c_void_p), c_int],
    "cuCtxPushCurrent_v2": [c_void_p],
    "cuCtxPopCurrent_v2": [POINTER(c_void_p)],
    "cuCtxSynchronize": [],
    "cuMemGetInfo_v2": [POINTER(c_size_t), POINTER(c_size_t)],
    "cuMemAlloc_v2": [POINTER(c_uint64), c_size_t],
    "cuMemFree_v2": [c_uint64],
    "cuMemAllocHost_v2": [POINTER(c_void_p), c_size_t],
    "cuMemHostRegister_v2": [c_void_p, c_size_t, c_uint],
    "cuMemHostUnregister": [c_void_p],
    "cuMemFreeHost": [c_void_p],
    "cuMemcpyHtoD_v2": [c_uint64, c_void_p, c_size_t],
    "cuMemcpyDtoH_v2": [c_void_p, c_uint64, c_size_t],
    "cuMemcpyHtoDAsync_v2": [c_uint64, c_void_p, c_size_t, c_void_p],
    "cuMemcpyDtoDAsync_v2": [c_uint64, c_uint64, c_size_t, c_void_p],
    "cuMemsetD8_v2": [c_uint64, ctypes.c_ubyte, c_size_t],
    "cuStreamCreate": [POINTER(c_void_p), c_uint],
    "cuStreamSynchronize": [c_void_p],
    "cuStreamWaitEvent": [c_void_p, c_void_p, c_uint],
    "cuStreamDestroy_v2": [c_void_p],
    "cuEventCreate": [POINTER(c_void_p), c_uint],
    "cuEventRecord": [c_void_p, c_void_p],
    "cuEventQuery": [c_void_p],
    "cuEventSynchronize": [c_void_p],
    "cuEventElapsedTime": [POINTER(ctypes.c_float), c_void_p, c_void_p],
    "cuEventDestroy_v2": [c_void_p],
    "cuPointerGetAttribute": [c_void_p, c_int, c_uint64],
}

_lock = threading.Lock()
_driver: "Driver | None" = None


def _soft_gpu() -> "str | None":
    """The soft GPU beside the library: below it or in its folder when installed, beside that in a build folder."""
    folder = pathlib.Path(_library.library().path).resolve().parent
    for path in (folder / "sluice/softgpu/libcuda.so.1", folder / "softgpu/libcuda.so.1", folder.parent / "softgpu/libcuda.so.1"):
        if path.exists():
            return str(path)
    return None


class Driver:
    """The loaded driver: `call(name, ...)` raises on an error, `contexts` holds what was retained."""

    def __init__(self) -> None:
        if os.environ.get("SLUICE_SOFTGPU") == "1" and not _library.mapped_files("libcuda.so"):
            soft = _soft_gpu()
            if soft is not None:
                ctypes.CDLL(soft)  # under its soname it then serves every request for libcuda.so.1
        try:
            self.functions = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise SluiceError("There is no CUDA driver here (libcuda.so.1). Host memory works (device=\"cpu\"); the soft "
                              "GPU stands in for a device: SLUICE_SOFTGPU=1.") from error
        for name, arguments in CALLS.items():
            function = getattr(self.functions, name)
            function.argtypes = arguments
            function.restype = c_int
        self.is_soft = hasattr(self.functions, "cuSluiceSoftGpuVersion")
        self.contexts: "dict[int, c_void_p]" = {}
        self.call("cuInit", 0)

    def call(self, name: str, *arguments: object) -> None:
        code = getattr(self.functions, name)(*arguments)
        if code != 0:
            raise SluiceError(f"{name} failed with CUDA code {code}", code)

    def address(self, name: str) -> int:
        """Where a call is, for the extension."""
        return ctypes.cast(getattr(self.functions, name), c_void_p).value or 0

    def count(self) -> int:
        number = c_int()
        self.call("cuDeviceGetCount", byref(number))
        return number.value

    def context(self, device: int) -> c_void_p:
        """The primary context of one device; others are not touched."""
        known = self.contexts.get(device)
        if known is not None:
            return known
        with _lock:
            if device not in self.contexts:
                handle, context = c_int(), c_void_p()
                count = self.count()
                if not 0 <= device < count:
                    raise SluiceError(f"There is no CUDA device {device}: this process sees {count}.")
                self.call("cuDeviceGet", byref(handle), device)
                self.call("cuDevicePrimaryCtxRetain", byref(context), handle)
                self.contexts[device] = context
        return self.contexts[device]


class current:  # noqa: N801 - used as `with current(device):`
    """Makes a device's primary context current within the block."""

    __slots__ = ("device",)

    def __init__(self, device: int) -> None:
        self.device = device

    def __enter__(self) -> Driver:
        there = driver()
        there.call("cuCtxPushCurrent_v2", there.context(self.device))
        return there

    def __exit__(self, *_: object) -> None:
        was = c_void_p()
        driver().functions.cuCtxPopCurrent_v2(byref(was))


def driver() -> Driver:
    """The driver, loaded with the first call."""
    global _driver
    if _driver is None:
        # Driver() loads the library, which has a lock of its own; two at once would only do the same twice.
        made = Driver()
        with _lock:
            if _driver is None:
                _driver = made
    return _driver


def is_there() -> bool:
    """Is there a driver with a device?"""
    try:
        return driver().count() > 0
    except SluiceError:
        return False


def device_of(pointer: int) -> "int | None":
    """The device whose memory an address is; None for host memory, also pinned."""
    if _driver is None:
        try:
            driver()
        except SluiceError:
            return None
    kind = c_uint()
    if driver().functions.cuPointerGetAttribute(byref(kind), ATTRIBUTE_MEMORY_TYPE, pointer) != 0:
        return None
    if kind.value != DEVICE_MEMORY:
        return None
    ordinal = c_int()
    driver().call("cuPointerGetAttribute", byref(ordinal), ATTRIBUTE_DEVICE_ORDINAL, pointer)
    return ordinal.value


def free_memory(device: int) -> "tuple[int, int]":
    """What is free on a device, and what it has, in bytes."""
    free, total = c_size_t(), c_size_t()
    with current(device) as there:
        there.call("cuMemGetInfo_v2", byref(free), byref(total))
    return free.value, total.value


def name_of(device: int) -> str:
    text, handle = ctypes.create_string_buffer(128), c_int()
    driver().call("cuDeviceGet", byref(handle), device)
    driver().call("cuDeviceGetName", text, 128, handle)
    return text.value.decode(errors="replace")


def allocate(device: int, size: int) -> int:
    """Device memory; `free()` gives it back."""
    address = c_uint64()
    with current(device) as there:
        code = there.functions.cuMemAlloc_v2(byref(address), max(size, 1))
    if code == OUT_OF_MEMORY:
        free, total = free_memory(device)
        raise DeviceMemoryError(
            f"Device {device} has no room for {size} bytes: {free} of {total} are free. Load fewer files at once, free "
            "what is not needed, or use sluice.safetensors.iterate() or load_into(), which need little.", code)
    if code != 0:
        raise SluiceError(f"cuMemAlloc failed with CUDA code {code}", code)
    return address.value


def free(device: int, address: int) -> None:
    """Gives memory back; at the end of the process the driver may be gone, which is no error."""
    try:
        with current(device) as there:
            there.functions.cuMemFree_v2(address)
    except (SluiceError, TypeError, AttributeError):
        pass


def copy_to_host(device: int, target: int, source: int, size: int) -> None:
    if size:
        with current(device) as there:
            there.call("cuMemcpyDtoH_v2", target, source, size)


def copy_to_device(device: int, target: int, source: int, size: int) -> None:
    if size:
        with current(device) as there:
            there.call("cuMemcpyHtoD_v2", target, source, size)


def fill(device: int, target: int, value: int, size: int) -> None:
    if size:
        with current(device) as there:
            there.call("cuMemsetD8_v2", target, value, size)
            there.call("cuCtxSynchronize")


class Stream:
    """A stream of our own, which does not wait for the default stream."""

    def __init__(self, device: int) -> None:
        self.device = device
        handle = c_void_p()
        with current(device) as there:
            there.call("cuStreamCreate", byref(handle), STREAM_NON_BLOCKING)
        self.handle = handle

    def synchronize(self) -> None:
        with current(self.device) as there:
            there.call("cuStreamSynchronize", self.handle)

    def close(self) -> None:
        if self.handle:
            with current(self.device) as there:
                there.functions.cuStreamDestroy_v2(self.handle)
            self.handle = c_void_p()


def stream_address(stream: object) -> int:
    """A stream as the driver knows it: of PyTorch (cuda_stream), CuPy (ptr), Numba (handle.value), or a number."""
    if stream is None:
        return 0
    if isinstance(stream, int):
        return stream
    for name in ("cuda_stream", "ptr", "handle"):
        found = getattr(stream, name, None)
        if found is not None:
            return int(getattr(found, "value", found) or 0)
    raise TypeError(f"a {type(stream).__name__} is no stream: give its address, or a stream of PyTorch, CuPy or Numba")
