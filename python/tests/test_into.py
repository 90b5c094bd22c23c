# SPDX-License-Identifier: Apache-2.0
"""Loading into tensors that are there: straight into their memory, or converted, or refused before one is written."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import threading
import unittest
from unittest import mock

from support import TestCase, some_tensors

from sluice import _cuda, _into, _memory
from sluice import safetensors as st
from sluice._errors import DeviceMemoryError, SluiceError
from sluice._fast import native
from sluice._header import Entry
from sluice._load import Options
from sluice._tensors import Tensor


def targets_like(tensors, device=0):
    """Tensors of those shapes and types, in memory full of rubbish."""
    found = {}
    for name, (dtype, shape, data) in tensors.items():
        buffer = _memory.allocate(max(len(data), 1), device, "sluice")
        if device != _memory.CPU:
            _cuda.fill(device, buffer.pointer, 0x5A, buffer.size)
        found[name] = Tensor(buffer, buffer.pointer, tuple(shape), dtype, len(data))
    return found


class Ahead:
    """Models of any size count as large ones; notes what comes before targets are known. `first` is called before that."""

    def __init__(self, many=1, refuses=False, free=1 << 40, most=1 << 30, first=lambda: None):
        watch, self.names, self.plans, self.had_begun = self, [], [], []

        class Watched(_into._Staging):
            def begin_ahead(self, file, header):
                first()
                watch.plans.append(self.into.loading.plan)
                refused = mock.patch.object(_memory, "allocate", side_effect=DeviceMemoryError("no room"))
                with refused if refuses else contextlib.nullcontext():
                    super().begin_ahead(file, header)
                watch.had_begun.append(self.into.loading.plan._filling is None)

            def _begin(self, file, header, group, buffer):
                if not self.into.targets:
                    watch.names += [entry.name for entry, _ in group.places]
                super()._begin(file, header, group, buffer)

        self._patches = [mock.patch.object(_into, "MANY", many), mock.patch.object(_into, "AHEAD", most),
                         mock.patch.object(_into, "_Staging", Watched), mock.patch.object(_into, "STAGING", 1 << 20),
                         mock.patch.object(_cuda, "free_memory", lambda device: (free, 1 << 40))]

    def __enter__(self):
        for patch in self._patches:
            patch.start()
        return self

    def __exit__(self, *_):
        for patch in reversed(self._patches):
            patch.stop()


class Into(TestCase):
    def test_every_tensor_arrives_in_the_memory_that_was_there(self):
        tensors = {**some_tensors(60), "large": ("U8", (17 << 20,), os.urandom(1 << 20) * 17)}
        path = self.model(tensors)
        for device in (0, _memory.CPU):
            targets = targets_like(tensors, device)
            before = {name: target.data_ptr() for name, target in targets.items()}
            report = st.load_into(targets, path)
            self.assert_same(targets, tensors)
            self.assertEqual({name: target.data_ptr() for name, target in targets.items()}, before)
            self.assertEqual(report.tensors, len(tensors))

    def test_either_engine_serves_targets_on_the_device_and_in_host_memory_at_once(self):
        tensors = {**some_tensors(40), "large": ("U8", (17 << 20,), os.urandom(1 << 20) * 17)}
        path = self.model(tensors)
        for engine in ("cufile", "plan", "staged"):
            targets = targets_like(tensors)
            host = targets_like({name: tensors[name] for number, name in enumerate(tensors) if number % 2}, _memory.CPU)
            targets.update(host)
            report = st.load_into(targets, path, device="cuda", engine=engine, slice_size=1 << 20)
            self.assertEqual(report.carrier, engine)
            self.assert_same(targets, tensors)

    def test_no_second_copy_of_the_model_is_made_on_the_device(self):
        tensors = {f"t{n}": ("U8", (1 << 20,), os.urandom(1 << 20)) for n in range(32)}
        path = self.model(tensors)
        allocate = _memory._of_driver

        def watched(size, device):
            buffer = allocate(size, device)
            least.append(_cuda.free_memory(0)[0])
            return buffer

        for engine, passes_staging in (("cufile", True), ("plan", False)):
            targets = targets_like(tensors)
            st.load_into(targets, path, engine=engine)
            least = [_cuda.free_memory(0)[0]]
            with mock.patch.object(_memory, "_of_driver", watched), mock.patch.object(_into, "STAGING", 4 << 20):
                st.load_into(targets, path, engine=engine)
            self.assertEqual(len(least) > 1, passes_staging)
            self.assertLess(least[0] - min(least), 24 << 20)
            self.assert_same(targets, tensors)

    def test_a_wrong_shape_or_type_is_refused_before_a_target_is_written(self):
        tensors = {"a": ("U8", (4,), b"abcd"), "b": ("F32", (1,), b"wxyz")}
        path = self.model(tensors)
        for what, wrong in (("shape", {"a": ("U8", (2, 2), b"abcd")}), ("type", {"b": ("I32", (1,), b"wxyz")})):
            targets = targets_like({**tensors, **wrong})
            with self.subTest(what), self.assertRaises(st.Mismatch) as caught:
                st.load_into(targets, path)
            self.assertIn("as they were", str(caught.exception))
            self.assertTrue(all(set(target.tobytes()) == {0x5A} for target in targets.values()))

    def test_strict_wants_the_same_names_on_both_sides(self):
        tensors = {"a": ("U8", (4,), b"abcd"), "b": ("U8", (1,), b"x")}
        path = self.model(tensors)
        targets = targets_like({"a": tensors["a"], "c": ("U8", (1,), b"y")})
        with self.assertRaisesRegex(st.Mismatch, r"lack \(1\): c\..*no \(1\): b\..*strict=False"):
            st.load_into(targets, path)
        report = st.load_into(targets, path, strict=False)
        self.assertEqual((report.missing, report.unexpected), (["c"], ["b"]))
        self.assertEqual((targets["a"].tobytes(), targets["c"].tobytes()), (b"abcd", b"\x5a"))

    def test_the_collector_rests_while_tensors_are_held_against_targets_and_is_then_as_it_was(self):
        tensors = some_tensors(20)
        path = self.model(tensors)
        seen, describe = set(), _into._describe

        def watched(entry, tensor):
            seen.add(gc.isenabled())
            return describe(entry, tensor)

        self.addCleanup(gc.enable)
        with mock.patch.object(_into, "_describe", watched):
            for switch in (gc.enable, gc.disable):
                switch()
                was = gc.isenabled()
                st.load_into(targets_like(tensors), path)
                self.assertEqual(gc.isenabled(), was)
                self.assertRaises(st.SafetensorError, st.load_into, {}, path)
                self.assertEqual(gc.isenabled(), was)
        self.assertEqual(seen, {False})

    def test_the_collector_is_on_again_after_loads_that_overlap_and_in_a_child_of_a_fork(self):
        from support import python

        status, _, error = python("""
