# SPDX-License-Identifier: Apache-2.0
"""Loading: every byte is there, tensors own their memory, and what cannot be done is said."""

from __future__ import annotations

import gc
import os
import re
import unittest

from support import TestCase, needs_numpy, poisoned_memory, python, some_tensors

import sluice
from sluice import safetensors as st
from sluice._dtypes import DTYPES
from sluice._memory import CPU


class Loading(TestCase):
    def test_what_is_no_number_is_refused_with_what_is_allowed(self):
        path = self.model({"a": ("U8", (3,), b"abc")})
        for options in ({"threads": -1}, {"threads": 0}, {"slice_size": 0}, {"group_size": -5}, {"threads": 2.5}, {"threads": "4"}):
            (name, value), = options.items()
            allowed = re.escape(f"{name}={value!r}: say a whole number from 1 on")
            for call in (st.load_files, st.load_into, st.iterate):
                with self.assertRaisesRegex(ValueError, allowed):
                    call({} if call is st.load_into else path, path if call is st.load_into else "cpu", **options)
            with self.assertRaisesRegex(ValueError, allowed):
                st.safe_open(path, "sluice", **options)
        with self.assertRaisesRegex(ValueError, "memory=-1: say a whole number from 1 on"):
            st.iterate(path, "cpu", memory=-1)

    def test_every_type_arrives_on_the_device_and_in_host_memory(self):
        tensors = some_tensors(5 * len(DTYPES))
        path = self.model(tensors)
        for device in ("cuda", "cpu", 0, "cuda:0"):
            self.assert_same(st.load_file(path, device, framework="sluice"), tensors)

    def test_both_engines_and_any_slice_bring_the_same_bytes(self):
        tensors = {"large": ("U8", (5 << 20,), os.urandom(5 << 20)), **some_tensors(30)}
        path = self.model(tensors)
        for options in ({"slice_size": 4096, "threads": 3}, {"slice_size": 1 << 20, "threads": 1}, {"group_size": 1 << 20},
                        {"engine": "staged"}, {"engine": "staged", "slice_size": 65536, "threads": 2}, {"direct": True}):
            with self.subTest(options):
                self.assert_same(st.load_file(path, "cuda", framework="sluice", **options), tensors)

    def test_ten_thousand_tensors_arrive(self):
        tensors = {f"t{number}": ("I16", (number % 50,), bytes([number % 251]) * (2 * (number % 50)))
                   for number in range(10_000)}
        self.assert_same(st.load_file(self.model(tensors), "cuda", framework="sluice"), tensors)

    def test_a_file_without_tensors_is_loaded(self):
        self.assertEqual(dict(st.load_file(self.model({}), "cuda", framework="sluice")), {})

    def test_a_folder_and_a_list_stand_for_their_files(self):
        parts = [some_tensors(10), {f"other.{name}": one for name, one in some_tensors(10, 7).items()}]
        paths = [self.model(part, f"model-{number}.safetensors") for number, part in enumerate(parts)]
        whole = {**parts[0], **parts[1]}
        for names in (paths, self.folder):
            loaded = st.load_files(names, "cuda", framework="sluice")
            self.assert_same(loaded, whole)
            self.assertEqual(loaded.report.files, 2)

    def test_a_name_in_two_files_is_refused(self):
        for name in ("a", "b"):
            self.model({"same": ("U8", (1,), b"x")}, f"{name}.safetensors")
        with self.assertRaisesRegex(st.SafetensorError, "same.*a.safetensors.*b.safetensors"):
            st.load_files(self.folder, "cuda", framework="sluice")

    def test_the_report_tells_path_share_and_phases(self):
        path = self.model({"a": ("U8", (1 << 20,), bytes(1 << 20))})
        report = st.load_file(path, "cuda", framework="sluice").report
        self.assertEqual((report.bytes, report.tensors, report.files), (1 << 20, 1, 1))
        self.assertEqual(report.routes[0]["path"], "posix")
        self.assertGreater(report.link_share, 0)
        self.assertLessEqual({"headers", "memory", "tensors", "waiting"}, set(report.phases))
        self.assertIn("of the link", str(report))

    def test_a_file_that_is_not_there_is_named(self):
        with self.assertRaisesRegex(FileNotFoundError, "absent"):
            st.load_file(self.folder / "absent.safetensors", "cuda", framework="sluice")

    def test_a_file_that_is_cut_while_it_is_read_is_an_error(self):
        from sluice import _load
        from sluice._load import Options

        path = self.model({"a": ("U8", (1 << 20,), bytes(1 << 20))})
        opened, header = _load.open_file(path, Options())
        with opened:
            os.truncate(path, 1 << 19)
            with self.assertRaisesRegex(sluice.SluiceError, "was cut"):
                _load.read_entry(opened, header, header.entries[0], 0, "sluice")

    def test_a_full_device_is_said_with_a_remedy(self):
        path = self.model({"a": ("U8", (40 << 20,), bytes(40 << 20))})
        self.model({"b": ("U8", (9,), bytes(9))}, "small.safetensors")
        status, out, error = python(
            "import sys, sluice.safetensors as st, sluice\n"
            "try: st.load_file(sys.argv[1], 'cuda', framework='sluice')\n"
            "except sluice.DeviceMemoryError as error: print(error)\n"
            "print(sum(t.nbytes for _, t in st.iterate(sys.argv[1].replace('model', 'small'), 'cuda', framework='sluice')))",
            path, environment={"SLUICE_SOFTGPU_MEMORY_MIB": "32"})
        self.assertEqual(status, 0, error)
        self.assertIn("has no room for", out)
        self.assertIn("iterate()", out)
        self.assertTrue(out.endswith("9\n"))

    def test_only_the_device_that_is_asked_for_gets_a_context(self):
        path = self.model({"a": ("U8", (1 << 20,), bytes(1 << 20))})
        status, out, error = python(
            "import ctypes, sys, sluice.safetensors as st, sluice._cuda as c\n"
            "kept = st.load_file(sys.argv[1], 'cuda:1', framework='sluice')\n"
            "st.load_into(kept, sys.argv[1])\n"
            "print(kept['a'].device)\n"
            "for device in range(3):\n"
            "    flags, active = ctypes.c_uint(), ctypes.c_int()\n"
            "    c.driver().functions.cuDevicePrimaryCtxGetState(device, ctypes.byref(flags), ctypes.byref(active))\n"
            "    print(active.value)", path, environment={"SLUICE_SOFTGPU_DEVICES": "3"})
        self.assertEqual((status, out.split()), (0, ["cuda:1", "0", "1", "0"]), error)

    def test_a_device_that_is_not_there_is_said(self):
        path = self.model({"a": ("U8", (3,), b"abc")})
        with self.assertRaisesRegex(sluice.SluiceError, "no CUDA device 7"):
            st.load_file(path, "cuda:7", framework="sluice")
        with self.assertRaisesRegex(ValueError, "no device"):
            st.load_file(path, "tpu", framework="sluice")

    def test_without_a_driver_host_memory_works_and_a_device_is_refused_with_a_remedy(self):
        path = self.model({"a": ("U8", (9,), b"123456789")})
        status, out, error = python(
            "import sys, sluice.safetensors as st, sluice\n"
            "print(st.load_file(sys.argv[1], framework='sluice')['a'].tobytes())\n"
            "try: st.load_file(sys.argv[1], 'cuda', framework='sluice')\n"
            "except sluice.SluiceError as error: print(error)", path,
            environment={"SLUICE_SOFTGPU": "", "LD_LIBRARY_PATH": ""})
        self.assertEqual(status, 0, error)
        self.assertIn("b'123456789'", out)
        if "There is no CUDA driver" not in out:
            self.skipTest("this machine has a CUDA driver")
        self.assertIn("SLUICE_SOFTGPU=1", out)


