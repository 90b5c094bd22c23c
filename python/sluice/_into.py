# SPDX-License-Identifier: Apache-2.0
"""Loads into tensors that are there already: parameters of a model, entries of a state dict.

What fits as it lies (same shape and type, contiguous) is read straight into its memory where it is large; small ones
come together through a staging buffer on the device and are spread from there, as do the first bytes of a model of many
tensors, which come while these are looked at. What does not fit that way (another type, a view with gaps, another device)
is copied out of the staging buffer, which converts. Nothing else is held.
"""

from __future__ import annotations

import contextlib
from typing import Any, Iterable, NamedTuple

from . import _cuda, _memory, _tensors
from ._collector import HeldOff
from ._dtypes import name_of_torch
from ._errors import DeviceMemoryError, SluiceError
from ._fast import native
from ._header import Entry, Header, SafetensorError
from ._layout import Group, groups_of
from ._load import Loading, Options
from ._memory import CPU, Buffer
from ._open_file import OpenFile
from ._report import Report
from ._sliced_plan import MIB, sliced_plan_of

# From here on a tensor is read by itself, by who carries it: cuFileRead wants large requests, windows of the copy engine
# less, and a plan carries its ranges as one request.
DIRECT = {"cufile": 16 * MIB, "staged": 1 * MIB, "plan": 64 << 10}
STAGING = 256 * MIB
STAGING_BUFFERS = 3
# To hold so many tensors against a model takes milliseconds, and no target is written before all of them fit. Meanwhile
# the first bytes come into staging buffers: so many, where at least eight times as much device memory is free.
MANY = 4096
AHEAD = 2048 * MIB


class Mismatch(SafetensorError):
    """The tensors of the files do not fit the targets; the text names the first of them and a remedy."""


class Target(NamedTuple):
    """Where one tensor goes. `pointer` is 0 where it cannot be written as it lies; `why` tells the reason then. `size` is
    that of the file's."""

    tensor: Any
    pointer: int
    device: int
    size: int
    why: str


def targets_of(model: object) -> "dict[str, Any]":
    """The tensors by name of a model (anything with state_dict()) or of a dict."""
    state = getattr(model, "state_dict", None)
    found = state() if callable(state) else model
    if not hasattr(found, "items"):
        raise TypeError(f"load_into() wants a model with state_dict(), or a dict of tensors, and not {type(model).__name__}")
    ours, types = {}, set()
    for name, tensor in found.items():  # type: ignore[attr-defined]
        if type(tensor) in types or hasattr(tensor, "shape"):  # which PyTorch makes anew for each that is asked
            ours[name] = tensor
            types.add(type(tensor))
    return ours


# What PyTorch's devices and types are here: of those that were met, and that can be written as they lie.
_numbers: "dict[Any, int]" = {}
_types: "dict[Any, str]" = {}


def _describe(entry: Entry, tensor: Any) -> Target:
    size = entry.end - entry.begin
    if isinstance(tensor, _tensors.Tensor):
        device = tensor._buffer.device
        if tensor.dtype != entry.dtype:
            raise TypeError(f"its type is {tensor.dtype}, the file's {entry.dtype}, and only PyTorch converts here")
        return Target(tensor, tensor.data_ptr(), device, size, "")
    if not hasattr(tensor, "data_ptr"):
        raise TypeError(f"a {type(tensor).__name__} is no tensor that can be loaded into")
    if tensor.is_meta:
        raise TypeError("it is on the device \"meta\", which has no memory: model.to_empty(device=\"cuda\") gives it some")
    place = tensor.device
    device = _numbers.get(place)
    if device is None:
        if place.type not in ("cuda", "cpu"):
            return Target(tensor, 0, CPU, size, f"it is on {place}")
        device = _numbers[place] = CPU if place.type == "cpu" else place.index
    type_there = name_of_torch(tensor.dtype)
    if type_there != "F4":  # whose shapes differ
        _types[tensor.dtype] = type_there
    if type_there != entry.dtype:
        return Target(tensor, 0, device, size, f"its type is {tensor.dtype}, the file's {entry.dtype}")
    if not tensor.is_contiguous():
        return Target(tensor, 0, device, size, "it is not contiguous")
    return Target(tensor, tensor.data_ptr(), device, size, "")


