# SPDX-License-Identifier: Apache-2.0
"""`safe_open`: a file opened for reading tensor by tensor, in the shape that the package safetensors has."""

from __future__ import annotations

import os
from typing import Any

from . import _load, _memory, _tensors
from ._header import Entry, SafetensorError
from ._load import Loading, Options, open_file, read_entry, read_range
from ._memory import Buffer
from ._report import Report


class safe_open:  # noqa: N801 - the name that users know
    """Opens a safetensors file.

        with safe_open("model.safetensors", framework="pt", device="cuda") as file:
            for name in file.keys():
                tensor = file.get_tensor(name)

    As `safetensors.safe_open`, whose `backend` is accepted and changes nothing. With `prefetch` the whole file is on its
    way to the device from the start, and each tensor is waited for when it is asked for; without, each is read when it is
    asked for. Tensors outlive the context either way.
    """

    def __init__(self, filename: "str | os.PathLike[str]", framework: str = "pt", device: object = "cpu", *,
                 backend: "str | None" = None, prefetch: bool = False, **options: object) -> None:
        self._framework = _tensors.framework_of(framework)
        self._device = _memory.device_number(device)
        self._options = Options(**options)  # type: ignore[arg-type]
        self._path = os.fspath(filename)
        self._ahead: "_Ahead | None" = None
        self._file, self._header = open_file(self._path, self._options)
        self._by_name = {entry.name: entry for entry in self._header.entries}
        self._closed = False
        if prefetch:
            try:
                self._ahead = _Ahead(self._path, self._device, self._framework, self._options)
            except BaseException:
                self._file.close()
                raise

    def __enter__(self) -> "safe_open":
        return self

    def __exit__(self, *_: object) -> None:
        self._closed = True
        try:
            if self._ahead is not None:
                self._ahead.close()
        finally:
            self._file.close()

    def __del__(self) -> None:
        if not getattr(self, "_closed", True):
            self.__exit__()

    def keys(self) -> "list[str]":
        """The names, sorted."""
        return sorted(self._by_name)

    def offset_keys(self) -> "list[str]":
        """The names in the order of their data."""
        return [entry.name for entry in self._header.entries]

    def metadata(self) -> "dict[str, str] | None":
        """The texts of the file's __metadata__."""
        return self._header.metadata

    def get_tensor(self, name: str) -> Any:
        """One tensor."""
        entry = self._entry(name)
        if self._ahead is not None:
            return self._ahead.tensor(entry)
        return read_entry(self._open_file(), self._header, entry, self._device, self._framework, self._options.threads)

    def get_tensors(self) -> "dict[str, Any]":
        """All tensors by name."""
        if self._ahead is not None:
            return {entry.name: self._ahead.tensor(entry) for entry in self._header.entries}
        return dict(_load.load([self._path], self._device, self._framework, self._options))

    def get_slice(self, name: str) -> "Slice":
        """A tensor to take parts of: only the rows that a part needs are read."""
        return Slice(self, self._entry(name))

    def _entry(self, name: str) -> Entry:
        found = self._by_name.get(name)
        if found is None:
            raise SafetensorError(f"File does not contain tensor {name}: {self._path}")
        return found

    def _open_file(self) -> Any:
        if self._closed:
            raise SafetensorError(f"{self._path} is closed: tensors are read inside of the with block")
        return self._file


class _Ahead:
    """A whole file on its way."""

    def __init__(self, path: str, device: int, framework: str, options: Options) -> None:
        self._loading = Loading([path], device, framework, options, Report("safe_open", device)).__enter__()
        self._places: "dict[str, tuple[int, int, int]]" = {}
        self._groups: "list[tuple[Any, Buffer]]" = []
        try:
            for number, (file, header, group) in enumerate(self._loading.groups()):
                buffer, due = self._loading.start(file, header, group)
                self._groups.append((_tensors.maker(buffer, framework), buffer))
                for entry, place in group.places:
                    self._places[entry.name] = (number, place, due)
            self._loading.plan.seal()
        except BaseException as error:
            self._loading.__exit__(type(error))
            raise

    def tensor(self, entry: Entry) -> Any:
        number, place, due = self._places[entry.name]
        self._loading.plan.wait(due)
        return self._groups[number][0](entry, place)

    def close(self) -> None:
        self._loading.__exit__(SafetensorError)


class Slice:
    """A tensor of an open file; `slice[1:3, :, 5]` reads it, or the part of it."""

    def __init__(self, opened: safe_open, entry: Entry) -> None:
        self._opened = opened
        self._entry = entry

    def get_shape(self) -> "list[int]":
        return list(self._entry.shape)

    def get_dtype(self) -> str:
        return self._entry.dtype

    def __getitem__(self, index: Any) -> Any:
        opened, entry = self._opened, self._entry
        if index is Ellipsis or (isinstance(index, tuple) and not index):
            return opened.get_tensor(entry.name)
        parts = index if isinstance(index, tuple) else (index,)
        if len([part for part in parts if part is not Ellipsis and part is not None]) > len(entry.shape):
            raise SafetensorError(f"too many indices for a tensor of shape {list(entry.shape)}")
        if opened._ahead is not None:
            return opened.get_tensor(entry.name)[index]
        rows = self._rows(parts[0])
        if rows is None:
            return self._cut(opened.get_tensor(entry.name), parts)
        first, last, rest = rows
        tensor = self._read_rows(first, last)
        return self._cut(tensor, (rest,) + tuple(parts[1:]))

    def _rows(self, part: Any) -> "tuple[int, int, Any] | None":
        """The rows that an index of the first axis needs, and what is left of it once they are there."""
        entry = self._entry
        if not entry.shape or (entry.end - entry.begin) % max(entry.shape[0], 1):
            return None
        extent = entry.shape[0]
        if isinstance(part, slice):
            first, last, step = part.indices(extent)
            if step != 1:
                return None
            return first, max(first, last), slice(None)
        if hasattr(part, "__index__"):
            number = part.__index__()
            if not -extent <= number < extent:
                raise SafetensorError(f"index {number} is out of range for {extent} rows")
            return number % extent, number % extent + 1, 0
        return None

    def _read_rows(self, first: int, last: int) -> Any:
        opened, entry = self._opened, self._entry
        row = (entry.end - entry.begin) // max(entry.shape[0], 1)
        part = Entry(entry.name, entry.dtype, (last - first,) + entry.shape[1:], 0, (last - first) * row)
        buffer = _memory.allocate(part.end, opened._device, opened._framework)
        _memory.settle(opened._device, opened._framework)
        read_range(opened._open_file(), opened._header.data_begin + entry.begin + first * row, part.end, buffer.pointer,
                   opened._options.threads)
        return _tensors.maker(buffer, opened._framework)(part, 0)

    def _cut(self, tensor: Any, parts: "tuple[Any, ...]") -> Any:
        """Applies an index; what is smaller than what was read gets memory of its own."""
        if all(isinstance(part, slice) and part == slice(None) or part is Ellipsis for part in parts):
            return tensor
        if isinstance(tensor, _tensors.Tensor):
            if len(parts) == 1 and parts[0] == 0:
                return tensor._with_shape(tensor.shape[1:])
            raise SafetensorError("A tensor of no framework is cut along its first axis only: say framework=\"pt\".")
        cut = tensor[parts if len(parts) > 1 else parts[0]]
        if hasattr(cut, "contiguous"):
            return cut.contiguous().clone() if parts[1:] else cut.contiguous()
        return cut.copy() if hasattr(cut, "copy") else cut
