# SPDX-License-Identifier: Apache-2.0
"""Writes safetensors files straight from device memory: all or nothing.

The bytes go to a temporary file beside the target, are made durable, and take the target's name in one step. Until
then the old file is there as it was, whatever happens.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import stat
import struct
from typing import Any, Mapping

from . import _tensors
from ._buffers import View, view_of
from ._dtypes import DTYPES, name_of_numpy, name_of_torch
from ._header import MAX_HEADER, SafetensorError
from ._memory import CPU
from ._open_file import OpenFile
from ._report import Report
from ._sliced_plan import write_ranges


def _about(name: str, tensor: Any) -> "tuple[str, list[int], Any]":
    """Type, shape, and the tensor in a contiguous form."""
    if isinstance(tensor, _tensors.Tensor):
        return tensor.dtype, list(tensor.shape), tensor
    if hasattr(tensor, "data_ptr"):
        dtype, shape = name_of_torch(tensor.dtype), list(tensor.shape)
        if dtype == "F4" and shape:
            shape[-1] *= 2
        return dtype, shape, tensor.detach().contiguous()
    if hasattr(tensor, "dtype") and hasattr(tensor, "shape"):
        if not getattr(getattr(tensor, "flags", None), "c_contiguous", True):
            import numpy

            tensor = numpy.ascontiguousarray(tensor)
        return name_of_numpy(tensor.dtype), list(tensor.shape), tensor
    raise TypeError(f"tensor {name!r} is a {type(tensor).__name__}, which has no dtype and shape")


def _header(described: "list[tuple[str, str, list[int], View]]", metadata: "Mapping[str, str] | None") -> bytes:
    head: "dict[str, object]" = {}
    if metadata is not None:
        if not all(isinstance(key, str) and isinstance(value, str) for key, value in metadata.items()):
            raise TypeError("metadata has to map texts to texts")
        head["__metadata__"] = dict(metadata)
    at = 0
    for name, dtype, shape, view in described:
        head[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + view.size]}
        at += view.size
    text = json.dumps(head, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > MAX_HEADER:
        raise SafetensorError(f"the header would have {len(text)} bytes, more than the format allows: save several files")
    return text


_KINDS = ((stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a FIFO"), (stat.S_ISCHR, "a character device"),
          (stat.S_ISBLK, "a block device"), (stat.S_ISSOCK, "a socket"))


_MOST_LINKS = 40  # as the kernel has it


def _behind_links(path: str) -> str:
    """As with fs.protected_symlinks: in a folder like /tmp a link leads only its owner, or where the folder's owner wants."""
    for _ in range(_MOST_LINKS):
        if not os.path.islink(path):
            break
        owner, around = os.lstat(path).st_uid, os.stat(os.path.dirname(path) or ".")
        all_may_write = around.st_mode & stat.S_ISVTX and around.st_mode & stat.S_IWOTH
        if all_may_write and owner not in (os.geteuid(), around.st_uid):
            raise OSError(errno.EACCES, "it is a link of another user, in a folder that all may write to", path)
        path = os.path.join(os.path.dirname(path), os.readlink(path))
    return path


def _target_of(filename: "str | os.PathLike[str]") -> str:
    """The regular file to be replaced or made: a link stays, and what it leads to is meant."""
    path = _behind_links(os.fspath(filename))
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return path
    for is_one, name in _KINDS:
        if is_one(mode):
            raise OSError(errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL,
                          f"it is {name}, which save_file does not replace: name a regular file, or a new one", path)
    return path


def save(tensors: "Mapping[str, Any]", filename: "str | os.PathLike[str]", metadata: "Mapping[str, str] | None" = None,
         threads: int = 4) -> Report:
    """Writes the tensors; see safetensors.save_file."""
    path = _target_of(filename)
    described = []
    devices = set()
    for name, tensor in tensors.items():
        if not isinstance(name, str) or name == "__metadata__":
            raise TypeError(f"{name!r} is no name for a tensor")
        dtype, shape, contiguous = _about(name, tensor)
        view = view_of(contiguous)
        view.keep = (view.keep, contiguous)
        described.append((name, dtype, shape, view))
        devices.add(view.device)
    # As the format's own writer: the widest types first, so that each tensor lies at a multiple of its element size.
    described.sort(key=lambda one: (-DTYPES[one[1]].bits, one[0]))
    report = Report("save_file", max(devices, default=CPU))
    for device in devices - {CPU}:
        _settle_all(device)
    text = _header(described, metadata)
    beside = os.path.join(os.path.dirname(path), f".{os.path.basename(path)[:200]}.{secrets.token_hex(6)}.tmp")
    try:
        with OpenFile(beside, os.O_RDWR | os.O_CREAT | os.O_EXCL) as file:
            with report.phase("writing"):
                _write(file, text, described, threads)
            with report.phase("fsync"):
                os.fsync(file.descriptor)
        os.rename(beside, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise
    _make_name_durable(os.path.dirname(path) or ".")
    report.bytes = sum(view.size for _, _, _, view in described)
    report.tensors, report.files = len(described), 1
    return report.finish()


def _settle_all(device: int) -> None:
    """Kernels that still compute what is saved end first."""
    from . import _cuda

    with _cuda.current(device) as there:
        there.call("cuCtxSynchronize")


def _write(file: OpenFile, text: bytes, described: "list[tuple[str, str, list[int], View]]", threads: int) -> None:
    written, head = 0, struct.pack("<Q", len(text)) + text
    while written < len(head):
        written += os.pwrite(file.descriptor, head[written:], written)
    at, ranges = len(head), []
    for _, _, _, view in described:
        ranges.append((at, view.size, view.pointer))
        at += view.size
    write_ranges(file, at, ranges, threads)


def _make_name_durable(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):  # some file systems cannot, and need not
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
