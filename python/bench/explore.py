# SPDX-License-Identifier: Apache-2.0
"""What decides how the loader works: one sweep on the machine at hand, as rows of JSON.

The link by piece size; memory by the allocator; ways of making tensors; large reads that move on through file and memory;
threads and slices of cuFileRead; windows and threads of the copy engine. PyTorch is needed.
"""

from __future__ import annotations

import ctypes
import os
import statistics
import time

import sluice

sluice.install()  # before PyTorch, which brings a libcufile of its own

import torch  # noqa: E402

import sluice.safetensors as st  # noqa: E402
from sluice import _abi, _cuda, _dlpack, _memory, library  # noqa: E402
from sluice._header import Entry  # noqa: E402
from sluice._open_file import OpenFile  # noqa: E402
from sluice._sliced_plan import MIB, sliced_plan_of  # noqa: E402
from sluice._staged import Windows, free_staging, staged_plan_of  # noqa: E402
from sluice._tensors import Tensor, _strides  # noqa: E402

GIB = 1 << 30
# MiB of a window, windows a thread, streams (0: one a thread).
WINDOWS_QUICK = ((2, 2, 0), (4, 2, 0), (4, 2, 2))
WINDOWS_ALL = ((1, 2, 0), (2, 2, 0), (2, 3, 0), (3, 2, 0), (4, 2, 0), (5, 2, 0), (2, 2, 1), (4, 2, 1), (2, 2, 2), (4, 2, 2),
               (4, 2, 4), (2, 4, 2))


