# SPDX-License-Identifier: Apache-2.0
"""The loader: headers, layout, memory, one plan, tensors. `safetensors.py` is the face of it.

The steps overlap: while a file's bytes are on their way, its tensors are made and the next header is read.
"""

from __future__ import annotations

import contextlib
import operator
import os
from collections import deque
from typing import Iterator

from . import _memory, _sliced_plan, _staged, _tensors
from ._collector import HeldOff
from ._errors import SluiceError, cut_short
from ._explain import explain_handle
from ._header import Entry, Header, SafetensorError, read_header
from ._layout import Group, groups_of
from ._library import library
from ._library_plan import LibraryPlan
from ._memory import CPU, Buffer
from ._open_file import OpenFile, transfer
from ._report import Report
from ._sliced_plan import NativeSlicedPlan, SlicedPlan, sliced_plan_of

GIB = 1 << 30
# One buffer holds at most this much, unless one tensor needs more, so that memory can be given back in parts.
GROUP = 2 * GIB


class Loaded(dict):
    """The tensors by name: a dict with a `report` of how they came."""

    report: Report
    metadata: "dict[str, dict[str, str] | None]"


def positive(name: str, value: object, standard: str) -> None:
    """Refuses what is no number of things or bytes; None stands for the standard."""
    try:
        allowed = value is None or operator.index(value) > 0  # type: ignore[arg-type]
    except TypeError:
        allowed = False
    if not allowed:
        raise ValueError(f"{name}={value!r}: say a whole number from 1 on, or leave it out for {standard}")


class Options:
    """How to read; every loader takes these as keyword arguments."""

    __slots__ = ("threads", "slice_size", "group_size", "direct", "engine")

    def __init__(self, threads: "int | None" = None, slice_size: "int | None" = None, group_size: "int | None" = None,
                 direct: "bool | None" = None, engine: "str | None" = None) -> None:
        if engine not in (None, "cufile", "plan", "staged"):
            raise ValueError(f"{engine!r} is no engine: say \"cufile\", \"plan\", \"staged\", or nothing for the first")
        for name, value in (("threads", threads), ("slice_size", slice_size), ("group_size", group_size)):
            positive(name, value, "the loader's choice")
        self.threads = threads
        self.slice_size = slice_size
        self.group_size = group_size or GROUP
        self.direct = bool(direct)
        self.engine = engine

    def engine_for(self, device: int) -> str:
        """Who carries the bytes: plans of the library, or `cuFileRead`; pinned windows and the copy engine where asked for.

        Plans carry a model as one request, and were never far behind: several threads that call `cuFileRead` get in each
        other's way where processors are few, and windows are ahead on one machine and behind on another. Past the page
        cache the drive decides, and single large reads keep it busier.
        """
        if self.engine == "staged" and (device == CPU or self.direct):
            return "cufile"
        if self.engine is None:
            return "cufile" if device == CPU or self.direct or not library().is_sluice else "plan"
        return self.engine

    def plan(self, device: int, size: int) -> "SlicedPlan | NativeSlicedPlan | LibraryPlan":
        if self.engine_for(device) == "plan":
            return LibraryPlan(self.threads or 0)
        if self.engine_for(device) == "staged":
            threads = self.threads or min(_staged.THREADS, max((os.cpu_count() or 1) - 2, 1))
            return _staged.staged_plan_of(device, threads, self.slice_size or _staged.WINDOW)
        return sliced_plan_of(self.threads or _sliced_plan.THREADS, self.slice_size or _sliced_plan.SLICE)


def paths_of(filenames: object) -> "list[str]":
    """One name or several; a folder stands for its *.safetensors files."""
    if isinstance(filenames, (str, os.PathLike)):
        filenames = [filenames]
    found: "list[str]" = []
    for name in filenames:  # type: ignore[attr-defined]
        path = os.fspath(name)
        if os.path.isdir(path):
            inside = sorted(entry for entry in os.listdir(path) if entry.endswith(".safetensors"))
            if not inside:
                raise FileNotFoundError(2, "there is no *.safetensors file in the folder", path)
            found += [os.path.join(path, entry) for entry in inside]
        else:
            found.append(path)
    if not found:
        raise ValueError("no file was named")
    return found


def open_file(path: str, options: Options) -> "tuple[OpenFile, Header]":
    """Opens a file and reads its header. With `direct`, past the page cache where the file system can."""
    file = OpenFile(path)
    try:
        header = read_header(file.descriptor, path, file.size())
        if options.direct:
            with contextlib.suppress(OSError, SluiceError):
                past_cache = OpenFile(path, direct=True, same_as=file.descriptor)
                file.close()
                return past_cache, header
    except BaseException:
        file.close()
        raise
    return file, header


def tell_routes(report: Report, file: OpenFile) -> None:
    """Adds the file's path and reason to the report, once for each."""
    if report.device == CPU:
        return
    with contextlib.suppress(SluiceError):
        for one in explain_handle(file.handle, report.device)[:1]:
            told = {"path": one.path, "reason": one.reason, "sentence": one.sentence, "remedy": one.remedy}
            if told not in report.routes:
                report.routes.append(told)


