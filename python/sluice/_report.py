# SPDX-License-Identifier: Apache-2.0
"""What a load did: bytes, time by phase, the path and the reason, the share of the link."""

from __future__ import annotations

import ctypes
import time
from ctypes import byref, c_float, c_void_p

from . import _cuda
from ._errors import SluiceError
from ._memory import CPU

LINK_PROBE = 64 << 20
_links: "dict[int, float]" = {}


def link_speed(device: int) -> float:
    """What the link carries from pinned host memory to a device, in bytes a second; measured once, in some 20 ms."""
    if device not in _links:
        _links[device] = _measure_link(device)
    return _links[device]


def _measure_link(device: int) -> float:
    host, stream, best = c_void_p(), _cuda.Stream(device), 0.0
    size, rounds = (LINK_PROBE, 5) if not _cuda.driver().is_soft else (LINK_PROBE // 16, 1)  # its link is no link
    target = _cuda.allocate(device, size)
    events = [c_void_p(), c_void_p()]
    try:
        with _cuda.current(device) as there:
            there.call("cuMemAllocHost_v2", byref(host), size)
            ctypes.memset(host, 1, size)
            for event in events:
                there.call("cuEventCreate", byref(event), 0)
            for _ in range(rounds):
                there.call("cuEventRecord", events[0], stream.handle)
                for _ in range(4):
                    there.call("cuMemcpyHtoDAsync_v2", target, host, size, stream.handle)
                there.call("cuEventRecord", events[1], stream.handle)
                there.call("cuEventSynchronize", events[1])
                taken = c_float()
                there.call("cuEventElapsedTime", byref(taken), events[0], events[1])
                best = max(best, 4 * size / max(taken.value / 1000, 1e-9))
    finally:
        with _cuda.current(device) as there:
            for event in events:
                if event:
                    there.functions.cuEventDestroy_v2(event)
            if host:
                there.functions.cuMemFreeHost(host)
        _cuda.free(device, target)
        stream.close()
    return best


class Report:
    """What one load did. `str(report)` is the summary, `as_dict()` the numbers."""

    def __init__(self, what: str, device: int) -> None:
        self.what = what
        self.device = device
        self.carrier = "cufile"  # "plan", or "staged": by pinned windows of the loader and the copy engine
        self.bytes = 0
        self.tensors = 0
        self.files = 0
        self.seconds = 0.0
        self.first_tensor_seconds: "float | None" = None
        self.phases: "dict[str, float]" = {}
        self.routes: "list[dict]" = []
        self.notes: "list[str]" = []
        self.missing: "list[str]" = []  # of load_into(): what no file has
        self.unexpected: "list[str]" = []  # and what the model has not
        self._began = time.perf_counter()

    def phase(self, name: str) -> "_Phase":
        """Adds the time of the block to a phase."""
        return _Phase(self.phases, name)

    def first_tensor(self) -> None:
        if self.first_tensor_seconds is None:
            self.first_tensor_seconds = time.perf_counter() - self._began

    def finish(self) -> "Report":
        self.seconds = time.perf_counter() - self._began
        return self

    @property
    def gigabytes_per_second(self) -> float:
        return self.bytes / self.seconds / 1e9 if self.seconds else 0.0

    @property
    def microseconds_per_tensor(self) -> float:
        """What Python does for each tensor: its line of the header, its place, the object; most of it while bytes move."""
        taken = self.phases.get("headers", 0.0) + self.phases.get("tensors", 0.0)
        return taken / self.tensors * 1e6 if self.tensors else 0.0

    @property
    def link_share(self) -> "float | None":
        """The speed as a share of what the link carries; None for host memory. The first look measures the link."""
        if self.device == CPU:
            return None
        try:
            return self.bytes / self.seconds / link_speed(self.device) if self.seconds else 0.0
        except SluiceError:
            return None

    def as_dict(self) -> dict:
        return {"what": self.what, "device": "cpu" if self.device == CPU else f"cuda:{self.device}", "carrier": self.carrier,
                "bytes": self.bytes, "tensors": self.tensors, "files": self.files, "seconds": self.seconds,
                "first_tensor_seconds": self.first_tensor_seconds, "gb_per_second": self.gigabytes_per_second,
                "link_share": self.link_share,
                "microseconds_per_tensor": self.microseconds_per_tensor, "phases": dict(self.phases),
                "routes": list(self.routes),
                "notes": list(self.notes)}

    def __str__(self) -> str:
        share = self.link_share
        parts = [f"{self.what}: {self.bytes / 1e9:.2f} GB in {self.tensors} tensors of {self.files} files, "
                 f"{self.seconds:.3f} s, {self.gigabytes_per_second:.1f} GB/s"]
        if share is not None:
            parts.append(f" ({share:.2f} of the link)")
        for route in self.routes:
            parts.append(f"; {route['path']} ({route['reason']}: {route['sentence']})")
        if self.phases:
            parts.append("; " + ", ".join(f"{name} {taken * 1000:.1f} ms" for name, taken in self.phases.items()))
        parts.extend(f"; {note}" for note in self.notes[:8])
        return "".join(parts)

    __repr__ = __str__


class _Phase:
    __slots__ = ("_phases", "_name", "_began")

    def __init__(self, phases: "dict[str, float]", name: str) -> None:
        self._phases = phases
        self._name = name

    def __enter__(self) -> None:
        self._began = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self._phases[self._name] = self._phases.get(self._name, 0.0) + time.perf_counter() - self._began
