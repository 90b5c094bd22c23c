# SPDX-License-Identifier: Apache-2.0
"""Who may make the library do what: programs with privileges of their own, and files of others."""
import io
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tarfile

import support
from support import BUILD, SLUICE, environment, equal, run, scratch, skip

NOBODY = 65534
PROGRAM = BUILD / "test-bin/system/secure_program"


def see_that_nothing_of_the_caller_holds(grant):
    """With the privileges that grant(program) gives to a file: its caller's configuration and log are none of its own."""
    if os.getuid() != 0 or shutil.which("setpriv") is None:
        skip("a program with privileges is made by root, and started by another user with setpriv")
    with scratch() as folder:
        folder.chmod(0o777)
        configuration = folder / "cufile.json"
        configuration.write_text('{"properties": {"per_buffer_cache_size_kb": 256}}')
        log = folder / "cufile.log"
        program = folder / "privileged"
        shutil.copy(PROGRAM, program)
        given = environment(CUFILE_ENV_PATH_JSON=str(configuration), CUFILE_LOGFILE_PATH=str(log),
                            CUFILE_LOGGING_LEVEL="TRACE")
        caller = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
        plain = run(*caller, program, env=given, status=None)
        if plain.returncode in (126, 127):
            skip("another user cannot reach the scratch folder or the build folder")
        equal(plain.stdout.split()[0], "256")
        if not log.exists():
            raise AssertionError("the program without privileges wrote no log: the test shows nothing")
        log.unlink()
        grant(program)
        secure = run(*caller, program, env=given, status=None)
        if secure.returncode in (126, 127):
            skip("programs have no privileges of their own on this file system")
        if secure.stdout.split()[0] == "256":
            raise AssertionError("the caller's configuration holds in a program with privileges of its own")
        if log.exists():
            raise AssertionError("a log was written where the caller of a program with privileges said")


def test_a_setuid_program_takes_no_file_and_no_variable_of_its_caller():
    see_that_nothing_of_the_caller_holds(lambda program: program.chmod(0o4755))


def test_a_setgid_program_takes_no_file_and_no_variable_of_its_caller():
    see_that_nothing_of_the_caller_holds(lambda program: program.chmod(0o2755))


def test_a_program_with_file_capabilities_takes_no_file_and_no_variable_of_its_caller():
    def grant(program):
        version_2, effective, net_raw = 0x02000000, 1, 1 << 13
        try:
            os.setxattr(program, "security.capability", struct.pack("<5I", version_2 | effective, net_raw, 0, 0, 0))
        except OSError as error:
            skip(f"files have no capabilities here: {error}")

    see_that_nothing_of_the_caller_holds(grant)


def test_a_recorded_machine_is_unpacked_inside_its_folder_alone():
    with scratch() as folder:
        tar = folder / "hostile.tar"
        outside = folder / "outside"
        for name, link in (("../outside", None), (str(outside), None), ("proc/x/../../../outside", None),
                           ("proc", "../..")):
            with tarfile.open(tar, "w", format=tarfile.USTAR_FORMAT) as writer:
                entry = tarfile.TarInfo(name)
                if link:
                    entry.type, entry.linkname = tarfile.SYMTYPE, link
                    writer.addfile(entry)
                    entry = tarfile.TarInfo("proc/outside")
                entry.size = 3
                writer.addfile(entry, io.BytesIO(b"bad"))
            run(SLUICE, "doctor", "--root", tar, status=None)
            if outside.exists() or pathlib.Path("/outside").exists():
                raise AssertionError(f"{name} -> {link} was written outside")


# Shows a region of statistics full of ones; the last word is 1 when it is sealed.
HOSTILE_PROCESS = """
import fcntl, mmap, os, sys
version, size, whole, seals = map(int, sys.argv[1:])
fd = os.memfd_create("sluice-stats", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
os.ftruncate(fd, whole)
memory = mmap.mmap(fd, whole)
memory[:] = b"\\xff" * whole
head = (0x5354415453434c53).to_bytes(8, "little") + version.to_bytes(4, "little") + size.to_bytes(4, "little")
memory[0:24] = head + os.getpid().to_bytes(8, "little")
if seals:
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
print("ready", flush=True)
sys.stdin.read()
"""


def test_statistics_that_lie_harm_no_reader():
    header = (support.SOURCE / "include/sluice_stats.h").read_text(encoding="utf-8")
    version = header.split("SLUICE_STATS_BASE_VERSION ")[1].split("u")[0]
    sizes = run(PROGRAM, "region").stdout.split()
    for sealed in ("0", "1"):
        with subprocess.Popen([sys.executable, "-c", HOSTILE_PROCESS, version, *sizes, sealed], env=environment(),
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
            equal(child.stdout.readline().strip(), "ready")
            for words in ((), ("--json",), ("--level", "3")):
                told = run(SLUICE, "stats", child.pid, *words, status=None)
                if "cannot be read" in told.stderr:
                    skip("this user may not read the memory of its own processes (ptrace_scope)")
                equal((told.returncode, told.stderr), (0, ""))
                if words == ("--json",):
                    json.loads(told.stdout)


if __name__ == "__main__":
    support.main(globals())
