# SPDX-License-Identifier: Apache-2.0
"""PyTorch for the CPU, made to believe that the soft GPU is its CUDA device: memory of "cuda" comes from the soft GPU.

It is managed memory, which the host reaches, so tensors over it work, though they say that they are on the CPU. A
stand-in for tests of what we do with PyTorch's memory, views and storages; install it before anything else asks for torch.
"""

from __future__ import annotations

import contextlib
import ctypes
import weakref

import torch

from sluice import _cuda

_empty = torch.empty


class OutOfMemoryError(RuntimeError):
    pass


def _managed(size: int) -> int:
    pointer = ctypes.c_uint64()
    with _cuda.current(0) as there:
        code = there.functions.cuMemAllocManaged(ctypes.byref(pointer), ctypes.c_size_t(size), 1)
    if code != 0:
        raise OutOfMemoryError(f"cuMemAllocManaged of {size} bytes answered {code}")
    return pointer.value


class _Stream:
    cuda_stream = 0

    def __init__(self, *_: object) -> None:
        pass

    def synchronize(self) -> None:
        pass


def _soft_empty(*size, dtype=None, device=None, pin_memory=False, **others):
    if device is None or "cuda" not in str(device):
        return _empty(*size, dtype=dtype, **others)
    shape = size[0] if len(size) == 1 and not isinstance(size[0], int) else size
    count = 1
    for extent in shape:
        count *= extent
    element = torch.tensor([], dtype=dtype or torch.float32).element_size()
    if count == 0:
        return _empty(shape, dtype=dtype)
    pointer = _managed(count * element)
    memory = (ctypes.c_char * (count * element)).from_address(pointer)
    weakref.finalize(memory, _cuda.free, 0, pointer)
    return torch.frombuffer(memory, dtype=dtype or torch.float32).reshape(shape)


def install() -> None:
    torch.empty = _soft_empty
    torch.Tensor.untyped_storage = getattr(torch.Tensor, "untyped_storage", torch.Tensor.storage)
    for name, value in {
            "is_available": lambda: True, "current_device": lambda: 0, "device_count": lambda: 1,
            "synchronize": lambda *_: None, "empty_cache": lambda: None, "current_stream": _Stream, "Stream": _Stream,
            "stream": lambda *_: contextlib.nullcontext(), "reset_peak_memory_stats": lambda *_: None,
            "max_memory_allocated": lambda *_: 0, "mem_get_info": lambda *_: _cuda.free_memory(0),
            "OutOfMemoryError": OutOfMemoryError}.items():
        setattr(torch.cuda, name, value)
    copy = torch.Tensor.to
    torch.Tensor.to = lambda self, *a, **k: self if a and "cuda" in str(a[0]) else copy(self, *a, **k)
