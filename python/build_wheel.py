#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the wheel of the Python package, with the standard library alone.

    build_wheel.py --build build/release --out dist

It holds python/sluice, libcufile.so.0 and the soft GPU without debug information, and, where cc and Python.h are there,
the extension for what is called per request. The bytes of the wheel depend on its contents alone: names are in order,
times are fixed (SOURCE_DATE_EPOCH, or 1980).
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import sysconfig
import tempfile
import time
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parent
MACHINES = {62: "x86_64", 183: "aarch64"}  # e_machine of ELF
LIBRARIES = {"lib/libcufile.so.0": "sluice/lib/libcufile.so.0",
             "lib/libcufile_rdma.so.1": "sluice/lib/libcufile_rdma.so.1",
             "softgpu/libcuda.so.1": "sluice/lib/sluice/softgpu/libcuda.so.1"}
SUMMARY = "GPUDirect Storage for Python: loads models into GPU memory, and says which way the bytes went"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=TOP / "build/release", help="a build folder")
    parser.add_argument("--out", type=pathlib.Path, default=TOP / "dist", help="where the wheel goes")
    parser.add_argument("--cc", default=os.environ.get("CC", "cc"), help="the C compiler")
    parser.add_argument("--include", help="the folder of Python.h (default: this Python's)")
    parser.add_argument("--no-extension", action="store_true", help="ctypes alone")
    return parser.parse_args()


def version() -> str:
    text = (TOP / "CMakeLists.txt").read_text(encoding="utf-8")
    return re.search(r"project\(Sluice VERSION ([\d.]+)", text).group(1)


def machine_of(path: pathlib.Path) -> str:
    """The platform of a library, out of its own header."""
    head = path.read_bytes()[:20]
    if head[:4] != b"\x7fELF":
        sys.exit(f"build_wheel.py: {path} is no shared library: build the release first (./run build)")
    number = struct.unpack_from("<H", head, 18)[0]
    if number not in MACHINES:
        sys.exit(f"build_wheel.py: {path} is for a machine that wheels are not made for (ELF machine {number})")
    return MACHINES[number]


def stripped(path: pathlib.Path, folder: pathlib.Path) -> bytes:
    """A library without its debug information; as it is where no strip can do that."""
    target = folder / path.name
    tools = [tool for tool in ("strip", "llvm-strip", f"{machine_of(path)}-linux-gnu-strip") if shutil.which(tool)]
    for tool in tools:
        if subprocess.run([tool, "--strip-debug", "-o", str(target), str(path)], stderr=subprocess.DEVNULL,
                          check=False).returncode == 0:
            return target.read_bytes()
    print(f"build_wheel.py: no strip works on {path.name}: it keeps its debug information", file=sys.stderr)
    return path.read_bytes()


def header_folder(options: argparse.Namespace) -> "str | None":
    for folder in (options.include, sysconfig.get_paths()["include"], "/usr/include/python3.11", "/usr/include/python3.12",
                   "/usr/include/python3.13"):
        if folder and (pathlib.Path(folder) / "Python.h").exists():
            return folder
    return None


def configuration(include: str, machine: str, folder: pathlib.Path) -> "list[str]":
    """Debian's pyconfig.h goes on to that of the compiler's architecture. Where that is not installed, this machine's serves: sizes
    and byte order are the same for all that wheels are made for."""
    name = pathlib.Path(include).name
    ours = next(pathlib.Path("/usr/include").glob(f"*-linux-gnu/{name}/pyconfig.h"), None)
    if ours is None or pathlib.Path(f"/usr/include/{machine}-linux-gnu/{name}/pyconfig.h").exists():
        return []
    theirs = folder / "include" / f"{machine}-linux-gnu" / name
    theirs.mkdir(parents=True)
    shutil.copyfile(ours, theirs / "pyconfig.h")
    return ["-I", str(folder / "include")]


