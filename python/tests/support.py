# SPDX-License-Identifier: Apache-2.0
"""What the tests share: the soft GPU as device, model files, a folder for each test."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

os.environ.setdefault("SLUICE_SOFTGPU", "1")

FULL = os.environ.get("SLUICE_TEST_FULL") == "1"
SEED = int(os.environ.get("SLUICE_TEST_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 30)
HERE = pathlib.Path(__file__).resolve().parent

try:
    import numpy
except ImportError:
    numpy = None  # type: ignore[assignment]

needs_numpy = unittest.skipIf(numpy is None, "this Python has no numpy")


def write_model(path, tensors, metadata=None) -> None:
    """tensors: name -> (type, shape, bytes), in the order of their data."""
    head, at = {}, 0
    if metadata is not None:
        head["__metadata__"] = metadata
    for name, (dtype, shape, data) in tensors.items():
        head[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(head).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.writelines(data for _, _, data in tensors.values())


def some_tensors(count=20, seed=SEED):
    """Tensors of many types and shapes, empty ones among them, in an order that leaves many out of step."""
    from sluice._dtypes import DTYPES

    draw = random.Random(seed)
    names = [name for name in DTYPES]
    tensors = {}
    for number in range(count):
        dtype = names[number % len(names)]
        shape = [draw.randrange(0, 9) for _ in range(draw.randrange(0, 4))]
        if DTYPES[dtype].packed:
            shape.append(8)
        size = DTYPES[dtype].bits
        for extent in shape:
            size *= extent
        tensors[f"tensor.{number}"] = (dtype, tuple(shape), draw.getrandbits(size).to_bytes(size // 8, "little") if size
                                       else b"")
    return tensors


class TestCase(unittest.TestCase):
    """A test with a folder of its own."""

    def setUp(self) -> None:
        folder = tempfile.mkdtemp(prefix="sluice-python-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        self.folder = pathlib.Path(folder)

    def model(self, tensors, name="model.safetensors", metadata=None) -> str:
        path = self.folder / name
        write_model(path, tensors, metadata)
        return str(path)

    def assert_same(self, loaded, tensors) -> None:
        self.assertEqual(sorted(loaded), sorted(tensors))
        for name, (dtype, shape, data) in tensors.items():
            self.assertEqual(loaded[name].dtype, dtype)
            self.assertEqual(loaded[name].shape, tuple(shape))
            self.assertEqual(loaded[name].tobytes(), data, f"bytes of {name} differ (SLUICE_TEST_SEED={SEED})")


def python(program, *arguments, environment=None, timeout=60):
    """Runs a text as a program of this Python; its exit status and output."""
    done = subprocess.run([sys.executable, "-B", "-c", program, *map(str, arguments)], capture_output=True, text=True,
                          timeout=timeout, env={**os.environ, **(environment or {})}, check=False)
    return done.returncode, done.stdout, done.stderr


@contextlib.contextmanager
def poisoned_memory(sizes):
    """Takes memory of such sizes and fills it: what was given back too early is overwritten."""
    from sluice import _memory

    taken = [_memory.allocate(size, device, "sluice") for size in sizes for device in (0, _memory.CPU)]
    from sluice import _cuda
    import ctypes

    for buffer in taken:
        if buffer.device == _memory.CPU:
            ctypes.memset(buffer.pointer, 0xA5, buffer.size)
        else:
            _cuda.fill(buffer.device, buffer.pointer, 0xA5, buffer.size)
    yield taken
