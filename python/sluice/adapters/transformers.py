# SPDX-License-Identifier: Apache-2.0
"""transformers and accelerate: `with sluice.patch(device="cuda"): model = AutoModel.from_pretrained(...)`.

Neither has a place to plug a loader in. Both open files by safetensors.safe_open and safetensors.torch.load_file, under
names that they imported; `patch()` exchanges these names, in the modules that have them, until its block ends.

transformers asks for every file on the CPU, and moves the pieces afterwards. With `device` the bytes go to that device
at once, a file being on its way as soon as it is opened; moving a tensor to where it is costs nothing.
"""

from __future__ import annotations

import sys
from typing import Any

from .. import safetensors as st
from .._tensors import FRAMEWORKS

# Module, and the names under which it may hold what is exchanged.
OPENERS = {"safetensors": ("safe_open",), "safetensors.torch": ("safe_open",), "transformers.modeling_utils": ("safe_open",),
           "transformers.core_model_loading": ("safe_open",), "accelerate.utils.modeling": ("safe_open",),
           "accelerate.utils.offload": ("safe_open",), "diffusers.models.model_loading_utils": ("safe_open",)}
LOADERS = {"safetensors.torch": ("load_file",), "transformers.modeling_utils": ("safe_load_file",),
           "accelerate.utils.modeling": ("safe_load_file",), "accelerate.checkpointing": ("load_file",),
           "accelerate.utils.other": ("safe_load_file",)}


class patch:  # noqa: N801 - used as `with patch():`
    """Exchanges the loaders of safetensors, transformers and accelerate for Sluice's, until the block ends.

    device: where tensors go that are asked for on the CPU; None leaves them there, read by Sluice all the same.
    `patched` tells the names that were exchanged, as "module.name".
    """

    def __init__(self, device: object = None) -> None:
        self._device = device
        self._was: "list[tuple[Any, str, Any]]" = []
        self.patched: "list[str]" = []

    def __enter__(self) -> "patch":
        opener, loader = _opener(self._device), _loader(self._device)
        for names, ours in ((OPENERS, opener), (LOADERS, loader)):
            for module_name, attributes in names.items():
                module = sys.modules.get(module_name) or (_imported(module_name) if module_name.startswith("safetensors")
                                                          else None)
                for attribute in attributes:
                    if module is not None and hasattr(module, attribute):
                        self._was.append((module, attribute, getattr(module, attribute)))
                        setattr(module, attribute, ours)
                        self.patched.append(f"{module_name}.{attribute}")
        if not self.patched:
            raise RuntimeError("There is nothing to patch: neither safetensors nor transformers nor accelerate is here. Use "
                               "sluice.safetensors directly.")
        return self

    def __exit__(self, *_: object) -> None:
        while self._was:
            module, attribute, was = self._was.pop()
            setattr(module, attribute, was)


def _imported(name: str) -> Any:
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _target(asked: object, device: object) -> object:
    """Where a tensor goes that was asked for on `asked`."""
    return device if device is not None and str(asked) == "cpu" else asked


def _opener(device: object) -> Any:
    def safe_open(filename: Any, framework: str = "pt", device_asked: Any = "cpu", **others: Any) -> Any:
        asked = others.pop("device", device_asked)
        target = _target(asked, device)
        backend = others.pop("backend", None)
        if others or framework not in FRAMEWORKS:
            raise TypeError(f"sluice.patch() does not know safe_open({framework!r}, {', '.join(others)}): leave its block")
        return st.safe_open(filename, framework, target, backend=backend, prefetch=device is not None)

    return safe_open


def _loader(device: object) -> Any:
    def load_file(filename: Any, device_asked: Any = "cpu", **others: Any) -> Any:
        asked = others.pop("device", device_asked)
        return st.load_file(filename, _target(asked, device), framework="pt", backend=others.pop("backend", None), **others)

    return load_file
