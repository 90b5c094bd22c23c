# SPDX-License-Identifier: Apache-2.0
"""sluice.Plan: many ranges at once, into arrays of every kind; and loads that are carried by plans."""

from __future__ import annotations

import asyncio
import gc
import os
import select
import unittest
from unittest import mock

from support import TestCase, poisoned_memory, some_tensors

import sluice
from sluice import _cuda, _memory
from sluice import safetensors as st
from sluice._tensors import Tensor


def on_device(size, fill=0x5A):
    buffer = _memory.allocate(size, 0, "sluice")
    _cuda.fill(0, buffer.pointer, fill, size)
    return Tensor(buffer, buffer.pointer, (size,), "U8", size)


class Plans(TestCase):
    def setUp(self):
        super().setUp()
        self.data = os.urandom(400_000)
        self.path = self.folder / "data"
        self.path.write_bytes(self.data)

    def test_ranges_come_into_arrays_of_every_kind(self):
        tensor, array = on_device(200_000), bytearray(100_000)
        with sluice.File(self.path) as file, sluice.Plan() as plan:
            for at in range(0, 200_000, 1000):
                plan.add(file, tensor, 1000, file_offset=at + 7, dev_offset=at)
            number = plan.add(file, array, file_offset=300_000)
            self.assertEqual((number, len(plan)), (200, 201))
            plan.submit()
            plan.wait(1)
            plan.wait()
            self.assertEqual(plan.progress()[:4], ("ended", 201, 201, 201))
            self.assertEqual(plan.results()[200], ("done", 100_000, 0, "posix", "host_memory"))
        self.assertEqual(tensor.tobytes(), self.data[7:200_007])
        self.assertEqual(bytes(array), self.data[300_000:])

    def test_writes_come_out_of_arrays(self):
        target = self.folder / "written"
        with sluice.File(target, "w+") as file, sluice.Plan(write=True) as plan:
            for at in range(0, 10):
                plan.add(file, bytearray([at]) * 5000, file_offset=at * 5000)
            plan.submit().wait()
        self.assertEqual(target.read_bytes(), b"".join(bytes([at]) * 5000 for at in range(10)))

    def test_a_file_that_ends_before_is_told(self):
        with sluice.File(self.path) as file, sluice.Plan() as plan:
            plan.add(file, bytearray(1000))
            plan.add(file, bytearray(1000), file_offset=399_500)
            plan.submit()
            plan.wait(1)
            with self.assertRaisesRegex(sluice.SluiceError, "ends at 400000: range 1"):
                plan.wait()
            self.assertEqual([one.bytes for one in plan.results()], [1000, 500])

    def test_arrays_and_files_live_as_long_as_the_plan(self):
        file, plan = sluice.File(self.path), sluice.Plan()
        for at in range(0, 400_000, 4000):
            plan.add(file, bytearray(4000), file_offset=at)
        plan.submit()
        gc.collect()
        with poisoned_memory([4000] * 8):
            plan.wait()
            for number, view in enumerate(plan._views):
                self.assertEqual(bytes(view.keep), self.data[number * 4000:(number + 1) * 4000])
        del plan
        file.close()

    def test_what_is_wrong_is_refused(self):
        plan = sluice.Plan()
        try:
            plan.submit()  # it has no range
            self.fail("a plan without ranges was submitted")
        except sluice.SluiceError as error:
            with sluice.File(self.path) as file:  # while the error lives
                self.assertEqual(plan.add(file, bytearray(10)), 0, error)
        plan = sluice.Plan()
        with sluice.File(self.path) as file:
            self.assertRaises(ValueError, plan.add, file, bytearray(10), 11)
            self.assertRaises(BufferError, plan.add, file, b"read-only")
            self.assertRaises(ValueError, plan.wait)
            self.assertRaises(TypeError, plan.add, file, bytearray(10), None, "0")
            self.assertRaises(OverflowError, plan.add, file, bytearray(10), None, 1 << 63)
            self.assertEqual(len(plan), 0)
            array = bytearray(10)
            self.assertEqual(plan.add(file, array, file_offset=20), 0)
            plan.submit()
            self.assertRaises(ValueError, plan.submit)
            self.assertRaises(ValueError, plan.add, file, bytearray(10))
            self.assertRaises(sluice.SluiceError, plan.wait, 2)
            plan.wait()
            self.assertEqual((len(plan), array), (1, self.data[20:30]))
            plan.close()
            self.assertRaises(ValueError, plan.wait)
            plan.close()

    def test_a_cancelled_plan_ends(self):
        with sluice.File(self.path) as file, sluice.Plan() as plan:
            arrays = [bytearray(4000) for _ in range(100)]
            for number, array in enumerate(arrays):
                plan.add(file, array, file_offset=number * 4000)
            plan.submit()
            plan.cancel()
            try:
                plan.wait()
            except sluice.SluiceError as error:
                self.assertIn("cancelled", str(error))
            for number, (array, one) in enumerate(zip(arrays, plan.results())):
                self.assertIn(one.state, ("done", "cancelled"))
                self.assertEqual(bytes(array[:one.bytes]), self.data[number * 4000:number * 4000 + one.bytes])

    def test_it_can_be_polled_and_awaited(self):
        with sluice.File(self.path) as file:
            for way in ("poll", "await"):
                array = bytearray(400_000)
                with sluice.Plan() as plan:
                    for at in range(0, 400_000, 8000):
                        plan.add(file, array, 8000, file_offset=at, dev_offset=at)
                    plan.submit()
                    if way == "await":
                        asyncio.run(self.until(plan))
                    else:
                        while plan.progress().state != "ended":
                            self.assertEqual(select.select([plan], [], [], 60)[0], [plan])
                            os.read(plan.fileno(), 8)
                    plan.wait(timeout=0)
                    self.assertEqual(plan.wait_item(3).bytes, 8000)
                self.assertEqual(bytes(array), self.data)

    @staticmethod
    async def until(plan):
        await plan

    def test_a_stream_waits_for_it(self):
        stream, tensor = _cuda.Stream(0), on_device(400_000)
        self.addCleanup(stream.close)
        with sluice.File(self.path) as file, sluice.Plan(for_streams=True) as plan:
            plan.add(file, tensor)
            plan.submit()
            plan.wait_in_stream(stream.handle.value)
            stream.synchronize()
            self.assertEqual(tensor.tobytes(), self.data)

    def test_a_range_is_explained(self):
        with sluice.File(self.path) as file, sluice.Plan() as plan:
            plan.add(file, bytearray(10))
            plan.submit()
            self.assertEqual(plan.explain(0)[:2], ("posix", "host_memory"))


