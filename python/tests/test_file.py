# SPDX-License-Identifier: Apache-2.0
"""sluice.File: any array, at once, in the background, in a stream; and the module that LMCache imports."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import unittest
from ctypes import c_void_p
from unittest import mock

from support import TestCase, needs_numpy, poisoned_memory

import sluice
from sluice import _cuda, _dlpack, _memory
from sluice._buffers import view_of
from sluice._tensors import Tensor


class Interface:
    """An array of another package on the device: only __cuda_array_interface__."""

    def __init__(self, tensor, **others):
        self._tensor = tensor
        self.__cuda_array_interface__ = {"shape": (tensor.nbytes,), "typestr": "|u1", "data": (tensor.data_ptr(), False),
                                         "version": 3, **others}


class Capsule:
    """An array of another package on the device: only DLPack."""

    def __init__(self, tensor):
        self._tensor = tensor

    def __dlpack__(self, stream=None):
        return self._tensor.__dlpack__()

    def __dlpack_device__(self):
        return self._tensor.__dlpack_device__()


def on_device(size, fill=0x5A):
    buffer = _memory.allocate(size, 0, "sluice")
    _cuda.fill(0, buffer.pointer, fill, size)
    return Tensor(buffer, buffer.pointer, (size,), "U8", size)


class Transfers(TestCase):
    def test_an_error_names_its_code_once(self):
        path = self.folder / "file"
        path.write_bytes(b"abc")
        with sluice.File(path, "r") as file, self.assertRaises(sluice.SluiceError) as told:
            file.read(bytearray(3), file_offset=-5)
        self.assertEqual(str(told.exception).count(str(told.exception.code)), 1, told.exception)
        self.assertIn(f"(cuFile code {told.exception.code})", str(told.exception))

    def setUp(self):
        super().setUp()
        self.data = os.urandom(300_001)
        self.path = self.folder / "data"
        self.path.write_bytes(self.data)

    def test_arrays_of_every_interface_are_read_into(self):
        for wrap in (lambda t: t, Interface, Capsule):
            for direct in (False, True):
                tensor = on_device(len(self.data))
                with sluice.File(self.path, direct=direct) as file:
                    self.assertEqual(file.read(wrap(tensor)), len(self.data))
                self.assertEqual(tensor.tobytes(), self.data)

    def test_host_memory_is_read_into_by_the_buffer_protocol(self):
        for target in (bytearray(len(self.data)), memoryview(bytearray(len(self.data))),
                       (ctypes.c_char * len(self.data))()):
            with sluice.File(self.path) as file:
                self.assertEqual(file.read(target), len(self.data))
            self.assertEqual(bytes(target), self.data)

    @needs_numpy
    def test_numpy_arrays_are_read_into_and_written_from(self):
        import numpy

        array = numpy.zeros(100, "float64")
        with sluice.File(self.path) as file:
            self.assertEqual(file.read(array, file_offset=8), 800)
        self.assertEqual(array.tobytes(), self.data[8:808])
        with sluice.File(self.folder / "out", "w") as file:
            file.write(array.reshape(4, 25))
        self.assertEqual((self.folder / "out").read_bytes(), self.data[8:808])
        with self.assertRaisesRegex(BufferError, "contiguous"), sluice.File(self.path) as file:
            file.read(array[::2])

    def test_offsets_and_sizes_choose_the_part(self):
        tensor = on_device(1000)
        with sluice.File(self.path) as file:
            self.assertEqual(file.read(tensor, size=100, file_offset=7, dev_offset=13), 100)
            self.assertEqual(file.read(tensor, file_offset=len(self.data) - 5, size=50, dev_offset=500), 5)
        self.assertEqual(tensor.tobytes(),
                         b"\x5a" * 13 + self.data[7:107] + b"\x5a" * 387 + self.data[-5:] + b"\x5a" * 495)

    def test_what_does_not_fit_is_refused(self):
        tensor = on_device(100)
        with sluice.File(self.path) as file:
            for wrong in ({"size": 101}, {"size": -1}, {"dev_offset": 101}, {"size": 1, "dev_offset": 100},
                          {"dev_offset": -1}):
                with self.assertRaises(ValueError):
                    file.read(tensor, **wrong)
            with self.assertRaisesRegex(BufferError, "cannot be written"):
                file.read(b"constant")
            with self.assertRaisesRegex(BufferError, "read-only"):
                file.read(Interface(tensor, data=(tensor.data_ptr(), True)))
            with self.assertRaisesRegex(BufferError, "not contiguous"):
                file.read(Interface(tensor, shape=(10, 5), strides=(10, 2)))
            with self.assertRaisesRegex(TypeError, "no memory"):
                file.read(5)

    def test_writes_make_the_file(self):
        out = self.folder / "out"
        tensor = on_device(1000, 7)
        with sluice.File(out, "w") as file:
            self.assertEqual(file.write(tensor), 1000)
            self.assertEqual(file.write(b"host", file_offset=500), 4)
        self.assertEqual(out.read_bytes(), b"\7" * 500 + b"host" + b"\7" * 496)

    def test_a_future_tells_the_count_of_a_transfer_in_the_background(self):
        tensors = [on_device(1000) for _ in range(20)]
        with sluice.File(self.path) as file:
            futures = [file.pread(tensor, file_offset=1000 * number) for number, tensor in enumerate(tensors)]
            self.assertEqual([future.get() for future in futures], [1000] * 20)
            self.assertTrue(all(future.done() and future.result(timeout=1) == 1000 for future in futures))
        self.assertEqual(b"".join(tensor.tobytes() for tensor in tensors), self.data[:20_000])

    def test_closing_waits_for_what_is_on_its_way(self):
        tensor = on_device(len(self.data))
        file = sluice.File(self.path)
        future = file.pread(tensor)
        file.close()
        self.assertTrue(future.done() and file.closed)
        self.assertEqual(tensor.tobytes(), self.data)
        with self.assertRaisesRegex(ValueError, "closed"):
            file.read(tensor)

    def test_a_future_can_be_awaited(self):
        tensor = on_device(1000)

        async def both():
            with sluice.File(self.path) as file, sluice.File(self.folder / "out", "w") as out:
                return await file.pread(tensor), await out.pwrite(tensor)

        self.assertEqual(asyncio.run(both()), (1000, 1000))
        self.assertEqual((self.folder / "out").read_bytes(), self.data[:1000])

    def test_errors_arrive_with_the_future_and_name_the_file(self):
        with sluice.File(self.folder / "out", "w") as file:
            future = file.pread(on_device(10))
            self.assertIsInstance(future.exception(), (OSError, sluice.SluiceError))
            with self.assertRaisesRegex((OSError, sluice.SluiceError), "out"):
                future.get()
        with self.assertRaises(FileNotFoundError):
            sluice.File(self.folder / "absent")
        with self.assertRaisesRegex(ValueError, "mode"):
            sluice.File(self.path, "x")

    def test_transfers_in_a_stream_come_in_its_order(self):
        first, second = on_device(1000), on_device(1000)
        stream = _cuda.Stream(0)
        with sluice.File(self.path) as file, sluice.File(self.folder / "out", "w") as out:
            read = file.raw_read_async(first, stream, file_offset=3)
            write = out.raw_write_async(first, stream.handle.value)
            self.assertEqual((read.check_bytes_done(), write.check_bytes_done()), (1000, 1000))
            sluice.stream_register(stream)
            self.assertEqual(file.raw_read_async(second, stream, size=500).get(), 500)
            sluice.stream_deregister(stream)
        stream.close()
        self.assertEqual(first.tobytes(), self.data[3:1003])
        self.assertEqual(second.tobytes(), self.data[:500] + b"\x5a" * 500)
        self.assertEqual((self.folder / "out").read_bytes(), self.data[3:1003])

    def test_work_that_is_queued_for_an_array_is_done_first(self):
        stream, tensor = _cuda.Stream(0), on_device(len(self.data))
        waited = []
        driver = _cuda.driver()
        synchronize = driver.functions.cuStreamSynchronize

        class Watched:
            def __getattr__(self, name):
                if name == "cuStreamSynchronize":
                    return lambda handle: (waited.append(getattr(handle, "value", handle)), synchronize(handle))[1]
                return getattr(functions, name)

        functions = driver.functions
        with mock.patch.object(driver, "functions", Watched()), sluice.File(self.path) as file:
            file.read(Interface(tensor, stream=stream.handle.value))
            file.pread(Capsule(tensor)).get()
            file.read(tensor)
        self.assertEqual(waited, [stream.handle.value, 1])
        stream.close()

    def test_registered_memory_is_read_into_as_any_other(self):
        tensor = on_device(65536)
        sluice.memory_register(tensor)
        with sluice.File(self.path) as file:
            self.assertEqual(file.read(tensor, dev_offset=100, size=1000), 1000)
        sluice.memory_deregister(tensor)
        self.assertEqual(tensor.tobytes()[100:1100], self.data[:1000])
        with self.assertRaises(sluice.SluiceError):
            sluice.memory_deregister(tensor)


class Capsules(TestCase):
    def test_memory_lives_as_long_as_a_capsule_or_its_consumer(self):
        for versioned in (None, (1, 0)):
            tensor = on_device(5000, 9)
            pointer = tensor.data_ptr()
            capsule = tensor.__dlpack__(max_version=versioned)
            del tensor
            gc.collect()
            taken = _dlpack.Taken(capsule)
            del capsule
            with poisoned_memory([5000, 4096, 8192]):
                self.assertEqual((taken.pointer, taken.size, taken.device), (pointer, 5000, (_dlpack.KDL_CUDA, 0)))
                back = ctypes.create_string_buffer(5000)
                _cuda.copy_to_host(0, ctypes.addressof(back), taken.pointer, 5000)
                self.assertEqual(back.raw, b"\t" * 5000)

    def test_a_consumer_that_takes_a_capsule_over_frees_it_by_the_deleter(self):
        before = len(_dlpack._out)
        capsule = on_device(100).__dlpack__()
        self.assertEqual(len(_dlpack._out), before + 1)
        address = ctypes.pythonapi.PyCapsule_GetPointer(ctypes.py_object(capsule), b"dltensor")
        name = ctypes.create_string_buffer(b"used_dltensor")
        ctypes.pythonapi.PyCapsule_SetName(ctypes.py_object(capsule), name)
        managed = _dlpack.Managed.from_address(address)
        del capsule
        gc.collect()
        self.assertEqual(len(_dlpack._out), before + 1)
        ctypes.CFUNCTYPE(None, c_void_p)(managed.deleter)(address)
        self.assertEqual(len(_dlpack._out), before)

    def test_capsules_that_are_left_at_the_end_of_the_process_do_no_harm(self):
        from support import python

        status, _, error = python(
            "import ctypes, sluice, sluice._memory as m, sluice._tensors as t, sluice._dlpack as d\n"
            "buffer = m.allocate(100, 0, 'sluice')\n"
            "capsule = t.Tensor(buffer, buffer.pointer, (100,), 'U8', 100).__dlpack__()\n"
            "address = ctypes.pythonapi.PyCapsule_GetPointer(ctypes.py_object(capsule), b'dltensor')\n"
            "deleter = d.Managed.from_address(address)\n"
            "import atexit, sys\n"
            "sys.modules['kept'] = capsule")
        self.assertEqual((status, error), (0, ""))

    def test_read_only_bytes_are_found_where_they_are(self):
        data = b"constant bytes"
        view = view_of(data)
        self.assertEqual(ctypes.string_at(view.pointer, view.size), data)


ctypes.pythonapi.PyCapsule_GetPointer.restype = c_void_p
ctypes.pythonapi.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


class LMCache(TestCase):
    """The calls that LMCache's backend makes, in its order."""

    def test_a_chunk_is_written_and_read_back_by_raw_addresses(self):
        import importlib
        import sys

        self.assertIsNotNone(sluice.install())
        if "sluice" not in importlib.import_module("cufile").__name__:
            self.skipTest("another package cufile is installed")
        cufile = sys.modules["cufile"]
        driver = cufile.CuFileDriver()
        path = str(self.folder / "chunk.kvcache.safetensors")
        memory = on_device(1 << 20, 3)
        base = ctypes.c_void_p(memory.data_ptr())
        cufile.bindings.cuFileBufRegister(base, 1 << 20, flags=0)
        with open(path + ".tmp", "wb") as file:
            file.write(b"\0" * 4096)
        with cufile.CuFile(path + ".tmp", "r+", use_direct_io=False) as file:
            self.assertEqual(file.write(base, 65536, file_offset=4096, dev_offset=1000), 65536)
        os.rename(path + ".tmp", path)
        _cuda.fill(0, memory.data_ptr(), 0, 1 << 20)
        with cufile.CuFile(path, "r", use_direct_io=True) as file:
            self.assertEqual(file.read(base, 65536, file_offset=4096, dev_offset=5), 65536)
        self.assertEqual(memory.tobytes()[:65551], b"\0" * 5 + b"\3" * 65536 + b"\0" * 10)
        cufile.bindings.cuFileBufDeregister(base)
        del driver


if __name__ == "__main__":
    unittest.main()