class CopyEngine(TestCase):
    """What the copy engine's way meets: failures of the driver, of pinned memory, of the file."""

    PROGRAM = ("import sys, sluice.safetensors as st, sluice\n"
               "try: print(st.load_file(sys.argv[1], 'cuda', framework='sluice', engine='staged', slice_size=65536)"
               ".report.bytes)\n"
               "except sluice.SluiceError as error: print('error:', error)")

    def load(self, **environment):
        path = self.model({"a": ("U8", (1 << 20,), bytes(1 << 20))})
        status, out, error = python(self.PROGRAM, path, environment=environment)
        self.assertEqual(status, 0, error)
        return out

    def test_a_copy_that_fails_is_told_with_the_file_and_the_code(self):
        out = self.load(SLUICE_SOFTGPU_FAIL="cuMemcpyHtoDAsync:5:700")
        self.assertRegex(out, "error: .*(model.safetensors.*code 700|CUDA code 700)")

    def test_one_thread_without_pinned_memory_leaves_the_work_to_the_others(self):
        self.assertEqual(self.load(SLUICE_SOFTGPU_FAIL="cuMemHostRegister:2:2"), f"{1 << 20}\n")

    def test_no_pinned_memory_at_all_is_told_with_a_remedy(self):
        out = self.load(SLUICE_SOFTGPU_FAIL="cuMemHostRegister:1+:2")
        self.assertIn("error: No host memory could be pinned", out)
        self.assertIn("engine=\"cufile\"", out)

    def test_loads_are_plans_of_the_library_unless_something_else_is_asked_for(self):
        from sluice._load import Options

        self.assertEqual(Options().engine_for(0), "plan")
        self.assertEqual(Options().engine_for(CPU), "cufile")
        self.assertEqual(Options(direct=True).engine_for(0), "cufile")
        self.assertEqual(Options(engine="staged").engine_for(0), "staged")
        self.assertEqual(Options(engine="staged", direct=True).engine_for(0), "cufile")
        with self.assertRaisesRegex(ValueError, "no engine"):
            Options(engine="faster")


