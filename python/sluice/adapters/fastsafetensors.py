# SPDX-License-Identifier: Apache-2.0
"""A copier for fastsafetensors: its loaders and its sharing among GPUs, with the bytes carried by Sluice.

    import sluice.adapters.fastsafetensors as copier
    copier.register()
    loader = SafeTensorsFileLoader(pg, device, copier_type="sluice")

Where a version has no registry of copiers, `register()` says so: its GDS mode is carried by Sluice then after
`sluice.install()`.
"""

from __future__ import annotations

from typing import Any

from .._open_file import OpenFile
from .._sliced_plan import sliced_plan_of

NAME = "sluice"


class Copier:
    """Carries the data of one file into a buffer of fastsafetensors. The data begins at the buffer's beginning, so that it
    is aligned whatever the length of the header, and nothing is moved afterwards."""

    def __init__(self, metadata: Any, device: Any, framework: Any) -> None:
        self.metadata, self.device, self.framework = metadata, device, framework
        self._ranges: "list[tuple[int, int]] | None" = None
        self._file: "OpenFile | None" = None
        self._plan: Any = None

    def set_byte_ranges(self, byte_ranges: "list[tuple[int, int]] | None") -> None:
        """Reads only these [begin, end) of the file; None: all of the data."""
        self._ranges = byte_ranges

    def submit_io(self, use_buf_register: bool, max_copy_block_size: int) -> Any:
        begin, end = self.metadata.header_length, self.metadata.size_bytes
        buffer = self.framework.alloc_tensor_memory(end - begin, self.device)
        try:
            self._file = OpenFile(self.metadata.src)
            self._plan = sliced_plan_of().start()
            for first, last in [(begin, end)] if self._ranges is None else self._ranges:
                if not begin <= first <= last <= end:
                    raise ValueError(f"bytes {first} to {last} are not in the data of {self.metadata.src}")
                self._plan.add(self._file, first, last - first, buffer.get_base_address() + first - begin)
            self._plan.seal()
        except BaseException:
            self._end(cancel=True)
            self.framework.free_tensor_memory(buffer, self.device)
            raise
        return buffer

    def wait_io(self, gbuf: Any, dtype: Any = None, noalign: bool = False) -> "dict[str, Any]":
        try:
            self._plan.wait()
        finally:
            self._end(cancel=False)
        others = {} if dtype is None else {"dtype": dtype}
        return self.metadata.get_tensors(gbuf, self.device, self.metadata.header_length, **others)

    def _end(self, cancel: bool) -> None:
        if self._plan is not None:
            if cancel:
                self._plan.cancel()
            self._plan.close()
        if self._file is not None:
            self._file.close()


def factory(device: Any, **_: Any) -> Any:
    """What fastsafetensors asks for: a function that makes the copier of a file."""
    return lambda metadata, device, framework: Copier(metadata, device, framework)


def register() -> None:
    """Makes the copier known to fastsafetensors. RuntimeError where its version has no registry."""
    try:
        from fastsafetensors.copier.registry import register_copier_constructor
    except ImportError as error:
        raise RuntimeError(f"This fastsafetensors has no registry of copiers ({error}). Call sluice.install() before it is "
                           "imported: its GDS mode is Sluice's then.") from error
    register_copier_constructor(NAME)(factory)
