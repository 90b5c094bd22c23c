# SPDX-License-Identifier: Apache-2.0
"""Tensors over buffers: PyTorch's, numpy's, JAX's, and our own for all others.

A maker belongs to one buffer and is asked once per tensor, so it does what it can beforehand: for PyTorch one view of
the buffer per type, and one `as_strided` per tensor.
"""

from __future__ import annotations

from typing import Callable

from . import _cuda, _dlpack
from ._dtypes import DTYPES, numpy_type, torch_type
from ._header import Entry
from ._memory import CPU, Buffer

FRAMEWORKS = {"pt": "pt", "torch": "pt", "pytorch": "pt", "np": "np", "numpy": "np", "jax": "jax", "flax": "jax",
              "sluice": "sluice", None: "sluice"}


def framework_of(name: "str | None") -> str:
    found = FRAMEWORKS.get(name)
    if found is None:
        raise ValueError(f"{name!r} is no framework: say \"pt\", \"np\", \"jax\" or \"sluice\"")
    return found


class Tensor:
    """A tensor of no framework: a piece of a buffer with a shape and a type.

    Every package that reads DLPack takes it (`torch.from_dlpack(t)`, `cupy.from_dlpack(t)`, `jax.dlpack.from_dlpack(t)`),
    without a copy, and so does what reads `__cuda_array_interface__`. `numpy()` copies it to the host.
    """

    __slots__ = ("_buffer", "_pointer", "shape", "dtype", "nbytes")

    def __init__(self, buffer: Buffer, pointer: int, shape: "tuple[int, ...]", dtype: str, nbytes: int) -> None:
        self._buffer = buffer
        self._pointer = pointer
        self.shape = shape
        self.dtype = dtype
        self.nbytes = nbytes

    @property
    def device(self) -> str:
        return "cpu" if self._buffer.device == CPU else f"cuda:{self._buffer.device}"

    def data_ptr(self) -> int:
        """The address of the first element."""
        return self._pointer

    def __repr__(self) -> str:
        return f"sluice.Tensor(shape={self.shape}, dtype={self.dtype}, device={self.device})"

    def __dlpack_device__(self) -> "tuple[int, int]":
        if self._buffer.device == CPU:
            return (_dlpack.KDL_CPU, 0)
        return (_dlpack.KDL_CUDA, self._buffer.device)

    def __dlpack__(self, *, stream: object = None, max_version: "tuple[int, int] | None" = None,
                   dl_device: "tuple[int, int] | None" = None, copy: "bool | None" = None) -> object:
        if copy or (dl_device is not None and tuple(dl_device) != self.__dlpack_device__()):
            raise BufferError("This tensor is handed out where it lies, without a copy.")
        dtype = DTYPES[self.dtype]
        # The bytes are in place before a tensor is handed out, so no stream has to wait.
        return _dlpack.capsule(self._pointer, self.shape, (dtype.dlpack_code, dtype.bits, 1),
                               self.__dlpack_device__(), self, max_version is not None and max_version[0] >= 1)

    @property
    def __cuda_array_interface__(self) -> dict:
        typestr = DTYPES[self.dtype].typestr
        if self._buffer.device == CPU or not typestr:
            raise AttributeError(f"a tensor of {self.dtype} on {self.device} has no __cuda_array_interface__")
        return {"shape": self.shape, "typestr": typestr, "data": (self._pointer, False), "version": 3}

    def _with_shape(self, shape: "tuple[int, ...]") -> "Tensor":
        """The same elements in another shape."""
        return Tensor(self._buffer, self._pointer, shape, self.dtype, self.nbytes)

    def tobytes(self) -> bytes:
        """The bytes, copied to the host."""
        target = bytearray(self.nbytes)
        if self.nbytes:
            import ctypes

            room = (ctypes.c_char * self.nbytes).from_buffer(target)
            if self._buffer.device == CPU:
                ctypes.memmove(room, self._pointer, self.nbytes)
            else:
                _cuda.copy_to_host(self._buffer.device, ctypes.addressof(room), self._pointer, self.nbytes)
        return bytes(target)

    def numpy(self) -> object:
        """A copy as a numpy array, on the host."""
        import numpy

        return numpy.frombuffer(bytearray(self.tobytes()), dtype=numpy_type(self.dtype)).reshape(self.shape)


def _strides(shape: "tuple[int, ...]") -> "tuple[int, ...]":
    if len(shape) == 2:
        return (shape[1] or 1, 1)
    if len(shape) == 1:
        return (1,)
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * max(shape[axis + 1], 1)
    return tuple(strides)


def maker(buffer: Buffer, framework: str) -> "Callable[[Entry, int], object]":
    """A function that makes the tensor of an entry whose bytes begin at an offset of the buffer."""
    if framework == "pt":
        return _torch_maker(buffer)
    if framework == "np":
        return _numpy_maker(buffer)

    def make(entry: Entry, offset: int) -> object:
        tensor = Tensor(buffer, buffer.pointer + offset, entry.shape, entry.dtype, entry.end - entry.begin)
        return _to_jax(tensor) if framework == "jax" else tensor

    return make


def _to_jax(tensor: Tensor) -> object:
    import jax

    if 0 in tensor.shape:
        return jax.numpy.zeros(tensor.shape, dtype=numpy_type(tensor.dtype))
    return jax.dlpack.from_dlpack(tensor)


def _torch_maker(buffer: Buffer) -> "Callable[[Entry, int], object]":
    import torch

    whole = buffer.torch()
    as_strided = torch.as_strided
    views: "dict[str, tuple[object, int]]" = {}

    def view_of(name: str) -> "tuple[object, int]":
        dtype = torch_type(name)
        size = max(DTYPES[name].bits // 8, 1)
        views[name] = (whole[:buffer.size // size * size].view(dtype), size)
        return views[name]

    def make(entry: Entry, offset: int) -> object:
        name, shape = entry.dtype, entry.shape
        typed, size = views.get(name) or view_of(name)
        if name == "F4":  # two of them are one element for PyTorch
            shape = shape[:-1] + (shape[-1] // 2,)
        if offset % size:  # the layout keeps well-formed files in step
            return whole[offset:offset + entry.end - entry.begin].clone().view(typed.dtype).reshape(shape)
        return as_strided(typed, shape, _strides(shape), offset // size)

    return make


class _HostBytes:
    """What numpy asks for memory; the arrays hold on to this, and this to the buffer."""

    def __init__(self, buffer: Buffer) -> None:
        self._buffer = buffer
        self.__array_interface__ = {"shape": (buffer.size,), "typestr": "|u1", "data": (buffer.pointer, False),
                                    "version": 3}


def _numpy_maker(buffer: Buffer) -> "Callable[[Entry, int], object]":
    import numpy

    if buffer.device != CPU:
        raise ValueError("numpy arrays lie in host memory: use device=\"cpu\", or framework=\"pt\" or \"sluice\"")
    memory = numpy.asarray(_HostBytes(buffer))

    def make(entry: Entry, offset: int) -> object:
        dtype = numpy_type(entry.dtype)
        if 0 in entry.shape:
            return numpy.empty(entry.shape, dtype)
        if offset % dtype.itemsize:
            return memory[offset:offset + entry.end - entry.begin].copy().view(dtype).reshape(entry.shape)
        return numpy.ndarray(entry.shape, dtype, memory, offset)

    return make