import gc, os
from sluice._collector import HeldOff
first, second = HeldOff(), HeldOff()
first.__enter__()
second.__enter__()
child = os.fork()
if child == 0:
    os._exit(0 if gc.isenabled() else 1)
assert os.waitpid(child, 0)[1] == 0, "off in the child"
first.__exit__()
assert not gc.isenabled()
second.__exit__()
assert gc.isenabled()
""")
        self.assertEqual(status, 0, error)

    def test_a_type_and_a_device_that_were_met_before_are_no_reason_to_look_less_closely(self):
        memory = _memory.allocate(4, _memory.CPU, "sluice")
        dtype = type("dtype", (), {"__str__": lambda _: "torch.uint8"})()
        place = type("device", (), {"type": "cpu"})()

        class Foreign:
            """As PyTorch's."""

            shape, is_meta = (4,), False

            def __init__(self, contiguous=True):
                self.dtype, self.device, self.contiguous = dtype, place, contiguous

            def is_contiguous(self):
                return self.contiguous

            def data_ptr(self):
                return memory.pointer

        path = self.model({"a": ("U8", (4,), b"abcd")})
        for _ in range(2):
            st.load_into({"a": Foreign()}, path)
            self.assertEqual(ctypes.string_at(memory.pointer, 4), b"abcd")
            into = _into.Into({"a": Foreign(contiguous=False)}, path, "cpu", True, Options())
            with into.loading as loading:
                into._fit([loading.open(name)[1] for name in loading.paths])
            self.assertEqual((into.targets["a"].pointer, into.targets["a"].why), (0, "it is not contiguous"))
        bare = type("Bare", (), {"shape": (4,), "dtype": dtype, "device": place})()
        with self.assertRaisesRegex(st.SafetensorError, "no tensor that can be loaded into"):
            st.load_into({"a": bare}, path)
        with self.assertRaisesRegex(st.SafetensorError, "no tensor that can be loaded into"):
            st.load_into({"a": type("Unhashed", (), {"shape": (4,), "dtype": []})()}, path, device="cpu")

    def test_the_extension_finds_the_same_targets_as_python_does_and_leaves_the_same_to_a_closer_look(self):
        if native is None:
            self.skipTest("the extension is not there")
        dtype, other, place = object(), object(), object()

        class Plain:
            """As PyTorch's."""

            shape, place = (2, 3), 0x1000

            def is_contiguous(self):
                return True

            def data_ptr(self):
                return self.place

        Plain.dtype, Plain.device = dtype, place

        def named(**attributes):
            return type("Odd", (Plain,), attributes)()

        def refuse(_):
            raise RuntimeError("not now")

        tensors = {"plain": Plain(), "far": named(place=0x2000), "shape": named(shape=(3, 2)), "type": named(dtype=other),
                   "device": named(device=object()), "gaps": named(is_contiguous=lambda _: False), "unhashed": named(dtype=[]),
                   "bare": object(), "no address": named(data_ptr=refuse), "list": named(shape=[2, 3])}
        entries = [Entry(name, "U8", (2, 3), 6 * number, 6 * number + 6) for number, name in enumerate([*tensors, "absent"])]
        for fit in (native.fit, _into._plain_fit):
            targets = {}
            left = fit(entries, tensors, {dtype: "U8"}, {place: 7}, _into.Target, targets)
            self.assertEqual([entry.name for entry in left], [entry.name for entry in entries[2:]])
            self.assertEqual(targets, {"plain": (tensors["plain"], 0x1000, 7, 6, ""), "far": (tensors["far"], 0x2000, 7, 6, "")})
            self.assertTrue(all(type(target) is _into.Target for target in targets.values()))
        self.assertTrue(native.lie_apart(targets))
        self.assertTrue(native.lie_apart({}))
        for number, (pointer, size, apart) in enumerate(((0x1006, 6, True), (0x1005, 1, False), (0x0FFF, 1, True), (0x0FFF, 2, False),
                                                         (0x1000, 0, True), (0, 1 << 40, True), (0x800, 1 << 40, False))):
            with self.subTest(number):
                self.assertEqual(native.lie_apart({**targets, "more": _into.Target(None, pointer, 7, size, "")}), apart)
        for refused in ((), ([], {}, {}, {}, _into.Target), ((), {}, {}, {}, _into.Target, {})):
            self.assertRaises(TypeError, native.fit, *refused)
        self.assertRaises(TypeError, native.lie_apart, [])

        def interrupt(_):
            raise KeyboardInterrupt

        self.assertRaises(KeyboardInterrupt, native.fit, entries, {"plain": named(data_ptr=interrupt)}, {dtype: "U8"}, {place: 7},
                          _into.Target, {})

    def test_of_thousands_of_one_type_the_first_is_looked_at_closely(self):
        dtype, place = mock.MagicMock(), mock.MagicMock(type="cpu")
        dtype.__str__ = lambda _: "torch.uint8"
        memory = _memory.allocate(4096, _memory.CPU, "sluice")
        count = 400

        class Foreign:
            """As PyTorch's."""

            shape, is_meta, dtype, device = (4,), False, None, None

            def __init__(self, pointer):
                self.pointer = pointer

            def is_contiguous(self):
                return True

            def data_ptr(self):
                return self.pointer

        Foreign.dtype, Foreign.device = dtype, place
        data = os.urandom(4 * count)
        path = self.model({f"t{number}": ("U8", (4,), data[4 * number:4 * number + 4]) for number in range(count)})
        with mock.patch.object(_into, "_describe", side_effect=_into._describe) as describe:
            st.load_into({f"t{number}": Foreign(memory.pointer + 4 * number) for number in range(count)}, path, device="cpu")
        self.assertEqual(describe.call_count, 1)
        self.assertEqual(ctypes.string_at(memory.pointer, 4 * count), data)
        packed = mock.MagicMock()
        packed.__str__ = lambda _: "torch.float4_e2m1fn_x2"
        Foreign.dtype, Foreign.shape = packed, (2, 2)
        st.load_into({"packed": Foreign(memory.pointer)}, self.model({"packed": ("F4", (2, 4), b"abcd")}, "packed"), device="cpu")
        self.assertEqual(ctypes.string_at(memory.pointer, 4), b"abcd")
        Foreign.shape = (2, 4)
        self.assertRaises(st.Mismatch, st.load_into, {"packed": Foreign(memory.pointer)}, self.folder / "packed", device="cpu")

    def test_of_models_of_many_tensors_bytes_come_while_they_are_looked_at_and_no_target_is_written_before_all_fit(self):
        tensors = {"twin": ("U8", (64,), os.urandom(64)), "other twin": ("U8", (64,), os.urandom(64)),
                   "large": ("U8", (3 << 20,), os.urandom(1 << 20) * 3), **some_tensors(60)}
        first, second = dict(list(tensors.items())[:40]), dict(list(tensors.items())[40:])
        paths = [self.model(first, "first"), self.model(second, "second")]
        total = sum(len(data) for _, _, data in tensors.values())
        everything = {name for name, (_, _, data) in first.items() if data}
        for what, expected in (("all", everything), ("little free", {"twin"}), ("little wanted", {"twin"}), ("no room", set()),
                               ("one on the host", everything - {"twin"}), ("shared", everything),
                               ("few of them", {"other twin", "large"}), ("too few of them", set()), ("lacking", everything - {"large"}), ("wrong", everything)):
            targets = targets_like(tensors)
            if what == "one on the host":
                targets.update(targets_like({"twin": tensors["twin"]}, _memory.CPU))
            elif what == "shared":
                targets["other twin"] = targets["twin"]
            elif "few of them" in what:
                targets = {name: targets[name] for name in ("other twin", "large")}
            elif what == "lacking":
                del targets["large"]
            elif what == "wrong":
                last = list(second)[-1]
                targets.update(targets_like({last: ("U8", (1,), b"x")}))
            free = 8 * 64 + 7 if what == "little free" else 1 << 40
            with self.subTest(what), Ahead(many=3 if what == "too few of them" else 1, refuses=what == "no room", free=free,
                                           most=64 if what == "little wanted" else 1 << 30) as ahead:
                if what in ("lacking", "wrong"):
                    self.assertRaisesRegex(st.Mismatch, "as they were", st.load_into, targets, paths)
                    self.assertTrue(all(set(target.tobytes()) <= {0x5A} for target in targets.values()))
                    self.assertEqual(set(ahead.names), expected)
                    continue
                report = st.load_into(targets, paths, strict="few of them" not in what)
                if what == "shared":
                    del targets["twin"]  # the file's later one is what both are now
                self.assert_same(targets, {name: tensors[name] for name in targets})
                self.assertEqual(report.tensors, 2 if "few of them" in what else len(tensors))
                self.assertEqual(set(ahead.names), expected)
                if what == "all":
                    self.assertEqual(ahead.plans[0].bytes, total)  # each byte once
                self.assertTrue(all(ahead.had_begun), "what was to come ahead waited")

    def test_what_came_ahead_is_not_kept_where_a_target_of_another_file_overlaps_it(self):
        data = os.urandom(192)
        paths = [self.model({"high": ("U8", (64,), data[:64])}, "first"), self.model({"low": ("U8", (96,), data[64:160])}, "second")]
        buffer = _memory.allocate(128, 0, "sluice")
        targets = {"high": Tensor(buffer, buffer.pointer + 64, (64,), "U8", 64), "low": Tensor(buffer, buffer.pointer, (96,), "U8", 96)}
        with Ahead() as ahead:
            st.load_into(targets, paths)
        self.assertEqual(ahead.names, ["high"])
        self.assertEqual(Tensor(buffer, buffer.pointer, (128,), "U8", 128).tobytes(), data[64:128] + data[:64])

    def test_of_three_that_share_memory_the_last_one_stays(self):
        tensors = {name: ("U8", (1 << 20,), os.urandom(1 << 20)) for name in ("a", "b", "c")}
        path = self.model(tensors)
        for _ in range(4):
            targets = targets_like({"a": tensors["a"]})
            st.load_into({name: targets["a"] for name in tensors}, path)
            self.assertEqual(targets["a"].tobytes(), tensors["c"][2])

    def test_nothing_of_a_load_waits_for_the_collector(self):
        tensors = {f"t{n}": ("U8", (1 << 20,), os.urandom(1 << 20)) for n in range(16)}
        path = self.model(tensors)
        short = self.model({"t0": tensors["t0"]}, "short")
        free_memory = _cuda.free_memory
        self.addCleanup(gc.enable)
        for engine in ("plan", "cufile"):
            gc.collect()
            gc.disable()
            targets = targets_like(tensors)
            before = free_memory(0)[0]
            with Ahead() as ahead:
                st.load_into(targets, path, engine=engine)
                self.assertEqual(bool(ahead.names), engine == "plan")
                self.assertEqual(free_memory(0)[0], before)
                with self.assertRaises(st.Mismatch):
                    st.load_into(targets, short, engine=engine)
                self.assertEqual(free_memory(0)[0], before)
            del targets
            self.assertGreaterEqual(free_memory(0)[0], before + (16 << 20))

    def test_what_is_in_the_way_of_a_staging_buffer_is_given_back(self):
        tensors = {f"t{n:02}": ("U8", (1 << 10,), os.urandom(1 << 10)) for n in range(64)}
        path = self.model(tensors)
        allocate, begin = _memory.allocate, _into.Into.run
        into, refused = [], []

        def narrow(size, device, framework):
            if into[0].targets and into[0].staged.free:
                refused.append(size)
                raise DeviceMemoryError("no room")
            return allocate(size, device, framework)

        def run(this):
            into.append(this)
            return begin(this)

        targets = targets_like(tensors)
        with Ahead(most=1 << 10), mock.patch.object(_into.Into, "run", run), mock.patch.object(_memory, "allocate", narrow), \
                mock.patch.object(_into, "STAGING_BUFFERS", 1):
            st.load_into(targets, path)
        self.assert_same(targets, tensors)
        self.assertEqual(len(refused), 1)

    def test_a_file_that_is_cut_while_its_bytes_come_ahead_is_an_error(self):
        tensors = {f"t{n}": ("U8", (1 << 20,), os.urandom(1 << 20)) for n in range(4)}
        path = self.model(tensors)
        before = threading.active_count()
        with Ahead(first=lambda: os.truncate(path, 3 << 20)), self.assertRaisesRegex(SluiceError, "end"):
            st.load_into(targets_like(tensors), path)
        self.assertEqual(threading.active_count(), before)

    def test_targets_in_host_memory_have_nothing_come_ahead(self):
        tensors = some_tensors(30)
        path = self.model(tensors)
        targets = targets_like(tensors, _memory.CPU)
        with Ahead() as ahead:
            st.load_into(targets, path, engine="plan")
        self.assert_same(targets, tensors)
        self.assertEqual(ahead.names, [])

    def test_tied_weights_need_to_be_in_the_file_once(self):
        path = self.model({"embedding": ("U8", (4,), b"abcd")})
        targets = targets_like({"embedding": ("U8", (4,), b"abcd")})
        targets["head"] = targets["embedding"]
        st.load_into(targets, path)
        self.assertEqual(targets["head"].tobytes(), b"abcd")

    def test_of_targets_that_share_memory_the_last_one_wins(self):
        data = {name: os.urandom(20 << 20) for name in ("one", "two")}
        path = self.model({name: ("U8", (20 << 20,), bytes_) for name, bytes_ in data.items()})
        targets = targets_like({"one": ("U8", (20 << 20,), data["one"])})
        targets["two"] = targets["one"]
        for _ in range(3):
            st.load_into(targets, path)
            self.assertEqual(targets["one"].tobytes(), data["two"])