def extension(options: argparse.Namespace, machine: str, folder: pathlib.Path) -> "bytes | None":
    """The extension, for every CPython from 3.9 on; None, and why, where it cannot be built."""
    sources, include = sorted((HERE / "native").glob("*.c")), header_folder(options)
    if options.no_extension:
        return None
    if include is None or shutil.which(options.cc) is None:
        print("build_wheel.py: without the extension, since " +
              ("Python.h is not here (python3-dev)" if include is None else f"{options.cc} is not here"), file=sys.stderr)
        return None
    target = folder / "_native.abi3.so"
    command = [options.cc, "-std=gnu11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror",
               "-pthread", "-DPy_LIMITED_API=0x03090000", "-I", include, *configuration(include, machine, folder), f"-ffile-prefix-map={TOP}=.",
               "-Wl,--build-id=none", "-s", "-o", str(target),
               *(str(source) for source in sources)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"build_wheel.py: {' '.join(command)}\n{done.stderr}")
    if machine_of(target) != machine:
        print(f"build_wheel.py: without the extension, since {options.cc} builds for {machine_of(target)}, and the library "
              f"is for {machine}: --cc names a compiler for it", file=sys.stderr)
        return None
    return target.read_bytes()


def metadata(number: str) -> str:
    guide = TOP / "docs/guide/python.md"
    text = guide.read_text(encoding="utf-8") if guide.exists() else ""
    return (f"Metadata-Version: 2.1\nName: sluice\nVersion: {number}\nSummary: {SUMMARY}\nLicense: Apache-2.0\n"
            "Requires-Python: >=3.9\nClassifier: Programming Language :: Python :: 3\n"
            "Classifier: Operating System :: POSIX :: Linux\nClassifier: Typing :: Typed\n"
            f"Description-Content-Type: text/markdown\n\n{text}")


def contents(options: argparse.Namespace, folder: pathlib.Path) -> "tuple[dict[str, bytes], str]":
    """What the wheel holds, by name, without its record; and its platform."""
    missing = [name for name in LIBRARIES if not (options.build / name).exists()]
    if missing:
        sys.exit(f"build_wheel.py: {options.build} lacks {', '.join(missing)}: build it first (./run wheel does)")
    machine = machine_of(options.build / "lib/libcufile.so.0")
    files = {f"sluice/{path.relative_to(HERE / 'sluice').as_posix()}": path.read_bytes()
             for path in sorted((HERE / "sluice").rglob("*")) if path.suffix == ".py" or path.name == "py.typed"}
    files.update((there, stripped(options.build / here, folder)) for here, there in LIBRARIES.items())
    native = extension(options, machine, folder)
    if native is not None:
        files["sluice/_native.abi3.so"] = native
    info = f"sluice-{version()}.dist-info"
    files[f"{info}/METADATA"] = metadata(version()).encode()
    files[f"{info}/WHEEL"] = (f"Wheel-Version: 1.0\nGenerator: sluice build_wheel\nRoot-Is-Purelib: false\n"
                              f"Tag: py3-none-manylinux_2_34_{machine}\n").encode()
    files[f"{info}/LICENSE"] = (TOP / "LICENSE").read_bytes()
    files[f"{info}/NOTICES"] = (TOP / "packaging/NOTICES").read_bytes()
    files[f"{info}/entry_points.txt"] = b"[vllm.general_plugins]\nsluice = sluice.adapters.vllm:register\n"
    return files, machine


def record(files: "dict[str, bytes]", name: str) -> bytes:
    lines = [f"{file},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},{len(data)}"
             for file, data in files.items()]
    return ("\n".join(lines + [f"{name},,"]) + "\n").encode()


def write(path: pathlib.Path, files: "dict[str, bytes]") -> None:
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH", "315532800"))  # the earliest time that a zip file can tell
    moment = max(time.gmtime(epoch)[:6], (1980, 1, 1, 0, 0, 0))
    beside = path.with_name(path.name + ".new")
    with zipfile.ZipFile(beside, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        for name, data in files.items():
            about = zipfile.ZipInfo(name, moment)
            about.external_attr = (0o100755 if ".so" in name else 0o100644) << 16
            about.compress_type, about.create_system = zipfile.ZIP_DEFLATED, 3
            wheel.writestr(about, data)
    os.replace(beside, path)


def main() -> int:
    options = arguments()
    with tempfile.TemporaryDirectory() as folder:
        files, machine = contents(options, pathlib.Path(folder))
    files = dict(sorted(files.items(), key=lambda item: (".dist-info/" in item[0], item[0])))
    name = f"sluice-{version()}.dist-info/RECORD"
    files[name] = record(files, name)
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / f"sluice-{version()}-py3-none-manylinux_2_34_{machine}.whl"
    write(path, files)
    print(f"{path}: {path.stat().st_size / 1e6:.1f} MB, {len(files)} files, "
          f"{'with' if 'sluice/_native.abi3.so' in files else 'without'} the extension")
    return 0


if __name__ == "__main__":
    sys.exit(main())
