# SPDX-License-Identifier: Apache-2.0
"""Loads into tensors that are there already: parameters of a model, entries of a state dict.

What fits as it lies (same shape and type, contiguous) is read straight into its memory where it is large; small ones
come together through a staging buffer on the device and are spread from there. What does not fit that way (another
type, a view with gaps, another device) is copied out of the staging buffer, which converts. Nothing else is held.
"""

from __future__ import annotations

from typing import Any, Iterable, NamedTuple

from . import _cuda, _memory, _tensors
from ._collector import HeldOff
from ._dtypes import name_of_torch
from ._errors import SluiceError
from ._header import Entry, Header, SafetensorError
from ._layout import groups_of
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


class Mismatch(SafetensorError):
    """The tensors of the files do not fit the targets; the text names each and a remedy."""


class Target(NamedTuple):
    """Where one tensor goes. `pointer` is 0 where it cannot be written as it lies; `why` tells the reason then."""

    tensor: Any
    pointer: int
    device: int
    why: str


def targets_of(model: object) -> "dict[str, Any]":
    """The tensors by name of a model (anything with state_dict()) or of a dict."""
    state = getattr(model, "state_dict", None)
    found = state() if callable(state) else model
    if not hasattr(found, "items"):
        raise TypeError(f"load_into() wants a model with state_dict(), or a dict of tensors, and not {type(model).__name__}")
    return {name: tensor for name, tensor in found.items() if hasattr(tensor, "shape")}  # type: ignore[attr-defined]


# What PyTorch's devices and types are here: of those that were met, and that can be written as they lie.
_numbers: "dict[Any, int]" = {}
_types: "dict[Any, str]" = {}


def _describe(entry: Entry, tensor: Any) -> Target:
    if isinstance(tensor, _tensors.Tensor):
        device = tensor._buffer.device
        if tensor.dtype != entry.dtype:
            raise TypeError(f"its type is {tensor.dtype}, the file's {entry.dtype}, and only PyTorch converts here")
        return Target(tensor, tensor.data_ptr(), device, "")
    if not hasattr(tensor, "data_ptr"):
        raise TypeError(f"a {type(tensor).__name__} is no tensor that can be loaded into")
    if tensor.is_meta:
        raise TypeError("it is on the device \"meta\", which has no memory: model.to_empty(device=\"cuda\") gives it some")
    place = tensor.device
    device = _numbers.get(place)
    if device is None:
        if place.type not in ("cuda", "cpu"):
            return Target(tensor, 0, CPU, f"it is on {place}")
        device = _numbers[place] = CPU if place.type == "cpu" else place.index
    type_there = _types[tensor.dtype] = name_of_torch(tensor.dtype)
    if type_there != entry.dtype:
        return Target(tensor, 0, device, f"its type is {tensor.dtype}, the file's {entry.dtype}")
    if not tensor.is_contiguous():
        return Target(tensor, 0, device, "it is not contiguous")
    return Target(tensor, tensor.data_ptr(), device, "")