class Lifetime(TestCase):
    def test_tensors_outlive_everything_that_made_them(self):
        tensors = {"a": ("U8", (3 << 20,), os.urandom(3 << 20)), "b": ("F32", (100, 7), os.urandom(2800))}
        for device in ("cuda", "cpu"):
            loaded = st.load_file(self.model(tensors), device, framework="sluice")
            kept = loaded["b"]
            del loaded
            gc.collect()
            with poisoned_memory([3 << 20, 2800, 4096, 4 << 20]):
                self.assertEqual(kept.tobytes(), tensors["b"][2])

    def test_tensors_outlive_the_context_they_were_read_in(self):
        tensors = {"a": ("F16", (1 << 20,), os.urandom(2 << 20)), "b": ("I64", (3,), os.urandom(24))}
        for prefetch in (False, True):
            with st.safe_open(self.model(tensors), "sluice", "cuda", prefetch=prefetch) as file:
                kept = file.get_tensor("a")
            del file
            gc.collect()
            with poisoned_memory([2 << 20, 4096, 3 << 20]):
                self.assertEqual(kept.tobytes(), tensors["a"][2])

    def test_the_iterator_yields_tensors_that_stay_valid(self):
        tensors = {f"t{n}": ("U8", (50_000 + n,), os.urandom(50_000 + n)) for n in range(40)}
        path = self.model(tensors)
        kept = {}
        for name, tensor in st.iterate(path, "cuda", framework="sluice", memory=200_000):
            if len(kept) % 3 == 0:
                gc.collect()
            kept[name] = tensor
        self.assert_same(kept, tensors)

    def test_the_iterator_needs_no_more_memory_than_it_was_given(self):
        path = self.model({f"t{n}": ("U8", (1 << 20,), bytes(1 << 20)) for n in range(60)})
        status, out, error = python(
            "import sys, sluice.safetensors as st\n"
            "print(sum(t.nbytes for _, t in st.iterate(sys.argv[1], 'cuda', framework='sluice', memory=8 << 20)))", path,
            environment={"SLUICE_SOFTGPU_MEMORY_MIB": "24"})
        self.assertEqual((status, out.strip()), (0, str(60 << 20)), error)

    def test_an_iterator_that_is_left_early_closes_its_files(self):
        path = self.model({f"t{n}": ("U8", (1 << 20,), bytes(1 << 20)) for n in range(20)})
        list(st.iterate(path, "cuda", framework="sluice", memory=4 << 20))  # what the library opens once is open now
        before = len(os.listdir("/proc/self/fd"))
        found = st.iterate(path, "cuda", framework="sluice", memory=4 << 20)
        next(found)
        found.close()
        self.assertEqual(len(os.listdir("/proc/self/fd")), before)


class Numpy(TestCase):
    @needs_numpy
    def test_numpy_arrays_are_views_that_own_their_memory(self):
        import numpy

        tensors = {name: one for name, one in some_tensors(60).items()
                   if not (one[0].startswith("F8") or one[0] == "BF16" or DTYPES[one[0]].packed)}
        loaded = st.load_file(self.model(tensors), framework="np")
        for name, (dtype, shape, data) in tensors.items():
            self.assertIsInstance(loaded[name], numpy.ndarray)
            self.assertEqual((loaded[name].shape, str(loaded[name].dtype)), (shape, DTYPES[dtype].numpy))
        kept = {name: array for name, array in loaded.items()}
        del loaded
        gc.collect()
        with poisoned_memory([4096, 65536]):
            for name, (_, _, data) in tensors.items():
                self.assertEqual(kept[name].tobytes(), data)

    @needs_numpy
    def test_numpy_reads_our_tensors_by_dlpack(self):
        import numpy

        if not hasattr(numpy, "from_dlpack"):
            self.skipTest("this numpy has no from_dlpack")
        tensors = {"a": ("F32", (3, 5), os.urandom(60)), "b": ("I64", (), os.urandom(8))}
        loaded = st.load_file(self.model(tensors), framework="sluice")
        arrays = {name: numpy.from_dlpack(tensor) for name, tensor in loaded.items()}
        del loaded
        gc.collect()
        with poisoned_memory([4096]):
            for name, (_, shape, data) in tensors.items():
                self.assertEqual((arrays[name].shape, arrays[name].tobytes()), (shape, data))

    @needs_numpy
    def test_types_that_numpy_lacks_are_refused_with_a_remedy(self):
        path = self.model({"a": ("F4", (2,), b"x")})
        with self.assertRaisesRegex(TypeError, "framework"):
            st.load_file(path, framework="np")


if __name__ == "__main__":
    unittest.main()
