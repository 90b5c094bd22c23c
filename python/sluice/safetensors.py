# SPDX-License-Identifier: Apache-2.0
"""Loads and saves safetensors files, straight between storage and device memory.

    import sluice.safetensors as st

    weights = st.load_files("model-folder", device="cuda")     # a dict of tensors, with weights.report
    st.load_into(model, "model-folder")                        # into parameters that are there already
    for name, tensor in st.iterate("model-folder", "cuda"):    # two groups of tensors in memory at a time
        ...
    with st.safe_open("model.safetensors", framework="pt", device="cuda") as file:   # as safetensors has it
        part = file.get_slice("embedding")[:1024]
    st.save_file(weights, "copy.safetensors")                  # all or nothing: the old file, or the new one

Tensors own their memory: they outlive files, contexts and loaders. Tensors of one file share buffers of up to 2 GiB;
`.clone()` one that is to be kept when the others go.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Iterator, Mapping

from . import _load, _tensors
from ._into import Into, Mismatch
from ._header import SafetensorError
from ._load import Loaded, Options
from ._open import Slice, safe_open
from ._report import Report
from ._save import save

__all__ = ["Loaded", "Mismatch", "Report", "SafetensorError", "Slice", "iterate", "load_file", "load_files",
           "load_into", "safe_open", "save_file"]


def _framework(name: "str | None") -> str:
    """The framework asked for; without one, PyTorch where the program has imported it."""
    if name is None:
        return "pt" if "torch" in sys.modules else "sluice"
    return _tensors.framework_of(name)


def load_file(filename: object, device: object = "cpu", *, framework: "str | None" = None, backend: "str | None" = None,
              **options: object) -> Loaded:
    """The tensors of one file by name. As `safetensors.torch.load_file`, which takes `backend`; it changes nothing here."""
    return load_files([filename], device, framework=framework, backend=backend, **options)


def load_files(filenames: object, device: object = "cpu", *, framework: "str | None" = None,
               backend: "str | None" = None, **options: object) -> Loaded:
    """The tensors of several files, or of a folder's *.safetensors files, by name.

    framework: "pt" (the default once torch is imported), "np", "jax", or "sluice" for tensors of no framework.
    Options: threads, slice_size, group_size (bytes), direct (read past the page cache). `.report` of the result tells
    path, share of the link, and time by phase.
    """
    return _load.load(filenames, device, _framework(framework), Options(**options))  # type: ignore[arg-type]


def iterate(filenames: object, device: object = "cpu", *, framework: "str | None" = None, memory: int = 1 << 30,
            report: "Report | None" = None, **options: object) -> "Iterator[tuple[str, object]]":
    """Yields (name, tensor) in the order of files and data, with the next tensors on their way.

    Two groups of at most `memory` / 2 bytes are in memory at a time, or two tensors where these are larger, besides
    what the caller holds on to: a tensor stays valid as long as the program holds it.
    """
    from ._memory import device_number

    _load.positive("memory", memory, "1 GiB")
    report = report or Report("iterate", device_number(device))
    chosen = Options(**{"group_size": max((memory or 1 << 30) // 2, 1), **options})  # type: ignore[arg-type]
    return _load.iterate(filenames, device, _framework(framework), chosen, report)


def load_into(model: object, filenames: object, *, strict: bool = True, device: object = None,
              **options: object) -> Report:
    """Reads the tensors of files into the parameters and buffers of a model, or into the tensors of a dict.

    Nothing is written where a shape is wrong, or, with `strict`, where a name is missing on either side: Mismatch tells
    which. A target of another type, or one that is not contiguous, is converted after its read; `notes` of the report
    say so. Beside the model, the device needs room for three staging buffers of up to 256 MiB, or three of the largest
    tensors that are converted; for models of thousands of tensors an eighth of what is free is used, 2 GiB at most. `device`
    is where the staging is; by default where the first target is.
    """
    return Into(model, filenames, device, strict, Options(**options)).run()  # type: ignore[arg-type]


def save_file(tensors: "Mapping[str, Any]", filename: "str | os.PathLike[str]",
              metadata: "Mapping[str, str] | None" = None) -> Report:
    """Writes tensors, wherever they are, to a file: from device memory without a copy on the way.

    The bytes go to a temporary file in the same folder, which is made durable and then takes the name: at any moment the
    old file is there as it was, or the new one is complete. A link stays, and what it leads to is written; what is no
    regular file is refused. Tensors that are not contiguous are made so first.
    """
    return save(tensors, filename, metadata)