class Sweep:
    """Runs rows until the time is up; each tells itself as it comes."""

    def __init__(self, paths: "list[str]", device: int, seconds: float, repeats: int, quick: bool) -> None:
        self.paths, self.device, self.repeats, self.quick = paths, device, repeats, quick
        self.end = time.monotonic() + seconds
        self.rows: "list[dict]" = []

    def row(self, what: str, **about: object) -> None:
        self.rows.append({"what": what, **about})
        print(what, *(f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}"
                      for name, value in about.items()), flush=True)

    def over(self) -> bool:
        return time.monotonic() > self.end

    def link(self) -> None:
        """Pinned copies of one size on two streams, back to back."""
        memory = Windows.take(self.device, 128 * MIB, 1)
        target = _cuda.allocate(self.device, 128 * MIB)
        streams = [_cuda.Stream(self.device) for _ in range(2)]
        for piece in (1, 2, 4, 8, 16, 32, 64):
            best = 0.0
            for _ in range(3):
                with _cuda.current(self.device) as there:
                    began = time.perf_counter()
                    for turn in range(2 * GIB // (piece * MIB)):
                        at = turn * piece * MIB % (128 * MIB)
                        there.call("cuMemcpyHtoDAsync_v2", target + at, memory.pointer + at, piece * MIB,
                                   streams[turn % 2].handle)
                    for stream in streams:
                        there.call("cuStreamSynchronize", stream.handle)
                    best = max(best, 2 * GIB / (time.perf_counter() - began) / 1e9)
            self.row("link", piece_mib=piece, gb_per_second=best)
        _cuda.free(self.device, target)
        memory.give_back()

    def allocation(self) -> None:
        free = torch.cuda.mem_get_info(self.device)[0]
        for size in (256 * MIB, GIB, 2 * GIB, 4 * GIB, 16 * GIB):
            if size > free:
                continue
            times = []
            for _ in range(3):
                began = time.perf_counter()
                memory = torch.empty(size, dtype=torch.uint8, device=f"cuda:{self.device}")
                middle = time.perf_counter()
                del memory
                torch.cuda.empty_cache()
                times.append((middle - began, time.perf_counter() - middle))
            self.row("allocation", mib=size // MIB, first_ms=times[0][0] * 1e3,
                     ms=statistics.median(t[0] for t in times) * 1e3, free_ms=statistics.median(t[1] for t in times) * 1e3)
        for size in (GIB, 4 * GIB):
            count = min(16, free * 9 // 10 // size)
            began = time.perf_counter()
            memory = [torch.empty(size, dtype=torch.uint8, device=f"cuda:{self.device}") for _ in range(count)]
            self.row("allocation of many", mib=size // MIB, count=count, ms=(time.perf_counter() - began) * 1e3)
            del memory
            torch.cuda.empty_cache()
        for windows in (64, 128, 256):
            began = time.perf_counter()
            memory = Windows(self.device, windows * MIB, 1)
            self.row("pinning", mib=windows, ms=(time.perf_counter() - began) * 1e3)
            memory.free()

    def views(self) -> None:
        """18,867 tensors of 768 x 2048 in bfloat16, over one buffer, by each way."""
        count, shape, size = 18867, (768, 2048), 768 * 2048 * 2
        whole = torch.empty(2 * GIB, dtype=torch.uint8, device=f"cuda:{self.device}")
        typed, room = whole.view(torch.bfloat16), 2 * GIB // size
        buffer = _memory.Buffer(whole.data_ptr(), 2 * GIB, self.device, whole)
        entry = Entry("name", "BF16", shape, 0, size)
        from sluice._tensors import maker

        make = maker(buffer, "pt")
        ways = {
            "as_strided": lambda at: torch.as_strided(typed, shape, (shape[1], 1), at // 2),
            "as_strided, strides computed": lambda at: torch.as_strided(typed, shape, _strides(shape), at // 2),
            "tensor.as_strided": lambda at: typed.as_strided(shape, (shape[1], 1), at // 2),
            "narrow.view.view": lambda at: whole.narrow(0, at, size).view(torch.bfloat16).view(shape),
            "typed slice.view": lambda at: typed[at // 2:(at + size) // 2].view(shape),
            "set_": lambda at: torch.empty(0, dtype=torch.bfloat16, device=whole.device).set_(
                typed.untyped_storage(), at // 2, shape, (shape[1], 1)),
            "maker": lambda at: make(entry, at),
            "capsule + from_dlpack": lambda at: torch.utils.dlpack.from_dlpack(_dlpack.capsule(
                buffer.pointer + at, shape, (4, 16, 1), (2, self.device), buffer, False)),
            "Tensor, no framework": lambda at: Tensor(buffer, buffer.pointer + at, shape, "BF16", size),
        }
        for name, way in ways.items():
            began = time.perf_counter()
            kept = [way(number % room * size) for number in range(count)]
            taken = time.perf_counter() - began
            began = time.perf_counter()
            del kept
            self.row("views", way=name, us_each=taken / count * 1e6, us_to_drop=(time.perf_counter() - began) / count * 1e6)

    def _timed(self, load) -> "list[float]":
        """GB/s of repeats; the first one fills the caches."""
        speeds = []
        for turn in range(self.repeats + 1):
            began = time.perf_counter()
            size = load()
            torch.cuda.synchronize(self.device)
            if turn:
                speeds.append(size / (time.perf_counter() - began) / 1e9)
        return speeds

    def engines(self, what: str = "engine") -> None:
        """Threads and slices, with the memory there already: what carries the bytes best?"""
        files = [OpenFile(path) for path in self.paths]
        sizes = [file.size() for file in files]
        targets = [torch.empty(size, dtype=torch.uint8, device=f"cuda:{self.device}") for size in sizes]

        def run(plan) -> int:
            plan.start()
            for file, size, target in zip(files, sizes, targets):
                plan.add(file, 0, size, target.data_ptr())
            plan.seal()
            plan.wait()
            plan.close()
            return sum(sizes)

        def report(name: str, make, **about: object) -> None:
            if not self.over():
                used = time.process_time()
                speeds = self._timed(lambda: run(make()))
                used = (time.process_time() - used) / (self.repeats + 1) / (sum(sizes) / GIB)
                self.row(what, way=name, **about, gb_per_second=statistics.median(speeds), best=max(speeds),
                         processor_s_per_gib=used)

        for threads in (4,) if self.quick else (1, 2, 4):
            for piece in (32,) if self.quick else (16, 32, 128):
                report("cuFileRead", lambda t=threads, p=piece: sliced_plan_of(t, p * MIB), threads=threads, slice_mib=piece)
        report("batches", _Batches, entry_mib=3, entries=_Batches.ENTRIES)
        for threads in (8, 12, 15) if self.quick else (10, 12, 14):
            for piece, windows, streams in WINDOWS_QUICK if self.quick else WINDOWS_ALL:
                report("copy engine", lambda t=threads, p=piece, w=windows, s=streams: staged_plan_of(
                    self.device, t, p * MIB, w, s), threads=threads, window_mib=piece, windows=windows, streams=streams)
                free_staging()
        for file in files:
            file.close()

    def walks(self) -> None:
        """Large reads of one file by one call each, and by plans: does it matter whether the place in the file, or that in
        memory, moves on? With SLUICE_LINKS it tells what several links make of it."""
        path, size = max(((path, os.path.getsize(path)) for path in self.paths), key=lambda one: one[1])
        size = min(size // GIB, 8) * GIB
        if size < 2 * GIB:
            return self.row("walk", left_out=f"{path} is the largest file, and smaller than 2 GiB")
        memory = torch.empty(size, dtype=torch.uint8, device=f"cuda:{self.device}")
        with sluice.File(path) as file:

            def by_calls(step: int, file_moves: bool, memory_moves: bool) -> int:
                for at in range(0, size, step):
                    part = memory[at if memory_moves else 0:][:step]
                    if file.read(part, step, file_offset=at if file_moves else 0) != step:
                        raise OSError(f"{path} ended early")
                return size

            def by_a_plan(at_a_time: int) -> int:
                with sluice.Plan(at_a_time=at_a_time) as plan:
                    plan.add(file, memory, size)
                    plan.submit()
                    plan.wait()
                return size

            for step in (256 * MIB,) if self.quick else (GIB, 256 * MIB):
                for moves in ((False, False), (False, True), (True, False), (True, True)):
                    if not self.over():
                        speeds = self._timed(lambda s=step, m=moves: by_calls(s, *m))
                        self.row("walk", mib=step // MIB, file_moves=moves[0], memory_moves=moves[1],
                                 gb_per_second=statistics.median(speeds))
            for at_a_time in (4,) if self.quick else (1, 2, 4):
                if not self.over():
                    self.row("walk by a plan", at_a_time=at_a_time,
                             gb_per_second=statistics.median(self._timed(lambda a=at_a_time: by_a_plan(a))))

    def loads(self) -> None:
        """The whole loader, memory and tensors included; groups of several sizes, with PyTorch's memory kept and not."""
        for engine in ("cufile", "staged"):
            for group in (GIB // 2, GIB, 2 * GIB, 8 * GIB):
                for keep in (True, False):
                    if self.over():
                        return
                    reports = []

                    def once() -> int:
                        if not keep:
                            torch.cuda.empty_cache()
                        loaded = st.load_files(self.paths, self.device, framework="pt", engine=engine, group_size=group)
                        reports.append(loaded.report)
                        return loaded.report.bytes

                    speeds = self._timed(once)
                    self.row("load_files", engine=engine, group_mib=group // MIB, memory_kept=keep,
                             gb_per_second=statistics.median(speeds), best=max(speeds),
                             phases={name: round(taken * 1e3, 1) for name, taken in reports[-1].phases.items()})
        torch.cuda.empty_cache()


class _Batches:
    """3 MiB at a time by batches of 128 entries, two on their way."""

    SIZE, ENTRIES = 3 * MIB, 128

    def __init__(self) -> None:
        self.work: "list[tuple]" = []
        self.calls = library().calls

    def start(self) -> None:
        pass

    def add(self, file: OpenFile, offset: int, size: int, pointer: int) -> None:
        self.work += [(file.handle, offset + at, min(self.SIZE, size - at), pointer + at)
                      for at in range(0, size, self.SIZE)]

    def seal(self) -> None:
        pass

    def wait(self) -> None:
        under_way: "list[tuple]" = []
        for begin in range(0, len(self.work), self.ENTRIES):
            if len(under_way) == 2:
                self._collect(*under_way.pop(0))
            part = self.work[begin:begin + self.ENTRIES]
            batch, entries = ctypes.c_void_p(), (_abi.Parameters * len(part))()
            for entry, (handle, offset, size, pointer) in zip(entries, part):
                entry.mode, entry.memory, entry.file_offset, entry.size, entry.file = 1, pointer, offset, size, handle
            library().check(self.calls.cuFileBatchIOSetUp(ctypes.byref(batch), self.ENTRIES), "setting up a batch")
            library().check(self.calls.cuFileBatchIOSubmit(batch, len(part), entries, 0), "submitting a batch")
            under_way.append((batch, len(part)))
        for one in under_way:
            self._collect(*one)

    def _collect(self, batch: ctypes.c_void_p, count: int) -> None:
        events, number = (_abi.Event * count)(), ctypes.c_uint(count)
        library().check(self.calls.cuFileBatchIOGetStatus(batch, count, ctypes.byref(number), events, None), "a batch")
        self.calls.cuFileBatchIODestroy(batch)
        if number.value != count or any(event.status != _abi.COMPLETE for event in events):
            raise OSError(f"{number.value} of {count} entries of a batch ended")

    def close(self) -> None:
        pass


def explore(paths: "list[str]", device: int, seconds: float, repeats: int, only: "list[str]",
            quick: bool = False) -> "list[dict]":
    sweep = Sweep(paths, device, seconds, repeats, quick)
    for part in ("link", "allocation", "views", "engines", "loads", "walks"):
        if not only or part in only:
            try:
                getattr(sweep, part)()
            except Exception as error:  # noqa: B902 - the other parts are of use by themselves
                sweep.row(part, error=f"{type(error).__name__}: {error}")
            torch.cuda.empty_cache()
    return sweep.rows
