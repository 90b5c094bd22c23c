# SPDX-License-Identifier: Apache-2.0
"""The wheel: its record is right, its bytes depend on its contents alone, and pip installs it."""

from __future__ import annotations

import base64
import hashlib
import os
import pathlib
import subprocess
import sys
import unittest
import zipfile

from support import HERE, TestCase

BUILD = pathlib.Path(os.environ.get("SLUICE_BUILD", HERE.parent.parent / "build/release"))


class Wheel(TestCase):
    def build(self, name, **environment) -> pathlib.Path:
        done = subprocess.run([sys.executable, "-B", str(HERE.parent / "build_wheel.py"), "--build", str(BUILD), "--out",
                               str(self.folder / name)], capture_output=True, text=True,
                              env={**os.environ, **environment}, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return next((self.folder / name).glob("*.whl"))

    def test_two_builds_have_the_same_bytes(self):
        one, other = self.build("one"), self.build("other")
        self.assertEqual(one.name, other.name)
        self.assertEqual(one.read_bytes(), other.read_bytes())

    def test_the_record_tells_of_every_file(self):
        path = self.build("recorded")
        self.assertRegex(path.name, r"^sluice-[\d.]+-py3-none-manylinux_2_34_(x86_64|aarch64)\.whl$")
        with zipfile.ZipFile(path) as wheel:
            record = next(name for name in wheel.namelist() if name.endswith("RECORD"))
            told = dict(line.split(",", 1) for line in wheel.read(record).decode().splitlines())
            self.assertEqual(set(told), set(wheel.namelist()))
            for name in wheel.namelist():
                if name != record:
                    data = wheel.read(name)
                    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
                    self.assertEqual(told[name], f"sha256={digest},{len(data)}")
            for name in ("sluice/lib/libcufile.so.0", "sluice/lib/libcufile_rdma.so.1", "sluice/lib/sluice/softgpu/libcuda.so.1", "sluice/py.typed",
                         "sluice/safetensors.py"):
                self.assertIn(name, told)

    def test_a_library_for_64_bit_arm_makes_a_wheel_for_it_without_an_extension_of_this_machine(self):
        build = self.folder / "arm"
        for name in ("lib/libcufile.so.0", "lib/libcufile_rdma.so.1", "softgpu/libcuda.so.1"):
            data = bytearray((BUILD / name).read_bytes()[:4096])
            data[18:20] = (183).to_bytes(2, "little")  # e_machine
            (build / name).parent.mkdir(parents=True, exist_ok=True)
            (build / name).write_bytes(data)
        done = subprocess.run([sys.executable, "-B", str(HERE.parent / "build_wheel.py"), "--build", str(build), "--out",
                               str(self.folder)], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        path = next(self.folder.glob("*.whl"))
        self.assertTrue(path.name.endswith("manylinux_2_34_aarch64.whl"))
        with zipfile.ZipFile(path) as wheel:
            self.assertEqual([name for name in wheel.namelist() if "_native" in name],
                             ["sluice/_native.abi3.so"] if os.uname().machine == "aarch64" else [])

    def test_pip_installs_it_and_it_runs_by_itself(self):
        path = self.build("installed")
        target = self.folder / "site"
        if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, check=False).returncode != 0:
            self.skipTest("this Python has no pip")
        done = subprocess.run([sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "--target", str(target),
                               "--disable-pip-version-check", str(path)], capture_output=True, text=True, check=False)
        if "not a supported wheel" in done.stderr:
            self.skipTest("this pip does not know manylinux_2_34, or this system is older")
        self.assertEqual(done.returncode, 0, done.stderr)
        environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "SLUICE_LIBRARY")}
        done = subprocess.run([sys.executable, "-B", "-c", "import sluice; print(sluice.doctor())"], capture_output=True,
                              text=True, env={**environment, "PYTHONPATH": str(target), "SLUICE_SOFTGPU": "1"},
                              cwd=str(self.folder), check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(str(target), done.stdout)
        self.assertIn("'problems': []", done.stdout)
        self.assertIn("'driver': 'soft'", done.stdout)


if __name__ == "__main__":
    unittest.main()
