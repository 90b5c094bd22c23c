# SPDX-License-Identifier: Apache-2.0
"""Saving: what is written is what is loaded again, and the old file stays until the new one is complete."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import unittest
from unittest import mock

from support import TestCase, needs_numpy, some_tensors

from sluice import safetensors as st


class Saving(TestCase):
    def test_what_was_saved_is_loaded_again(self):
        tensors = some_tensors(60)
        source = self.model(tensors)
        target = self.folder / "copy.safetensors"
        for device in ("cuda", "cpu"):
            report = st.save_file(st.load_file(source, device, framework="sluice"), target, {"format": "pt"})
            self.assert_same(st.load_file(target, "cuda", framework="sluice"), tensors)
            self.assertEqual((report.tensors, report.bytes), (60, sum(len(data) for _, _, data in tensors.values())))
        with st.safe_open(target, "sluice") as file:
            self.assertEqual(file.metadata(), {"format": "pt"})

    def test_tensors_lie_at_multiples_of_their_element_size(self):
        target = self.folder / "copy.safetensors"
        st.save_file(st.load_file(self.model(some_tensors(60)), framework="sluice"), target)
        from sluice._layout import ELEMENT_SIZE
        from sluice._load import Options, open_file

        opened, header = open_file(str(target), Options())
        opened.close()
        self.assertEqual(header.data_begin % 8, 0)
        for entry in header.entries:
            self.assertEqual(entry.begin % ELEMENT_SIZE[entry.dtype], 0, entry)

    @needs_numpy
    def test_numpy_arrays_are_saved_also_those_with_gaps(self):
        import numpy

        arrays = {"a": numpy.arange(12, dtype="float32").reshape(3, 4), "b": numpy.arange(20, dtype="int16")[::2],
                  "c": numpy.zeros((0, 3), "uint8")}
        target = self.folder / "numpy.safetensors"
        st.save_file(arrays, target)
        loaded = st.load_file(target, framework="np")
        for name, array in arrays.items():
            self.assertTrue(numpy.array_equal(loaded[name], array) and loaded[name].dtype == array.dtype)

    def test_the_file_is_durable_before_it_takes_the_name(self):
        target = self.folder / "durable.safetensors"
        source = st.load_file(self.model({"a": ("U8", (3,), b"abc")}), framework="sluice")
        order = []
        fsync, rename = os.fsync, os.rename
        with mock.patch("os.fsync", lambda fd: (order.append("fsync"), fsync(fd))), \
                mock.patch("os.rename", lambda a, b: (order.append("rename"), rename(a, b))):
            st.save_file(source, target)
        self.assertEqual(order, ["fsync", "rename", "fsync"])

    def test_a_failure_leaves_the_old_file_and_nothing_beside_it(self):
        target = self.folder / "kept.safetensors"
        target.write_bytes(b"the old file")
        source = st.load_file(self.model({"a": ("U8", (3,), b"abc")}), framework="sluice")
        with mock.patch("os.fsync", side_effect=OSError(28, "No space left on device")), self.assertRaises(OSError):
            st.save_file(source, target)
        self.assertEqual(target.read_bytes(), b"the old file")
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["kept.safetensors", "model.safetensors"])

    @unittest.skipIf(os.geteuid() != 0, "links of another user are made by root")
    def test_a_link_of_another_user_where_all_may_write_is_not_followed(self):
        source = st.load_file(self.model({"a": ("U8", (3,), b"abc")}), framework="sluice")
        precious, public = self.folder / "precious", self.folder / "public"
        precious.write_bytes(b"precious")
        public.mkdir()
        public.chmod(0o1777)
        (public / "model.safetensors").symlink_to(precious)
        os.lchown(public / "model.safetensors", 65534, 65534)
        with self.assertRaisesRegex(OSError, "a link of another user"):
            st.save_file(source, public / "model.safetensors")
        self.assertEqual(precious.read_bytes(), b"precious")

    def test_a_link_stays_and_what_it_leads_to_is_written(self):
        source = st.load_file(self.model({"a": ("U8", (3,), b"abc")}), framework="sluice")
        (self.folder / "elsewhere").mkdir()
        target = self.folder / "elsewhere/real.safetensors"
        link, to_link = self.folder / "link.safetensors", self.folder / "again.safetensors"
        link.symlink_to("elsewhere/real.safetensors")
        to_link.symlink_to("link.safetensors")
        for before in (None, b"the old file"):  # a link may lead to what is not there yet
            for name in (link, to_link):
                target.unlink() if target.exists() else None
                if before is not None:
                    target.write_bytes(before)
                st.save_file(source, name)
                self.assertTrue(link.is_symlink() and to_link.is_symlink() and not target.is_symlink())
                self.assertEqual(st.load_file(target, framework="sluice")["a"].tobytes(), b"abc")
                self.assertEqual([path.name for path in target.parent.iterdir()], ["real.safetensors"])

    def test_what_is_no_regular_file_is_refused_and_stays(self):
        source = st.load_file(self.model({"a": ("U8", (3,), b"abc")}), framework="sluice")
        os.mkfifo(self.folder / "fifo")
        (self.folder / "link").symlink_to("fifo")
        (self.folder / "folder").mkdir()
        for name, kind in (("fifo", "a FIFO"), ("link", "a FIFO"), ("folder", "a folder")):
            with self.assertRaisesRegex(OSError, f"it is {kind}.*name a regular file"), \
                    mock.patch("os.rename", side_effect=AssertionError("it would be replaced")):
                st.save_file(source, self.folder / name)
        self.assertTrue((self.folder / "fifo").is_fifo())
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["fifo", "folder", "link", "model.safetensors"])

    def test_a_process_that_is_killed_while_it_saves_leaves_the_old_file(self):
        target = self.folder / "killed.safetensors"
        source = self.model({"a": ("U8", (64 << 20,), bytes(64 << 20))})
        st.save_file(st.load_file(self.model({"old": ("U8", (3,), b"abc")}, "old"), framework="sluice"), target)
        before = target.read_bytes()
        # The link carries 16 MiB a second, so that the save is under way for seconds.
        child = subprocess.Popen(
            [sys.executable, "-B", "-c", "import sys, sluice.safetensors as st\n"
             "loaded = st.load_file(sys.argv[1], 'cpu', framework='sluice')\n"
             "import sluice._cuda as c, sluice._memory as m, sluice._tensors as t\n"
             "buffer = m.allocate(64 << 20, 0, 'sluice')\n"
             "tensor = t.Tensor(buffer, buffer.pointer, (64 << 20,), 'U8', 64 << 20)\n"
             "st.save_file({'new': tensor}, sys.argv[2])", source, str(target)],
            env={**os.environ, "SLUICE_SOFTGPU_LINK_GIBPS": "0.015"})
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        end = time.monotonic() + 30
        while not list(self.folder.glob(".killed.safetensors.*.tmp")):
            self.assertIsNone(child.poll(), "the save ended before it could be killed")
            self.assertLess(time.monotonic(), end, "no temporary file appeared")
        child.send_signal(signal.SIGKILL)
        self.assertEqual(child.wait(), -signal.SIGKILL)
        self.assertEqual(target.read_bytes(), before)
        self.assertEqual(st.load_file(target, framework="sluice")["old"].tobytes(), b"abc")

    def test_names_and_metadata_that_the_format_lacks_are_refused(self):
        tensor = st.load_file(self.model({"a": ("U8", (3,), b"abc")}), framework="sluice")["a"]
        target = self.folder / "refused.safetensors"
        for tensors, metadata in (({"__metadata__": tensor}, None), ({3: tensor}, None), ({"a": tensor}, {"x": 1}),
                                  ({"a": "text"}, None)):
            with self.assertRaises(TypeError):
                st.save_file(tensors, target, metadata)
        self.assertFalse(target.exists())


class SafeOpen(TestCase):
    def test_it_answers_as_the_package_safetensors_does(self):
        tensors = {"b": ("U8", (4, 3), bytes(range(12))), "a": ("I16", (2,), b"\1\0\2\0"), "s": ("F32", (), bytes(4))}
        path = self.model(tensors, metadata={"format": "pt"})
        for options in ({}, {"backend": "mmap"}, {"backend": "pread"}, {"prefetch": True}):
            with st.safe_open(path, "sluice", "cuda", **options) as file:
                self.assertEqual(file.keys(), ["a", "b", "s"])
                self.assertEqual(file.offset_keys(), ["b", "a", "s"])
                self.assertEqual(file.metadata(), {"format": "pt"})
                self.assert_same(file.get_tensors(), tensors)
                self.assert_same({name: file.get_tensor(name) for name in file.keys()}, tensors)
                with self.assertRaisesRegex(st.SafetensorError, "does not contain"):
                    file.get_tensor("absent")
            if "prefetch" not in options:
                with self.assertRaisesRegex(st.SafetensorError, "closed"):
                    file.get_tensor("a")

    def test_slices_read_the_rows_that_they_need(self):
        data = os.urandom(40 * 30)
        path = self.model({"t": ("U8", (40, 30), data)})
        with st.safe_open(path, "sluice", "cuda") as file:
            part = file.get_slice("t")
            self.assertEqual((part.get_shape(), part.get_dtype()), ([40, 30], "U8"))
            self.assertEqual(part[3:5].tobytes(), data[90:150])
            self.assertEqual(part[-1].tobytes(), data[-30:])
            self.assertEqual((part[7].shape, part[5:5].shape, part[30:90].shape), ((30,), (0, 30), (10, 30)))
            self.assertEqual(part[...].tobytes(), data)
            with self.assertRaises(st.SafetensorError):
                part[40]
            with self.assertRaisesRegex(st.SafetensorError, "first axis"):
                part[:, 3]

    @needs_numpy
    def test_slices_of_numpy_arrays_are_those_of_numpy(self):
        import numpy

        whole = numpy.arange(4 * 5 * 6, dtype="int32").reshape(4, 5, 6)
        path = self.model({"t": ("I32", (4, 5, 6), whole.tobytes())})
        for prefetch in (False, True):
            with st.safe_open(path, "np", prefetch=prefetch) as file:
                for index in (slice(1, 3), 2, -1, (slice(None), 2), (slice(1, 3), slice(2, 4), 3), (0, 1, 2), Ellipsis,
                              (Ellipsis, 3), slice(None, None, 2), slice(3, 1), (slice(None), slice(None), slice(1, 2))):
                    self.assertTrue(numpy.array_equal(file.get_slice("t")[index], whole[index]), index)


if __name__ == "__main__":
    unittest.main()
