# SPDX-License-Identifier: Apache-2.0
"""vLLM's load format "sluice": `vllm serve MODEL --load-format sluice`.

vLLM finds `register()` through the entry point of this package and calls it in each of its processes. Which files are
read, and which are left out, stays vLLM's own choice: its loader runs as for "safetensors", with the iterator over the
files exchanged. Where that cannot be done in a version of vLLM, its own iterator is used, and a line in the log says so.

Options, by `--model-loader-extra-config '{"memory": 2147483648}'`: memory (bytes on the device beside the model; two
groups of half of it, or the two largest tensors), threads, slice_size, direct. The other keys are vLLM's.
"""

from __future__ import annotations

import copy
import logging
from typing import Any, Iterator

OURS = ("memory", "threads", "slice_size", "direct")
NAME = "sluice"
ITERATOR = "safetensors_weights_iterator"
_registered = False

logger = logging.getLogger("sluice.vllm")


def register() -> None:
    """Makes the load format known; may be called more than once."""
    global _registered
    if _registered:
        return
    try:
        from vllm.model_executor.model_loader import register_model_loader
        from vllm.model_executor.model_loader import default_loader
    except ImportError as error:
        logger.warning("Sluice does not offer its load format to this version of vLLM: %s", error)
        return
    register_model_loader(NAME)(_loader_class(default_loader))
    _registered = True


def _skip(local_experts: Any) -> Any:
    """vLLM's own word on experts of other ranks; None where it has none."""
    if local_experts is None:
        return None
    try:
        from vllm.model_executor.model_loader.ep_weight_filter import should_skip_weight
    except ImportError:
        return None
    return lambda name: should_skip_weight(name, local_experts)


def _iterator_of(options: "dict[str, Any]", device: Any) -> Any:
    """What stands in for vLLM's iterator over safetensors files."""

    def weights(files: "list[str]", *_: Any, local_expert_ids: Any = None, **__: Any) -> "Iterator[tuple[str, Any]]":
        from .. import safetensors as st
        from .._memory import device_number
        from .._report import Report

        report = Report("vllm", device_number(device))
        skip = _skip(local_expert_ids)
        for name, tensor in st.iterate(files, device, framework="pt", report=report, **options):
            if skip is None or not skip(name):
                yield name, tensor
        logger.info("%s", report)

    return weights


def _loader_class(module: Any) -> type:
    class SluiceModelLoader(module.DefaultModelLoader):  # type: ignore[misc,name-defined]
        """DefaultModelLoader with another iterator over the files."""

        def __init__(self, load_config: Any) -> None:
            extra = dict(getattr(load_config, "model_loader_extra_config", None) or {})
            self.sluice_options = {key: extra.pop(key) for key in OURS if key in extra}
            plain = copy.copy(load_config)
            plain.load_format = "safetensors"  # vLLM refuses to choose files for formats that it does not know
            plain.model_loader_extra_config = extra
            super().__init__(plain)
            self.sluice_device = getattr(load_config, "device", None) or "cuda"

        def _get_weights_iterator(self, source: Any) -> Any:
            theirs = getattr(module, ITERATOR, None)
            if theirs is None:
                logger.warning("This version of vLLM has no %s to exchange: it loads by itself.", ITERATOR)
                return super()._get_weights_iterator(source)
            setattr(module, ITERATOR, _iterator_of(self.sluice_options, self.sluice_device))
            try:
                # It is a plain function in some versions and a generator in others, which looks at the name later.
                found = super()._get_weights_iterator(source)
                return _begun(found) if hasattr(found, "gi_frame") else found
            finally:
                setattr(module, ITERATOR, theirs)

    return SluiceModelLoader


def _begun(generator: Any) -> "Iterator[Any]":
    """Takes the first item, so that what runs before it has run; then the rest."""
    first = next(generator, None)

    def all_of() -> "Iterator[Any]":
        if first is not None:
            yield first
        yield from generator

    return all_of()
