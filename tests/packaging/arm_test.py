# SPDX-License-Identifier: Apache-2.0
"""The Debian packages for 64-bit Arm, built by the cross compiler: what they say, what lies where, what lintian says, and tools out
of them that run through qemu-user on the soft GPU."""
import contextlib
import json
import os
import pathlib
import platform
import re
import shutil

from deb_test import BY_RULES, PLACES, dead_links
from support import BUILD, SOURCE, contains, environment, equal, main, run, scratch, skip, skip_when_sanitized

PACKAGES = BUILD / "packages/dist-arm64"
TRIPLET = "aarch64-linux-gnu"
PRIVATE = f"usr/lib/{TRIPLET}/sluice"
# The driver for Kubernetes wants gRPC of that architecture, which a cross compiler does not bring.
NAMES = ["libcufile-sluice", "libcufile-sluice-dev", "sluice-softgpu", "sluice-tools"]
# The cross compiler's own C and C++ libraries, which the emulator's programs find.
LIBRARIES = pathlib.Path(f"/usr/{TRIPLET}")


def needs(*programs):
    if platform.machine() == "aarch64":
        skip("this machine has that architecture: its packages are those of the other tests")
    for program in programs:
        if shutil.which(program) is None:
            skip(f"{program} is not installed")


def packages():
    """name → file of the packages that users install."""
    found = {path.name.split("_")[0]: path for path in PACKAGES.glob("*_arm64.deb") if "-dbgsym" not in path.name}
    if not found:
        skip("the packages were not built (test packaging.packages_for_arm_are_built)")
    return found


@contextlib.contextmanager
def unpacked():
    """The packages in one folder, as they lie on a machine."""
    with scratch() as folder:
        for path in packages().values():
            run("dpkg-deb", "-x", path, folder)
        yield folder


def machine_code(root):
    """Every program and library below a folder."""
    for path in sorted(path for path in root.rglob("*") if path.is_file() and not path.is_symlink()):
        with path.open("rb") as file:
            if file.read(4) == b"\x7fELF":
                yield path


def emulated(root, program, *words, status=0, **more):
    """A program of these packages through the emulator, on the soft GPU."""
    variables = environment(QEMU_LD_PREFIX=str(LIBRARIES), SLUICE_SOFTGPU="1", **more)
    return run("qemu-aarch64", root / program, *words, env=variables, status=status, timeout=300)


def test_packages_for_arm_are_built():
    skip_when_sanitized()
    needs("dpkg-buildpackage", "dh", f"{TRIPLET}-g++", "qemu-aarch64")
    shutil.rmtree(PACKAGES, ignore_errors=True)
    run("python3", "-B", SOURCE / "packaging/package.py", "--arch", "arm64", "--without-csi", "--out", PACKAGES, "--work",
        BUILD / "packages/work-arm64", timeout=6800, env=dict(os.environ))
    equal(sorted(packages()), NAMES)


def test_packages_for_arm_say_what_they_are_and_need():
    needs("dpkg-deb")
    for name, path in packages().items():
        fields = {field: run("dpkg-deb", "-f", path, field).stdout.strip()
                  for field in ("Package", "Architecture", "Source", "Version", "Multi-Arch", "Depends")}
        equal((fields["Package"], fields["Architecture"], fields["Source"]), (name, "arm64", "sluice"))
        equal(path.name, f"{name}_{fields['Version']}_arm64.deb")
        equal(fields["Multi-Arch"], "foreign" if name == "sluice-tools" else "same")
        needed = dict(re.fullmatch(r"(\S+)(?: \((.*)\))?", each).groups() for each in fields["Depends"].split(", "))
        # What a machine of that architecture has; none of the packages that a cross compiler is made of.
        equal([each for each in needed if each.endswith("-cross") or "amd64" in each], [])
        if name != "libcufile-sluice-dev":
            equal((name, {"libc6", "libgcc-s1", "libstdc++6"} <= {each.split(":")[0] for each in needed}), (name, True))
        if name in ("libcufile-sluice-dev", "sluice-tools"):
            equal(needed["libcufile-sluice"], f"= {fields['Version']}")
    symbols = {path.name.split("_")[0] for path in PACKAGES.iterdir() if "-dbgsym" in path.name}
    equal(symbols, {f"{name}-dbgsym" for name in NAMES if name != "libcufile-sluice-dev"})