def _shape_of(entry: Entry, tensor: Any) -> "tuple[int, ...]":
    """The shape that a target must have: PyTorch counts two elements of F4 as one."""
    if entry.dtype == "F4" and not isinstance(tensor, _tensors.Tensor) and entry.shape:
        return entry.shape[:-1] + (entry.shape[-1] // 2,)
    return entry.shape


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
        self.sizes: "dict[str, int]" = {}
        self.late: "set[str]" = set()
        self.stream: "_cuda.Stream | None" = None
        self.elsewhere: "Any" = None  # a plan for targets in host memory and on other devices

    def _main_device(self) -> int:
        """The device of the first tensor that is on one."""
        for tensor in self.tensors.values():
            if isinstance(tensor, _tensors.Tensor):
                return tensor._buffer.device
            if getattr(tensor.device, "type", "") == "cuda":
                return tensor.device.index
        return CPU

    def run(self) -> Report:
        with self.loading as loading:
            with self.report.phase("headers"), HeldOff():
                opened = [loading.open(path) for path in loading.paths]
                self._fit([header for _, header in opened])
            for device in {target.device for target in self.targets.values()}:
                _memory.settle(device, self.framework)
            if self.device != CPU:
                self.stream = _cuda.Stream(self.device)
            if any(target.device != self.device for target in self.targets.values()):
                self.elsewhere = sliced_plan_of().start()
            plans = [plan for plan in (loading.plan, self.elsewhere) if plan is not None]
            try:
                self._read(opened, late=False)
                if self.late:
                    for plan in plans:
                        plan.wait()
                    self._read(opened, late=True)
                with self.report.phase("waiting"):
                    for plan in plans:
                        plan.seal()
                        plan.wait()
            except BaseException:
                for plan in plans:
                    plan.cancel()
                raise
            finally:
                for plan in plans:
                    plan.close()
                if self.stream is not None:
                    self.stream.close()
        self.report.first_tensor()
        return self.report.finish()

    def _fit(self, headers: "list[Header]") -> None:
        """Finds the target of each tensor, before anything is read."""
        wrong: "list[str]" = []
        unexpected: "list[str]" = []
        tensors, targets, sizes = self.tensors, self.targets, self.sizes
        device_of, type_of, ours = _numbers.get, _types.get, self.framework == "sluice"
        for header in headers:
            for entry in header.entries:
                name, dtype, shape, begin, end = entry
                tensor = tensors.get(name)
                if tensor is None:
                    unexpected.append(name)
                    continue
                if (dtype == "F4" or tensor.shape != shape) and tuple(tensor.shape) != _shape_of(entry, tensor):
                    wrong.append(f"{name}: the file has {list(shape)}, the target {list(tensor.shape)}")
                    continue
                sizes[name] = end - begin
                # Most are as the ones before, of a type and a device that were met; the rest is looked at closely.
                target = None
                try:
                    if not ours and type_of(tensor.dtype) == dtype:
                        device = device_of(tensor.device)
                        if device is not None and tensor.is_contiguous():
                            target = Target(tensor, tensor.data_ptr(), device, "")
                except (AttributeError, TypeError):
                    pass
                try:
                    targets[name] = target or _describe(entry, tensor)
                except TypeError as error:
                    wrong.append(f"{name}: {error}")
        missing = self._missing()
        self.report.missing, self.report.unexpected = missing, unexpected
        if wrong:
            raise Mismatch(_list("These tensors do not fit", wrong) + " Nothing was read. Load such tensors by load_files() "
                           "and copy what you need.")
        if self.strict and (missing or unexpected):
            parts = [_list(text, names) for text, names in (("The files lack", missing),
                                                            ("The model has no", unexpected)) if names]
            raise Mismatch(" ".join(parts) + " Nothing was read. strict=False loads what both have.")
        self.report.notes += [f"{name} is copied after its read: {why}" for name, (_, _, _, why) in targets.items() if why]
        self._find_shared()

    def _missing(self) -> "list[str]":
        """Targets that no file has, less those that share memory with one that it has (tied weights)."""
        filled = {pointer for _, pointer, _, _ in self.targets.values() if pointer}
        return [name for name, tensor in self.tensors.items() if name not in self.targets
                and not (hasattr(tensor, "data_ptr") and tensor.data_ptr() in filled)]

    def _find_shared(self) -> None:
        """Targets that overlap an earlier one are written after all others, so that the result does not depend on luck."""
        spans = sorted((pointer, number, name) for number, (name, (_, pointer, _, _)) in enumerate(self.targets.items())
                       if pointer)
        end = 0
        for pointer, _, name in spans:
            size = self.sizes[name]
            if size and pointer < end:
                self.late.add(name)
            end = max(end, pointer + size)

    def _read(self, opened: "list[tuple[OpenFile, Header]]", late: bool) -> None:
        plan = self.loading.plan
        direct = DIRECT[self.report.carrier]
        staged = _Staging(self)
        main, targets, later = self.device, self.targets, self.late
        for file, header in opened:
            together: "list[Entry]" = []
            tensors = total = 0
            for entry in header.entries:
                name, _, _, begin, end = entry
                target = targets.get(name)
                if target is None or (name in later) != late:
                    continue
                _, pointer, device, _ = target
                size = end - begin
                total += size
                tensors += 1
                if pointer and (size >= direct or device != main or main == CPU):
                    (plan if device == main else self.elsewhere).add(file, header.data_begin + begin, size, pointer)
                else:
                    together.append(entry)
            self.report.bytes += total
            self.report.tensors += tensors
            for group in groups_of(together, STAGING):
                staged.add(file, header, group)
        staged.finish()


class _Staging:
    """A few buffers on the device that groups pass through."""

    def __init__(self, into: Into) -> None:
        self.into = into
        self.free: "list[Buffer]" = []
        self.made = 0
        self.under_way: "list[tuple[Any, Buffer, int]]" = []

    def add(self, file: OpenFile, header: Header, group: Any) -> None:
        into = self.into
        buffer = self._room(group.size)
        number = 0
        for begin, size, place in group.runs:
            number = into.loading.plan.add(file, header.data_begin + begin, size, buffer.pointer + place) + 1
        self.under_way.append((group, buffer, number))

    def _room(self, size: int) -> Buffer:
        while len(self.under_way) >= STAGING_BUFFERS:
            self._spread()
        for number, buffer in enumerate(self.free):
            if buffer.size >= size:
                return self.free.pop(number)
        with self.into.report.phase("memory"):
            buffer = _memory.allocate(max(size, min(STAGING, size * 2)), self.into.device, self.into.framework)
            _memory.settle(self.into.device, self.into.framework)
        return buffer

    def _spread(self) -> None:
        """Waits for the oldest group and copies its tensors to where they belong."""
        group, buffer, number = self.under_way.pop(0)
        into = self.into
        with into.report.phase("waiting"):
            into.loading.plan.wait(number)
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