class Loading:
    """One load of several files, group by group, in the order of files and data."""

    def __init__(self, filenames: object, device: object, framework: str, options: Options, report: Report) -> None:
        self.paths = paths_of(filenames)
        self.device = _memory.device_number(device)
        self.framework = framework
        self.options = options
        self.report = report
        size = sum(os.path.getsize(path) for path in self.paths if os.path.exists(path))
        report.carrier = options.engine_for(self.device)
        self.plan = options.plan(self.device, size)
        self.files: "list[OpenFile]" = []
        self.metadata: "dict[str, dict[str, str] | None]" = {}
        self._names: "dict[str, str]" = {}

    def __enter__(self) -> "Loading":
        self.plan.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            self.plan.cancel()
        self.plan.close()
        for file in self.files:
            file.close()

    def groups(self) -> "Iterator[tuple[OpenFile, Header, Group]]":
        """The groups of all files; opens each file when it comes to it."""
        for path in self.paths:
            with self.report.phase("headers"), HeldOff():
                file, header = self.open(path)
                groups = groups_of(header.entries, self.options.group_size, header.data_begin if file.direct else None)
            for group in groups:
                yield file, header, group

    def open(self, path: str) -> "tuple[OpenFile, Header]":
        """One of the files; it is closed with the load."""
        file, header = open_file(path, self.options)
        self.files.append(file)
        self.metadata[path] = header.metadata
        self._check_names(path, header)
        self.report.files += 1
        tell_routes(self.report, file)
        return file, header

    def _check_names(self, path: str, header: Header) -> None:
        for entry in header.entries:
            there = self._names.setdefault(entry.name, path)
            if there is not path:
                raise SafetensorError(f"tensor {entry.name!r} is in {there} and in {path}: which one is meant?")

    def start(self, file: OpenFile, header: Header, group: Group) -> "tuple[Buffer, int]":
        """Gives a group its memory and lets its bytes come. The buffer, and how many ranges of the plan are due then."""
        with self.report.phase("memory"):
            buffer = _memory.allocate(group.size, self.device, self.framework)
            _memory.settle(self.device, self.framework)
        number = 0
        for begin, size, place in group.runs:
            number = self.plan.add(file, header.data_begin + begin, size, buffer.pointer + place) + 1
            self.report.bytes += size
        self.report.tensors += len(group.places)
        return buffer, number


def load(filenames: object, device: object, framework: str, options: Options) -> Loaded:
    """Everything, at once."""
    loaded = Loaded()
    number = _memory.device_number(device)
    report = loaded.report = Report("load", number)
    with Loading(filenames, number, framework, options, report) as loading:
        loaded.metadata = loading.metadata
        for file, header, group in loading.groups():
            buffer, _ = loading.start(file, header, group)
            with report.phase("tensors"), HeldOff():
                make = _tensors.maker(buffer, framework)
                for entry, place in group.places:
                    loaded[entry.name] = make(entry, place)
        loading.plan.seal()
        with report.phase("waiting"):
            loading.plan.wait()
            report.first_tensor()
        with report.phase("closing"):
            loading.plan.close()
    report.finish()
    return loaded


def iterate(filenames: object, device: object, framework: str, options: Options, report: Report,
            ) -> "Iterator[tuple[str, object]]":
    """Tensor after tensor, with the next group on its way; two groups are in memory, besides what the caller keeps."""
    ahead: "deque[tuple[Group, Buffer, int]]" = deque()
    with Loading(filenames, device, framework, options, report) as loading:
        groups = loading.groups()
        more = True
        while more or ahead:
            while more and len(ahead) < 2:
                found = next(groups, None)
                if found is None:
                    more = False
                    loading.plan.seal()
                else:
                    buffer, number = loading.start(*found)
                    ahead.append((found[2], buffer, number))
            if not ahead:
                break
            group, buffer, number = ahead.popleft()
            with report.phase("waiting"):
                loading.plan.wait(number)
            make = _tensors.maker(buffer, framework)
            del buffer
            for entry, place in group.places:
                with report.phase("tensors"):
                    tensor = make(entry, place)
                report.first_tensor()
                yield entry.name, tensor
                del tensor
            del make
    report.finish()


def read_entry(file: OpenFile, header: Header, entry: Entry, device: int, framework: str,
               threads: "int | None" = None) -> object:
    """One tensor, with memory of its own."""
    size = entry.end - entry.begin
    buffer = _memory.allocate(size, device, framework)
    _memory.settle(device, framework)
    read_range(file, header.data_begin + entry.begin, size, buffer.pointer, threads)
    return _tensors.maker(buffer, framework)(entry, 0)


def read_range(file: OpenFile, offset: int, size: int, pointer: int, threads: "int | None" = None) -> None:
    """One range, by this thread when it is small, by a plan when it is large."""
    if size <= _sliced_plan.SLICE:
        if size and transfer(file, pointer, size, offset) < size:
            raise cut_short(file.path, file.size())
        return
    plan = sliced_plan_of(threads or _sliced_plan.THREADS).start()
    try:
        plan.add(file, offset, size, pointer)
        plan.seal()
        plan.wait()
    finally:
        plan.close()
