# SPDX-License-Identifier: Apache-2.0
"""torch.distributed.checkpoint: a writer and a reader that move device memory without a copy on the way.

    import torch.distributed.checkpoint as dcp
    from sluice.adapters.checkpoint import Reader, Writer

    dcp.save(state, storage_writer=Writer("checkpoint"))
    dcp.load(state, storage_reader=Reader("checkpoint"))

Each rank writes one file of plain bytes, and the checkpoint's metadata tells where each tensor lies in it. A tensor
that is wanted as it was saved, or some rows of it, is read straight into its place; other parts, types and views go
through a tensor beside it. The reader reads PyTorch's own checkpoints as well, by PyTorch's means.
"""

from __future__ import annotations

import dataclasses
import io
import os
from typing import Any

import torch
from torch.distributed.checkpoint import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.planner import LoadItemType, WriteItemType
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

from .. import _memory
from .._open_file import OpenFile
from .._sliced_plan import THREADS, sliced_plan_of, write_ranges
from .._load import read_range

ALIGNMENT = 4096


@dataclasses.dataclass
class RawStorage:
    """Where an item lies: plain bytes in a file, with the type and shape of a tensor."""

    relative_path: str
    offset: int
    length: int
    dtype: str = ""
    shape: "tuple[int, ...]" = ()
    transform_descriptors: Any = None  # PyTorch's reader looks at this name


def _done(value: Any) -> Future:
    future: Future = Future()
    future.set_result(value)
    return future


def _settle(tensors: "list[torch.Tensor]") -> None:
    for index in {tensor.device.index for tensor in tensors if tensor.device.type == "cuda"}:
        _memory.settle(index, "pt")


class Writer(FileSystemWriter):
    """Writes a rank's items into one file; `threads` carry it."""

    def __init__(self, path: "str | os.PathLike[str]", *, threads: int = THREADS, **others: Any) -> None:
        super().__init__(path, **others)
        self._sluice_threads = threads

    def write_data(self, plan: Any, planner: Any) -> Future:
        name = f"{plan.storage_data.prefix}0.sluice"
        results, ranges, at = [], [], 0
        kept: "list[Any]" = []
        for item in plan.items:
            data = planner.resolve_data(item)
            if item.type == WriteItemType.BYTE_IO:
                place = torch.frombuffer(bytearray(data.getvalue() or b"\0"), dtype=torch.uint8)
                storage = RawStorage(name, at, len(data.getvalue()))
            else:
                place = data.detach().contiguous()
                storage = RawStorage(name, at, place.numel() * place.element_size(), str(place.dtype).split(".")[-1],
                                     tuple(place.shape))
            kept.append(place)
            ranges.append((at, storage.length, place.data_ptr()))
            results.append(WriteResult(index=item.index, size_in_bytes=storage.length, storage_data=storage))
            at += (storage.length + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
        if results:
            _settle(kept)
            self._write(os.path.join(str(self.path), name), ranges, at)
        return _done(results)

    def _write(self, path: str, ranges: "list[tuple[int, int, int]]", size: int) -> None:
        with OpenFile(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC) as file:
            write_ranges(file, size, ranges, self._sluice_threads)
            if self.sync_files:
                os.fsync(file.descriptor)


class Reader(FileSystemReader):
    """Reads what Writer wrote, and what PyTorch's own writer wrote."""

    def __init__(self, path: "str | os.PathLike[str]", *, threads: int = THREADS) -> None:
        super().__init__(path)
        self._sluice_threads = threads

    def read_data(self, plan: Any, planner: Any) -> Future:
        ours = [item for item in plan.items if isinstance(self.storage_data[item.storage_index], RawStorage)]
        others = [item for item in plan.items if not isinstance(self.storage_data[item.storage_index], RawStorage)]
        if others:
            super().read_data(dataclasses.replace(plan, items=others), planner).wait()
        if ours:
            self._read(ours, planner)
        return _done(None)

    def _read(self, items: "list[Any]", planner: Any) -> None:
        files: "dict[str, OpenFile]" = {}
        plan = sliced_plan_of(self._sluice_threads).start()
        try:
            direct, rest = [], []
            for item in items:
                storage = self.storage_data[item.storage_index]
                if storage.relative_path not in files:
                    files[storage.relative_path] = OpenFile(os.path.join(str(self.path), storage.relative_path))
                file = files[storage.relative_path]
                if item.type == LoadItemType.BYTE_IO:
                    planner.load_bytes(item, io.BytesIO(_bytes(file, storage)))
                    continue
                target = planner.resolve_tensor(item)
                (direct if _is_direct(target, storage, item) else rest).append((item, storage, file, target))
            _settle([target for _, _, _, target in direct + rest])
            for item, storage, file, target in direct:
                first, size = _rows(storage, item)
                plan.add(file, storage.offset + first, size, target.data_ptr())
            plan.seal()
            for item, storage, file, target in rest:
                _copy(file, storage, item, target)
                planner.commit_tensor(item, target)
            plan.wait()
            for item, _, _, target in direct:
                planner.commit_tensor(item, target)
        except BaseException:
            plan.cancel()
            raise
        finally:
            plan.close()
            for file in files.values():
                file.close()


def _bytes(file: OpenFile, storage: RawStorage) -> bytes:
    data = bytearray(storage.length)
    if data:
        place = torch.frombuffer(data, dtype=torch.uint8)
        read_range(file, storage.offset, storage.length, place.data_ptr())
    return bytes(data)


def _rows(storage: RawStorage, item: Any) -> "tuple[int, int]":
    """The bytes of the rows that an item wants: where they begin in its tensor, and how many there are."""
    if not storage.shape:
        return 0, storage.length
    row = storage.length // max(storage.shape[0], 1)
    return item.storage_offsets[0] * row, item.lengths[0] * row


def _is_direct(target: torch.Tensor, storage: RawStorage, item: Any) -> bool:
    """Whole rows, of the same type, into contiguous memory?"""
    return (str(target.dtype) == f"torch.{storage.dtype}" and target.is_contiguous() and
            target.device.type in ("cuda", "cpu") and tuple(item.lengths[1:]) == tuple(storage.shape[1:]))


def _copy(file: OpenFile, storage: RawStorage, item: Any, target: torch.Tensor) -> None:
    """Reads the rows beside the target, cuts the part out of them, and copies it, which converts."""
    first, size = _rows(storage, item)
    device = _memory.device_number(target.device)
    shape = (item.lengths[0], *storage.shape[1:]) if storage.shape else ()
    buffer = _memory.allocate(max(size, 1), device, "pt")
    _memory.settle(device, "pt")
    read_range(file, storage.offset + first, size, buffer.pointer)
    rows = buffer.torch()[:size].view(getattr(torch, storage.dtype)).view(shape)  # type: ignore[index]
    for axis in range(1, len(shape)):
        rows = rows.narrow(axis, item.storage_offsets[axis], item.lengths[axis])
    with torch.no_grad():
        target.copy_(rows)