def test_packages_for_arm_hold_what_an_installation_holds():
    with unpacked() as root, scratch() as folder:
        run("cmake", "--install", BUILD, "--prefix", folder / "prefix")
        expected = set()
        for path in (path for path in (folder / "prefix").rglob("*") if not path.is_dir()):
            file = path.relative_to(folder / "prefix").as_posix()
            pattern, place = next(pair for pair in PLACES if re.fullmatch(pair[0], file))
            expected.add(re.sub(f"^{pattern}$", place, file).replace("usr/lib/T/", f"usr/lib/{TRIPLET}/"))
        # Debian has names of its own for the licence and the changes, and a folder of its own for completions for zsh.
        expected -= BY_RULES | {f"usr/share/doc/sluice-tools/{name}" for name in ("LICENSE", "CHANGELOG.md")}
        expected = {file.replace("zsh/site-functions/", "zsh/vendor-completions/") for file in expected}
        found = {path.relative_to(root).as_posix().removesuffix(".gz") for path in root.rglob("*") if path.is_symlink() or not path.is_dir()}
        equal(sorted(expected - found), [])
        equal([file for file in found if "x86_64" in file], [])
        equal(dead_links(root)[0], [])


def test_packages_for_arm_hold_code_for_arm_alone():
    with unpacked() as root:
        libraries = {path.relative_to(root).as_posix() for path in machine_code(root)}
        for file in ("libcufile.so.0", "libcufile_rdma.so.1", "libsluice_witness.so", "softgpu/libcuda.so.1", "softgpu/libgdrapi.so.2"):
            equal((file, f"{PRIVATE}/{file}" in libraries), (file, True))
        for path in machine_code(root):
            head = run("readelf", "-h", path).stdout
            equal((path.name, re.search(r"Machine: +(.*)", head)[1]), (path.name, "AArch64"))
            # Pages of 64 KiB, as some kernels for Arm have them: no segment asks for less.
            steps = {int(step, 16) for step in re.findall(r"^  LOAD .* (0x[0-9a-f]+)$", run("readelf", "-lW", path).stdout, re.MULTILINE)}
            equal((path.name, min(steps) >= 65536), (path.name, True))
        # The archive holds one object, which is for the same machine.
        contains(run("readelf", "-h", root / PRIVATE / "libcufile_static.a").stdout, "AArch64")


def test_packages_for_arm_need_no_newer_system_than_others_do():
    look = SOURCE / "tests/abi/check_library.py"
    with unpacked() as root:
        for file, soname in (("libcufile.so.0", "libcufile.so.0"), ("softgpu/libcuda.so.1", "libcuda.so.1"), ("softgpu/libgdrapi.so.2", "libgdrapi.so.2")):
            run("python3", "-B", look, "--readelf", "readelf", "needs", root / PRIVATE / file, "--soname", soname)


def test_packages_for_arm_satisfy_lintian():
    packages()
    needs("lintian")
    (changes,) = PACKAGES.glob("*.changes")
    answer = run("lintian", "--no-cfg", "--display-info", "--fail-on", "error,warning,info", "--allow-root", changes, status=None, timeout=300)
    equal((answer.stdout, answer.returncode), ("", 0))


def test_packages_for_arm_have_tools_that_run():
    needs("qemu-aarch64")
    if not (LIBRARIES / "lib/libc.so.6").exists():
        skip("the C library of that architecture is not installed (libc6-arm64-cross)")
    with unpacked() as root:
        version = json.loads(emulated(root, "usr/bin/sluice", "version", "--json").stdout)
        equal((version["library"], version["driver"]), (str(root / PRIVATE / "libcufile.so.0"), "soft"))
        equal(version["build"]["machine"], "aarch64")
        doctor = emulated(root, "usr/bin/sluice", "doctor", status=None)
        equal((doctor.returncode in (0, 1, 2, 3), doctor.stderr), (True, ""))
        contains(doctor.stdout.splitlines()[-1], "verdict   ")
        (root / "tmp").mkdir()
        demo = json.loads(emulated(root, "usr/bin/sluice", "demo", "--dir", root / "tmp", "--size", "2M", "--json").stdout)
        equal((demo["verified"], demo["reason"]), (True, "soft_gpu"))
        contains(emulated(root, "usr/bin/gdsio", "-f", root / "tmp/f", "-s", "1M", "-I", "1", "-x", "0", "-d", "0", "-w", "1", "-i", "1M").stdout, "WRITE")


if __name__ == "__main__":
    main(globals())