class Loads(TestCase):
    def test_a_load_by_plans_has_every_byte(self):
        models = {name: some_tensors(40, seed) for seed, name in enumerate(("a.safetensors", "b.safetensors"))}
        models["b.safetensors"] = {f"b.{name}": one for name, one in models["b.safetensors"].items()}
        paths = [self.model(tensors, name) for name, tensors in models.items()]
        wanted = {name: one for tensors in models.values() for name, one in tensors.items()}
        for device in (0, "cpu"):
            for options in ({}, {"group_size": 64}, {"direct": True}):
                self.assert_same(st.load_files(paths, device, framework="sluice", engine="plan", **options), wanted)
            self.assert_same(dict(st.iterate(paths, device, framework="sluice", engine="plan", group_size=64)), wanted)

    def test_a_load_into_tensors_goes_by_plans(self):
        tensors = {f"t{number}": ("U8", (1000,), os.urandom(1000)) for number in range(20)}
        path = self.model(tensors)
        targets = {name: on_device(1000) for name in tensors}
        st.load_into(targets, path, engine="plan")
        self.assert_same(targets, tensors)

    def test_a_plan_asks_the_library_a_few_times_however_many_tensors_there_are(self):
        calls = sluice.library().calls
        counts = []
        for number in (10, 10_000):
            path = self.model({f"t{i}": ("U8", (3,), bytes([i % 251] * 3)) for i in range(number)}, f"{number}.safetensors")
            asked = []
            names = [name for name in ("sluice_plan_create", "sluice_plan_submit", "sluice_plan_wait", "sluice_plan_results")]
            with contextlib_stack([mock.patch.object(calls, name, counting(getattr(calls, name), asked)) for name in names]):
                self.assertEqual(len(st.load_files(path, 0, framework="sluice", engine="plan")), number)
            counts.append(len(asked))
        self.assertEqual(counts[0], counts[1])


def counting(function, asked):
    def called(*arguments):
        asked.append(function)
        return function(*arguments)

    return called


def contextlib_stack(contexts):
    import contextlib

    stack = contextlib.ExitStack()
    for one in contexts:
        stack.enter_context(one)
    return stack


if __name__ == "__main__":
    unittest.main()
