# SPDX-License-Identifier: Apache-2.0
"""Memory that tensors lie in: from PyTorch's allocator where PyTorch is used, else from the driver or the system.

A `Buffer` owns its bytes. Tensors hold on to their buffer, so they outlive files, contexts and loaders.
"""

from __future__ import annotations

import ctypes
import mmap
import re
import sys
import weakref

from . import _cuda
from ._errors import DeviceMemoryError

CPU = -1
ALIGNMENT = 256
HUGE_PAGE = 2 << 20


def device_number(device: object) -> int:
    """A device as callers name it ("cpu", "cuda", "cuda:1", 1, torch.device): its number, CPU for host memory."""
    if device is None:
        return CPU
    if isinstance(device, int):
        return CPU if device < 0 else device
    text = str(device)
    if text == "cpu":
        return CPU
    if text == "cuda":
        return _current_device()
    match = re.fullmatch(r"cuda:(\d+)", text)
    if match is None:
        raise ValueError(f"{device!r} is no device: say \"cpu\", \"cuda\", \"cuda:N\" or N")
    return int(match.group(1))


def _current_device() -> int:
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        return torch.cuda.current_device()
    return 0


class Buffer:
    """Bytes at `pointer`, `size` of them, on `device`; `owner` keeps them alive."""

    __slots__ = ("pointer", "size", "device", "owner", "__weakref__")

    def __init__(self, pointer: int, size: int, device: int, owner: object) -> None:
        self.pointer = pointer
        self.size = size
        self.device = device
        self.owner = owner

    def torch(self) -> object:
        """The buffer as a PyTorch tensor of bytes."""
        return self.owner


def allocate(size: int, device: int, framework: str) -> Buffer:
    """Room for `size` bytes, for tensors of that framework."""
    if framework == "pt":
        return _of_torch(size, device)
    return _of_system(size) if device == CPU else _of_driver(size, device)


def _of_torch(size: int, device: int) -> Buffer:
    """From PyTorch's caching allocator, so that its accounts stay true and its storages own the memory."""
    import torch

    place = torch.device("cpu") if device == CPU else torch.device("cuda", device)
    try:
        memory = torch.empty(size, dtype=torch.uint8, device=place)
    except torch.cuda.OutOfMemoryError as error:
        raise DeviceMemoryError(
            f"Device {device} has no room for {size} bytes more ({error}). Load fewer files at once, free what is not "
            "needed, or use sluice.safetensors.iterate() or load_into(), which need little.", 2) from error
    return Buffer(memory.data_ptr(), size, device, memory)


def settle(device: int, framework: str) -> None:
    """Waits for what the caller's stream still does with memory that the caching allocator has given out again."""
    if framework == "pt" and device != CPU:
        import torch

        torch.cuda.current_stream(device).synchronize()


def _of_driver(size: int, device: int) -> Buffer:
    pointer = _cuda.allocate(device, size)
    buffer = Buffer(pointer, size, device, None)
    weakref.finalize(buffer, _cuda.free, device, pointer)
    return buffer


def _of_system(size: int) -> Buffer:
    """Host memory, in huge pages where the system has them."""
    pages = mmap.mmap(-1, max(size, 1) + (HUGE_PAGE if size >= HUGE_PAGE else 0))
    if size >= HUGE_PAGE and hasattr(mmap, "MADV_HUGEPAGE"):
        try:
            pages.madvise(mmap.MADV_HUGEPAGE)
        except OSError:
            pass
    first = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    pointer = (first + HUGE_PAGE - 1) // HUGE_PAGE * HUGE_PAGE if size >= HUGE_PAGE else first
    return Buffer(pointer, size, CPU, pages)
