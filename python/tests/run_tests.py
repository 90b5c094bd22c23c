#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a test of the Python package by every Python that is here, over the soft GPU.

    run_tests.py --build build/release FILE...       e.g. test_load.py
    run_tests.py --build build/release --prepare     builds the wheel and unpacks it; the tests run on that

Of each version from 3.9 to 3.14 one Python is taken, one with numpy where there is one, and named; versions that are not
here are named, too. The extension is used where it can be loaded; the newest Python runs every test a second time by
ctypes alone.
"""

from __future__ import annotations

import argparse
import glob
import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
VERSIONS = [f"3.{minor}" for minor in range(9, 15)]
PROBE = ("import sys, importlib.util as u\n"
         "has = [int(u.find_spec(name) is not None) for name in ('numpy', 'torch')]\n"
         "print('%d.%d' % sys.version_info[:2], sys.executable, *has)")


def pythons() -> "dict[str, str]":
    """One executable a version."""
    names = [shutil.which(f"python{version}") for version in VERSIONS] + ["/usr/bin/python3", sys.executable]
    names += glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python3"))
    found: "dict[str, tuple[int, str]]" = {}
    for name in dict.fromkeys(name for name in names if name):
        try:
            done = subprocess.run([name, "-c", PROBE], capture_output=True, text=True, timeout=60, check=False)
        except OSError:
            continue
        words = done.stdout.split()
        if done.returncode != 0 or len(words) != 4 or words[0] not in VERSIONS:
            continue
        worth = int(words[2]) + int(words[3])
        if words[0] not in found or worth > found[words[0]][0]:
            found[words[0]] = (worth, words[1])
    return {version: found[version][1] for version in VERSIONS if version in found}


def prepare(build: pathlib.Path) -> int:
    target = build / "python-wheel"
    shutil.rmtree(target, ignore_errors=True)
    done = subprocess.run([sys.executable, "-B", str(HERE.parent / "build_wheel.py"), "--build", str(build), "--out",
                           str(target)], check=False)
    if done.returncode == 0:
        with zipfile.ZipFile(next(target.glob("*.whl"))) as wheel:
            wheel.extractall(target / "site")
    return done.returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="a build folder")
    parser.add_argument("--prepare", action="store_true", help="build the wheel and unpack it")
    parser.add_argument("--ends", action="store_true", help="only the oldest and the newest version that is here")
    parser.add_argument("--only", help="one version, as 3.11")
    parser.add_argument("files", nargs="*")
    options = parser.parse_args()
    build = options.build.resolve()
    if options.prepare:
        return prepare(build)
    here = {version: name for version, name in pythons().items() if options.only in (None, version)}
    if not here:
        print("skipped: there is no Python from 3.9 on here")
        return 77
    if options.ends:
        here = dict([list(here.items())[0], list(here.items())[-1]])
    print("Pythons:", ", ".join(here), "; not here:", ", ".join(set(VERSIONS) - set(here)) or "none", flush=True)
    turns = [(version, name, "1") for version, name in here.items()]
    if not options.ends:
        turns.append((*list(here.items())[-1], "0"))
    failed = []
    for version, name, native in turns:
        environment = {**os.environ, "PYTHONPATH": f"{build / 'python-wheel/site'}:{HERE}", "SLUICE_SOFTGPU": "1",
                       "SLUICE_PYTHON_NATIVE": native, "SLUICE_BUILD": str(build), "PYTHONDONTWRITEBYTECODE": "1"}
        environment.pop("SLUICE_LIBRARY", None)
        for file in options.files:
            how = "ctypes alone" if native == "0" else "extension where it loads"
            print(f"-- {file}, Python {version}, {how}", flush=True)
            done = subprocess.run([name, "-B", str(HERE / file)], env=environment, check=False)
            if done.returncode != 0:
                failed.append(f"{file} by Python {version}")
    print("failed: " + ", ".join(failed) if failed else "passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
