# SPDX-License-Identifier: Apache-2.0
"""Stand-ins of other packages' interfaces, as far as our adapters touch them: the names, arguments and habits that their
sources show. They are put into sys.modules, and taken out again by what `installed()` returns.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import io
import sys
import types
from typing import Any


def module(name: str, **content: Any) -> types.ModuleType:
    made = types.ModuleType(name)
    made.__dict__.update(content)
    return made


@contextlib.contextmanager
def installed(*modules: types.ModuleType):
    """Makes modules importable, with the packages above them, until the block ends."""
    names = {}
    for one in modules:
        parts = one.__name__.split(".")
        for end in range(1, len(parts)):
            above = ".".join(parts[:end])
            if above not in sys.modules:
                names.setdefault(above, module(above, __path__=[]))
        names[one.__name__] = one
    before = {name: sys.modules.get(name) for name in names}
    for name, one in names.items():
        sys.modules[name] = one
        parent, _, last = name.rpartition(".")
        if parent in names:
            setattr(names[parent], last, one)
    try:
        yield
    finally:
        for name, was in before.items():
            if was is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = was


# --- vLLM ------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class LoadConfig:
    load_format: str = "sluice"
    model_loader_extra_config: dict = dataclasses.field(default_factory=dict)
    device: "str | None" = None
    use_tqdm_on_load: bool = False


@dataclasses.dataclass
class Source:
    model_or_path: "list[str]"  # the stand-in takes the files themselves
    prefix: str = ""


def vllm(as_generator: bool, has_iterator: bool = True, skips=None):
    """vLLM's registry and default loader; `as_generator`: whether _get_weights_iterator is one (older) or returns one."""
    registered: dict = {}

    def register_model_loader(name):
        def take(loader):
            registered[name] = loader
            return loader

        return take

    default = module("vllm.model_executor.model_loader.default_loader")

    class DefaultModelLoader:
        def __init__(self, load_config):
            unknown = set(load_config.model_loader_extra_config) - {"enable_multithread_load", "num_threads"}
            if unknown:
                raise ValueError(f"Unexpected extra config keys {unknown}")
            self.load_config = load_config
            self.local_expert_ids = skips

        def _choose(self, source):
            if self.load_config.load_format != "safetensors":
                raise ValueError(f"Unknown load_format: {self.load_config.load_format}")
            read = getattr(default, "safetensors_weights_iterator", None) or default.pt_weights_iterator
            return ((source.prefix + name, tensor) for name, tensor in read(
                source.model_or_path, self.load_config.use_tqdm_on_load, None, local_expert_ids=self.local_expert_ids))

    if as_generator:
        def _get_weights_iterator(self, source):
            yield from self._choose(source)
    else:
        def _get_weights_iterator(self, source):
            return self._choose(source)
    DefaultModelLoader._get_weights_iterator = _get_weights_iterator
    default.DefaultModelLoader = DefaultModelLoader
    default.pt_weights_iterator = lambda *_, **__: iter([("theirs", None)])
    if has_iterator:
        default.safetensors_weights_iterator = default.pt_weights_iterator
    loaders = module("vllm.model_executor.model_loader", __path__=[], register_model_loader=register_model_loader,
                     default_loader=default)
    experts = module("vllm.model_executor.model_loader.ep_weight_filter",
                     should_skip_weight=lambda name, local: not any(f"experts.{one}." in name for one in local)
                     and "experts." in name)
    return registered, default, (loaders, default, experts)


# --- fastsafetensors ---------------------------------------------------------------------------------------------------


class FastBuffer:
    """gds_device_buffer: an address, and nothing that keeps it."""

    def __init__(self, buffer):
        self.buffer = buffer

    def get_base_address(self):
        return self.buffer.pointer


class FastFramework:
    def __init__(self, device_number: int) -> None:
        self.device_number, self.freed = device_number, []

    def alloc_tensor_memory(self, length, device):
        from sluice import _memory

        return FastBuffer(_memory.allocate(max(length, 1), self.device_number, "sluice"))

    def free_tensor_memory(self, buffer, device):
        self.freed.append(buffer)


