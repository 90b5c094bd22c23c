# SPDX-License-Identifier: Apache-2.0
"""Adapters against stand-ins of the interfaces that they serve (stand_ins.py)."""

from __future__ import annotations

import os
import sys
import unittest
from unittest import mock

from support import HERE, TestCase, python, some_tensors

import stand_ins
from sluice import _cuda, _memory
from sluice import safetensors as st


class VLLM(TestCase):
    def load(self, config, files, prefix="", **how):
        """What a loader of the format yields; the framework's tensors are our own here, PyTorch being absent."""
        from sluice.adapters import vllm

        registered, default, modules = stand_ins.vllm(**how)
        theirs = getattr(default, "safetensors_weights_iterator", None)
        iterate = st.iterate
        with stand_ins.installed(*modules), mock.patch.object(vllm, "_registered", False), mock.patch.object(
                st, "iterate", lambda *a, framework, **k: iterate(*a, framework="sluice", **k)):
            vllm.register()
            vllm.register()
            loader = registered["sluice"](config)
            found = list(loader._get_weights_iterator(stand_ins.Source(files, prefix)))
        self.assertIs(getattr(default, "safetensors_weights_iterator", None), theirs)
        return found

    def test_the_format_yields_every_tensor_with_its_prefix(self):
        tensors = some_tensors(30)
        files = [self.model(tensors)]
        for as_generator in (False, True):
            config = stand_ins.LoadConfig(model_loader_extra_config={"memory": 4096, "threads": 2, "num_threads": 8})
            found = self.load(config, files, "model.", as_generator=as_generator)
            self.assert_same(dict(found), {f"model.{name}": one for name, one in tensors.items()})
            self.assertEqual(config.model_loader_extra_config["memory"], 4096, "vLLM's own configuration was changed")
            self.assertEqual(config.load_format, "sluice")

    def test_experts_of_other_ranks_are_skipped_by_vllms_own_rule(self):
        tensors = {f"experts.{n}.w": ("U8", (2,), bytes([n, n])) for n in range(4)}
        files = [self.model({**tensors, "norm": ("U8", (1,), b"x")})]
        found = self.load(stand_ins.LoadConfig(), files, as_generator=False, skips={1, 3})
        self.assertEqual([name for name, _ in found], ["experts.1.w", "experts.3.w", "norm"])

    def test_a_version_without_that_iterator_loads_by_itself_and_says_so(self):
        with self.assertLogs("sluice.vllm", "WARNING") as logged:
            found = self.load(stand_ins.LoadConfig(), [], as_generator=False, has_iterator=False)
        self.assertEqual(found, [("theirs", None)])
        self.assertIn("loads by itself", logged.output[0])

    def test_unknown_options_are_refused_by_vllm(self):
        with self.assertRaisesRegex(ValueError, "Unexpected"):
            self.load(stand_ins.LoadConfig(model_loader_extra_config={"memroy": 1}), [], as_generator=False)

    def test_a_version_that_has_no_registry_is_left_alone(self):
        from sluice.adapters import vllm

        with stand_ins.installed(stand_ins.module("vllm.model_executor.model_loader")), mock.patch.object(
                vllm, "_registered", False), self.assertLogs("sluice.vllm", "WARNING"):
            vllm.register()


class FastSafetensors(TestCase):
    def test_the_copier_brings_a_file_to_the_beginning_of_the_buffer(self):
        from sluice._load import Options, open_file
        from sluice.adapters import fastsafetensors as copier

        tensors = some_tensors(30)
        path = self.model(tensors)
        opened, header = open_file(path, Options())
        opened.close()
        registry, modules = stand_ins.fastsafetensors()
        with stand_ins.installed(*modules):
            copier.register()
        framework = stand_ins.FastFramework(0)
        metadata = stand_ins.FastMetadata(path, {entry.name: (entry.begin, entry.end) for entry in header.entries},
                                          header.data_begin, os.path.getsize(path))
        for ranges in (None, [(header.data_begin, os.path.getsize(path))], []):
            one = registry["sluice"]("cuda:0")(metadata, "cuda:0", framework)
            one.set_byte_ranges(ranges)
            buffer = one.submit_io(False, 1 << 30)
            found = one.wait_io(buffer)
            for name, (pointer, size) in found.items() if ranges != [] else ():
                self.assertEqual(_bytes_at(pointer, size), tensors[name][2])
        self.assertEqual(framework.freed, [])

    def test_a_range_outside_of_the_data_is_refused_and_the_memory_given_back(self):
        from sluice.adapters import fastsafetensors as copier

        path = self.model({"a": ("U8", (3,), b"abc")})
        framework = stand_ins.FastFramework(0)
        size = os.path.getsize(path)
        one = copier.factory("cuda:0")(stand_ins.FastMetadata(path, {}, size - 3, size), "cuda:0", framework)
        one.set_byte_ranges([(0, size)])
        with self.assertRaisesRegex(ValueError, "not in the data"):
            one.submit_io(False, 1 << 30)
        self.assertEqual(len(framework.freed), 1)

    def test_a_version_without_a_registry_is_named_with_the_remedy(self):
        from sluice.adapters import fastsafetensors as copier

        with stand_ins.installed(stand_ins.module("fastsafetensors")), self.assertRaisesRegex(RuntimeError, "install"):
            copier.register()