def _shape_of(entry: Entry, tensor: Any) -> "tuple[int, ...]":
    """The shape that a target must have: PyTorch counts two elements of F4 as one."""
    if entry.dtype == "F4" and not isinstance(tensor, _tensors.Tensor) and entry.shape:
        return entry.shape[:-1] + (entry.shape[-1] // 2,)
    return entry.shape


def _plain_fit(entries: "list[Entry]", tensors: "dict[str, Any]", types: "dict[Any, str]", devices: "dict[Any, int]",
               target_type: "type[Target]", targets: "dict[str, Target]") -> "list[Entry]":
    """As fit() of the extension: finds the targets of those that can be written as they lie, and are of a type and on a
    device that are known. The rest is returned."""
    left = []
    for entry in entries:
        name, dtype, shape, begin, end = entry
        tensor = tensors.get(name)
        try:
            device = devices.get(tensor.device)  # type: ignore[union-attr]
            if (device is not None and tensor.shape == shape and types.get(tensor.dtype) == dtype  # type: ignore[union-attr]
                    and tensor.is_contiguous() is True):  # type: ignore[union-attr]
                targets[name] = target_type(tensor, tensor.data_ptr(), device, end - begin, "")  # type: ignore[union-attr]
                continue
        except Exception:  # noqa: B902 - the closer look tells it
            pass
        left.append(entry)
    return left


fit = _plain_fit if native is None else native.fit


def _device_of(tensor: Any) -> int:
    if isinstance(tensor, _tensors.Tensor):
        return tensor._buffer.device
    place = getattr(tensor, "device", None)
    return place.index if getattr(place, "type", "") == "cuda" else CPU


class Into:
    """One load into targets."""

    def __init__(self, model: object, filenames: object, device: object, strict: bool, options: Options) -> None:
        self.tensors = targets_of(model)
        number = _memory.device_number(device) if device is not None else self._main_device()
        self.report = Report("load_into", number)
        self.framework = "sluice" if all(isinstance(t, _tensors.Tensor) for t in self.tensors.values()) else "pt"
        self.loading = Loading(filenames, number, self.framework, options, self.report)
        self.device, self.strict = number, strict
        self.targets: "dict[str, Target]" = {}
        self.late: "set[str]" = set()
        self.stream: "_cuda.Stream | None" = None
        self.elsewhere: "Any" = None  # a plan for targets in host memory and on other devices
        self.staged = _Staging(self)

    def _main_device(self) -> int:
        """The device of the first tensor that is on one."""
        return next((device for device in map(_device_of, self.tensors.values()) if device != CPU), CPU)

    def run(self) -> Report:
        try:
            with self.loading, contextlib.ExitStack() as hold:
                hold.enter_context(HeldOff())
                opened = self._opened()
                try:
                    self._settle()
                    self._read(opened, hold)
                    if self.late:
                        self._read_late(opened)
                    with self.report.phase("waiting"):
                        for plan in self._plans():
                            plan.seal()
                            plan.wait()
                except BaseException:
                    for plan in self._plans():
                        plan.cancel()
                    raise
                finally:
                    for plan in self._plans():
                        plan.close()
                    if self.stream is not None:
                        self.stream.close()
        finally:
            del self.staged  # which knows of this: no collector is needed to give back what they hold
        self.report.first_tensor()
        return self.report.finish()

    def _plans(self) -> "list[Any]":
        return [plan for plan in (self.loading.plan, self.elsewhere) if plan is not None]

    def _opened(self) -> "list[tuple[OpenFile, Header]]":
        """All files, once all tensors fit; with bytes of the first one on their way into staging buffers where that takes
        long."""
        with self.report.phase("headers"):
            opened = [self.loading.open(self.loading.paths[0])]
        file, header = opened[0]
        if (self.report.carrier == "plan" and self.device != CPU
                and min(len(header.entries) * len(self.loading.paths), len(self.tensors)) >= MANY):
            self.staged.begin_ahead(file, header)
        with self.report.phase("headers"):
            opened += [self.loading.open(path) for path in self.loading.paths[1:]]
            self._fit([header for _, header in opened])
        return opened

    def _settle(self) -> None:
        """What is to be there before targets are written: their devices have nothing left to do with them, and each has who
        writes it."""
        self.staged.keep_ahead()
        devices = {device for _, _, device, _, _ in self.targets.values()}
        for device in devices:
            _memory.settle(device, self.framework)
        if self.device != CPU:
            self.stream = _cuda.Stream(self.device)
        if devices - {self.device}:
            self.elsewhere = sliced_plan_of().start()

    def _fit(self, headers: "list[Header]") -> None:
        """Finds the target of each tensor, before one is written."""
        wrong: "list[str]" = []
        unexpected: "list[str]" = []
        for header in headers:
            left = fit(header.entries, self.tensors, _types, _numbers, Target, self.targets)
            while left:
                left = self._look_closely(left, wrong, unexpected)
        missing = self._missing()
        self.report.missing, self.report.unexpected = missing, unexpected
        if wrong:
            raise Mismatch(_list("These tensors do not fit", wrong) + " The targets are as they were. Load such tensors by load_files() "
                           "and copy what you need.")
        if self.strict and (missing or unexpected):
            parts = [_list(text, names) for text, names in (("The files lack", missing),
                                                            ("The model has no", unexpected)) if names]
            raise Mismatch(" ".join(parts) + " The targets are as they were. strict=False loads what both have.")
        self._find_shared(headers)

    def _look_closely(self, entries: "list[Entry]", wrong: "list[str]", unexpected: "list[str]") -> "list[Entry]":
        """Finds the targets of some of them, up to the first of a type or on a device that was not met before: those behind
        it may be alike. Returns what is left."""
        for number, entry in enumerate(entries):
            known, tensor = len(_types) + len(_numbers), self.tensors.get(entry.name)
            if tensor is None:
                unexpected.append(entry.name)
            elif tuple(tensor.shape) != _shape_of(entry, tensor):
                wrong.append(f"{entry.name}: the file has {list(entry.shape)}, the target {list(tensor.shape)}")
            else:
                try:
                    target = self.targets[entry.name] = _describe(entry, tensor)
                    if target.why:
                        self.report.notes.append(f"{entry.name} is copied after its read: {target.why}")
                except TypeError as error:
                    wrong.append(f"{entry.name}: {error}")
            if len(_types) + len(_numbers) > known:
                return fit(entries[number + 1:], self.tensors, _types, _numbers, Target, self.targets)
        return []

    def _missing(self) -> "list[str]":
        """Targets that no file has, less those that share memory with one that it has (tied weights)."""
        lacking = [name for name in self.tensors if name not in self.targets]
        filled = {pointer for _, pointer, _, _, _ in self.targets.values() if pointer} if lacking else set()
        return [name for name in lacking if not (hasattr(self.tensors[name], "data_ptr")
                                                 and self.tensors[name].data_ptr() in filled)]

    def _find_shared(self, headers: "list[Header]") -> None:
        """Targets that overlap an earlier one are written after all others, one by one, so that luck decides nothing."""
        if native is not None and native.lie_apart(self.targets):
            return
        targets, spans = self.targets, []
        for header in headers:
            for entry in header.entries:
                target = targets.get(entry.name)
                if target is not None and target.pointer:
                    spans.append((target.pointer, len(spans), target.size, entry.name))
        spans.sort()
        end = 0
        for pointer, _, size, name in spans:
            if size and pointer < end:
                self.late.add(name)
            end = max(end, pointer + size)

    def _read(self, opened: "list[tuple[OpenFile, Header]]", hold: contextlib.ExitStack) -> None:
        """All but what is late. Once bytes move, a collection costs no time: `hold` ends then."""
        plan, staged, ahead = self.loading.plan, self.staged, self.staged.ahead
        main, targets, late = self.device, self.targets, self.late
        direct = DIRECT[self.report.carrier]
        for file, header in opened:
            together: "list[Entry]" = []
            tensors = total = 0
            with HeldOff():
                for entry in header.entries:
                    name, _, _, begin, _ = entry
                    target = targets.get(name)
                    if target is None:
                        continue
                    _, pointer, device, size, _ = target
                    total += size
                    tensors += 1
                    if name in ahead or name in late:
                        continue
                    if pointer and (size >= direct or device != main or main == CPU):
                        (plan if device == main else self.elsewhere).add(file, header.data_begin + begin, size, pointer)
                    else:
                        together.append(entry)
            hold.close()
            self.report.bytes += total
            self.report.tensors += tensors
            for group in groups_of(together, STAGING):
                staged.add(file, header, group)
        staged.finish()

    def _read_late(self, opened: "list[tuple[OpenFile, Header]]") -> None:
        """One after the other, in the order of the files: of those that share memory the last one stays."""
        for plan in self._plans():
            plan.wait()
        for file, header in opened:
            for entry in header.entries:
                if entry.name not in self.late:
                    continue
                _, pointer, device, size, _ = self.targets[entry.name]
                if device == self.device != CPU:
                    for group in groups_of([entry], STAGING):
                        self.staged.add(file, header, group)
                    self.staged.finish()
                else:
                    plan = self.loading.plan if device == self.device else self.elsewhere
                    plan.add(file, header.data_begin + entry.begin, size, pointer)
                    plan.wait()


class _Staging:
    """A few buffers on the device that groups pass through."""

    def __init__(self, into: Into) -> None:
        self.into = into
        self.free: "list[Buffer]" = []
        self.under_way: "list[tuple[Group, Buffer, int]]" = []
        self.ahead: "set[str]" = set()  # what came, or comes, before its target was looked at

    def begin_ahead(self, file: OpenFile, header: Header) -> None:
        """Lets the first bytes of a file come that tensors on the device want, before it is known whether they fit."""
        into = self.into
        room, tensors = min(AHEAD, _cuda.free_memory(into.device)[0] // 8), into.tensors
        wanted = [entry for entry in header.entries if entry.end <= room and entry.end > entry.begin
                  and entry.name in tensors and _device_of(tensors[entry.name]) == into.device]
        for group in groups_of(wanted, STAGING):
            try:
                with into.report.phase("memory"):
                    buffer = _memory.allocate(group.size, into.device, into.framework)
                    _memory.settle(into.device, into.framework)
            except DeviceMemoryError:
                break
            self._begin(file, header, group, buffer)
            into.loading.plan.begin()

    def keep_ahead(self) -> None:
        """Targets are known: of what comes already, those stay that can be spread before all others."""
        into = self.into
        for number, (group, buffer, due) in enumerate(self.under_way):
            places = [(entry, place) for entry, place in group.places if entry.name not in into.late
                      and entry.name in into.targets and into.targets[entry.name].device == into.device]
            self.under_way[number] = (group._replace(places=places), buffer, due)
            self.ahead.update(entry.name for entry, _ in places)

    def add(self, file: OpenFile, header: Header, group: Group) -> None:
        self._begin(file, header, group, self._room(group.size))

    def _begin(self, file: OpenFile, header: Header, group: Group, buffer: Buffer) -> None:
        into, number = self.into, 0
        for begin, size, place in group.runs:
            number = into.loading.plan.add(file, header.data_begin + begin, size, buffer.pointer + place) + 1
        self.under_way.append((group, buffer, number))

    def _room(self, size: int) -> Buffer:
        while len(self.under_way) >= STAGING_BUFFERS:
            self._spread()
        for number, buffer in enumerate(self.free):
            if buffer.size >= size:
                return self.free.pop(number)
        into, size = self.into, max(size, min(STAGING, size * 2))
        with into.report.phase("memory"):
            try:
                buffer = _memory.allocate(size, into.device, into.framework)
            except DeviceMemoryError:
                self.free.clear()  # what is too small is in the way
                buffer = _memory.allocate(size, into.device, into.framework)
            _memory.settle(into.device, into.framework)
        return buffer

    def _spread(self) -> None:
        """Waits for the oldest group and copies its tensors to where they belong."""
        group, buffer, number = self.under_way.pop(0)
        into = self.into
        with into.report.phase("waiting"):
            into.loading.plan.wait(number)
        if group.places:
            into.report.first_tensor()
        with into.report.phase("spreading"):
            make = None
            copies = []
            for entry, place in group.places:
                target = into.targets[entry.name]
                if target.pointer:
                    if entry.end > entry.begin:
                        copies.append((target.pointer, buffer.pointer + place, entry.end - entry.begin))
                elif target.tensor.numel():
                    make = make or _tensors.maker(buffer, into.framework)
                    _convert(target.tensor, make(entry, place))
            if copies:
                _copy(into.device, copies, into.stream)
            if make is not None:
                _memory.settle(into.device, into.framework)
        if buffer.size <= STAGING:
            self.free.append(buffer)

    def finish(self) -> None:
        while self.under_way:
            self._spread()


def _copy(device: int, copies: "list[tuple[int, int, int]]", stream: _cuda.Stream) -> None:
    """Copies within the device (or to another one), and waits for that."""
    with _cuda.current(device) as there:
        handle, begin_copy = stream.handle, there.functions.cuMemcpyDtoDAsync_v2
        for target, source, size in copies:
            code = begin_copy(target, source, size, handle)
            if code != 0:
                raise SluiceError(f"cuMemcpyDtoDAsync failed with CUDA code {code}", code)
        there.call("cuStreamSynchronize", handle)


def _convert(target: Any, source: Any) -> None:
    import torch

    with torch.no_grad():
        target.copy_(source)


def _list(text: str, names: "Iterable[str]") -> str:
    names = list(names)
    shown = "; ".join(names[:8])
    return f"{text} ({len(names)}): {shown}{' and others' if len(names) > 8 else ''}."