class Torch(TestCase):
    """With PyTorch for the CPU over the soft GPU's managed memory (soft_torch.py), in a process of its own."""

    PROGRAM = """
import sys
sys.path.insert(0, sys.argv[2])
import soft_torch
soft_torch.install()
import torch, sluice.safetensors as st
path = sys.argv[1]
loaded = st.load_file(path, "cuda", framework="pt")
assert loaded["w"].shape == (64, 32) and loaded["w"].dtype == torch.bfloat16
assert loaded["odd"].tolist() == [1, 2, 3] and loaded["h"].tolist() == [1.0, 2.0]
assert loaded["w"].untyped_storage().data_ptr() == loaded["h"].untyped_storage().data_ptr()
bits = loaded["w"].clone().view(torch.int16)
model = torch.nn.ParameterDict({"w": torch.nn.Parameter(torch.zeros(64, 32, dtype=torch.float32)),
                                "h": torch.nn.Parameter(torch.zeros(4, dtype=torch.float16)[::2], requires_grad=False),
                                "odd": torch.nn.Parameter(torch.zeros(3, dtype=torch.uint8), requires_grad=False)})
report = st.load_into(model, path)
assert torch.equal(model["w"].detach(), loaded["w"].float())
assert model["h"].tolist() == [1.0, 2.0] and model["odd"].tolist() == [1, 2, 3]
print(len(report.notes), *report.notes, sep="\\n")
# Types and devices that were met before are known by now, and are looked at no less.
assert st.load_into(model, path).notes == report.notes
assert torch.equal(model["w"].detach(), loaded["w"].float()) and model["h"].tolist() == [1.0, 2.0]
plain = {name: torch.zeros_like(tensor) for name, tensor in loaded.items()}
assert not st.load_into(plain, path).notes and torch.equal(plain["w"].view(torch.int16), bits)
with st.safe_open(path, "pt", "cuda") as file:
    part = file.get_slice("w")[3:5]
    assert torch.equal(part.view(torch.int16), bits[3:5])
    assert torch.equal(file.get_slice("w")[:, 4:6].contiguous().view(torch.int16), bits[:, 4:6])
    assert torch.equal(file.get_slice("w")[7].view(torch.int16), bits[7])
    assert file.get_slice("w").get_shape() == [64, 32] and file.get_slice("w").get_dtype() == "BF16"
assert torch.equal(part.view(torch.int16), bits[3:5])
st.save_file({"t": loaded["w"].t(), "w": loaded["w"]}, path + ".copy")
back = st.load_file(path + ".copy", framework="pt")
assert torch.equal(back["t"].view(torch.int16), bits.t()) and torch.equal(back["w"].view(torch.int16), bits)
print("done")
"""

    def test_parameters_of_other_types_and_strides_are_converted_and_the_report_says_so(self):
        import struct

        from support import HERE, python

        path = self.model({"w": ("BF16", (64, 32), os.urandom(64 * 32 * 2).replace(b"\x7f", b"\0").replace(b"\xff", b"\0")),
                           "odd": ("U8", (3,), b"\1\2\3"), "h": ("F16", (2,), struct.pack("<2e", 1, 2))})
        status, out, error = python("import torch", timeout=120)
        if status != 0:
            self.skipTest("this Python has no PyTorch")
        status, out, error = python(self.PROGRAM, path, HERE, timeout=120)
        self.assertEqual(status, 0, error)
        self.assertIn("done", out)
        self.assertIn("w is copied after its read: its type is torch.float32", out)
        self.assertIn("h is copied after its read: it is not contiguous", out)


if __name__ == "__main__":
    unittest.main()