def _bytes_at(pointer, size):
    import ctypes

    room = ctypes.create_string_buffer(max(size, 1))
    _cuda.copy_to_host(0, ctypes.addressof(room), pointer, size)
    return room.raw[:size]


class Patch(TestCase):
    def test_names_are_exchanged_within_the_block_and_put_back(self):
        import sluice

        opener, loader, modules = stand_ins.hugging_face()
        with stand_ins.installed(*modules):
            with self.assertRaises(KeyError), sluice.patch() as patched:
                self.assertIn("transformers.modeling_utils.safe_open", patched.patched)
                self.assertIn("accelerate.utils.modeling.safe_load_file", patched.patched)
                self.assertIsNot(sys.modules["safetensors"].safe_open, opener)
                raise KeyError
            self.assertIs(sys.modules["safetensors"].safe_open, opener)
            self.assertIs(sys.modules["transformers.modeling_utils"].safe_open, opener)
            self.assertIs(sys.modules["accelerate.utils.modeling"].safe_load_file, loader)

    def test_a_file_that_is_asked_for_on_the_cpu_goes_to_the_device_of_the_patch(self):
        import sluice

        data = os.urandom(600)
        path = self.model({"w": ("U8", (20, 30), data)}, metadata={"format": "pt"})
        for device, place in (("cuda", "cuda:0"), (None, "cpu")):
            _, _, modules = stand_ins.hugging_face()
            with stand_ins.installed(*modules), sluice.patch(device=device):
                # As transformers calls it.
                with sys.modules["transformers.modeling_utils"].safe_open(path, framework="sluice", device="cpu",
                                                                          backend="mmap") as file:
                    self.assertEqual(file.metadata(), {"format": "pt"})
                    whole = file.get_slice("w")
                    tensor = whole[...]
                    self.assertEqual((whole.get_shape(), whole.get_dtype()), ([20, 30], "U8"))
            self.assertEqual((tensor.device, tensor.tobytes()), (place, data))

    def test_where_nothing_can_be_patched_that_is_said(self):
        import sluice
        from sluice.adapters import transformers

        with mock.patch.object(transformers, "OPENERS", {}), mock.patch.object(transformers, "LOADERS", {}), \
                self.assertRaisesRegex(RuntimeError, "nothing to patch"), sluice.patch():
            pass


class Checkpoint(TestCase):
    PROGRAM = """
import sys
sys.path.insert(0, sys.argv[2])
import soft_torch
soft_torch.install()
import torch, stand_ins as s
with s.installed(*s.checkpoint(torch.futures.Future)):
    from sluice.adapters.checkpoint import RawStorage, Reader, Writer
    weight = torch.empty(100, 64, dtype=torch.float32, device="cuda"); weight.copy_(torch.randn(100, 64))
    state = {"w": weight, "half": torch.arange(30, dtype=torch.float16).reshape(5, 6).t(), "step": torch.tensor(7),
             "empty": torch.zeros(0, 3), "blob": b"some bytes", "none": b""}
    kinds = lambda v: s.WriteItemType.BYTE_IO if isinstance(v, bytes) else s.WriteItemType.TENSOR
    plan = s.Plan([s.WriteItem(name, kinds(v)) for name, v in state.items()], s.Prefix("__0_"))
    results = Writer(sys.argv[1]).write_data(plan, s.Planner(state)).wait()
    stored = {r.index: r.storage_data for r in results}
    assert set(stored) == set(state) and stored["w"].length == 25600
    reader = Reader(sys.argv[1])
    reader.storage_data = {**stored, "foreign": object()}
    target = {"w": torch.empty(10, 64, device="cuda"), "half": torch.zeros(3, 2, dtype=torch.float64),
              "step": torch.tensor(0), "empty": torch.zeros(0, 3)}
    items = [s.ReadItem(s.LoadItemType.TENSOR, "w", (20, 0), (10, 64)),
             s.ReadItem(s.LoadItemType.TENSOR, "half", (1, 2), (3, 2)),
             s.ReadItem(s.LoadItemType.TENSOR, "step"), s.ReadItem(s.LoadItemType.TENSOR, "empty", (0, 0), (0, 3)),
             s.ReadItem(s.LoadItemType.BYTE_IO, "blob"), s.ReadItem(s.LoadItemType.BYTE_IO, "none"),
             s.ReadItem(s.LoadItemType.TENSOR, "foreign")]
    planner = s.Planner(target)
    reader.read_data(s.Plan(items), planner).wait()
    assert torch.equal(target["w"], weight[20:30])
    assert torch.equal(target["half"], state["half"][1:4, 2:4].double())
    assert target["step"].item() == 7
    assert planner.bytes == {"blob": b"some bytes", "none": b""}
    assert sorted(planner.committed) == ["empty", "half", "step", "w"]
    assert reader.theirs == ["foreign"]
print("done")
"""

    def test_items_are_written_and_read_back_whole_in_part_and_converted(self):
        status, _, _ = python("import torch", timeout=120)
        if status != 0:
            self.skipTest("this Python has no PyTorch")
        status, out, error = python(self.PROGRAM, self.folder, HERE, timeout=120)
        self.assertEqual((status, out), (0, "done\n"), error)


if __name__ == "__main__":
    unittest.main()