class FastMetadata:
    """SafeTensorsMetadata: header_length counts the eight bytes, tensors are found by address arithmetic."""

    def __init__(self, path: str, tensors: dict, header_length: int, size: int) -> None:
        self.src, self.tensors, self.header_length, self.size_bytes = path, tensors, header_length, size

    def get_tensors(self, gbuf, device, copy_start_offset, dtype=None):
        base = gbuf.get_base_address() + self.header_length - copy_start_offset
        return {name: (base + begin, end - begin) for name, (begin, end) in self.tensors.items()}


def fastsafetensors():
    registry: dict = {}

    def register_copier_constructor(name):
        def take(factory):
            registry[name] = factory
            return factory

        return take

    return registry, (module("fastsafetensors.copier.registry", register_copier_constructor=register_copier_constructor),)


# --- safetensors, transformers, accelerate -----------------------------------------------------------------------------


def hugging_face():
    """The modules that hold safe_open and load_file under names of their own."""

    class safe_open:  # noqa: N801 - their name
        pass

    def load_file(filename, device="cpu", *, backend="mmap"):
        raise AssertionError("theirs")

    return safe_open, load_file, (
        module("safetensors", __path__=[], safe_open=safe_open, SafetensorError=Exception),
        module("safetensors.torch", safe_open=safe_open, load_file=load_file),
        module("transformers.modeling_utils", safe_open=safe_open, safe_load_file=load_file),
        module("accelerate.utils.modeling", safe_open=safe_open, safe_load_file=load_file))


# --- torch.distributed.checkpoint -----------------------------------------------------------------------------------------


class WriteItemType(enum.Enum):
    TENSOR = 1
    SHARD = 2
    BYTE_IO = 3


class LoadItemType(enum.Enum):
    TENSOR = 1
    BYTE_IO = 2


@dataclasses.dataclass(frozen=True)
class WriteItem:
    index: str
    type: WriteItemType


@dataclasses.dataclass(frozen=True)
class ReadItem:
    type: LoadItemType
    storage_index: str
    storage_offsets: "tuple[int, ...]" = ()
    lengths: "tuple[int, ...]" = ()


@dataclasses.dataclass(frozen=True)
class WriteResult:
    index: str
    size_in_bytes: int
    storage_data: Any


@dataclasses.dataclass
class Prefix:
    prefix: str


@dataclasses.dataclass
class Plan:
    items: list
    storage_data: Any = None


class Planner:
    """Saves from, and loads into, a dict of tensors and bytes; `parts` says which part of a tensor an item is."""

    def __init__(self, state: dict) -> None:
        self.state, self.committed, self.bytes = state, [], {}

    def resolve_data(self, item):
        data = self.state[item.index]
        return io.BytesIO(data) if isinstance(data, bytes) else data

    def resolve_tensor(self, item):
        return self.state[item.storage_index]

    def commit_tensor(self, item, tensor):
        self.committed.append(item.storage_index)

    def load_bytes(self, item, value):
        self.bytes[item.storage_index] = value.read()


def checkpoint(future):
    class FileSystemWriter:
        def __init__(self, path, sync_files=True):
            self.path, self.sync_files = path, sync_files

    class FileSystemReader:
        def __init__(self, path):
            self.path, self.storage_data, self.theirs = path, {}, []

        def read_data(self, plan, planner):
            self.theirs += [item.storage_index for item in plan.items]
            done = future()
            done.set_result(None)
            return done

    return (module("torch.distributed.checkpoint", __path__=[], FileSystemReader=FileSystemReader,
                   FileSystemWriter=FileSystemWriter),
            module("torch.distributed.checkpoint.planner", LoadItemType=LoadItemType, WriteItemType=WriteItemType),
            module("torch.distributed.checkpoint.storage", WriteResult=WriteResult))
