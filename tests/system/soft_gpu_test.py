# SPDX-License-Identifier: Apache-2.0
"""The soft GPU for programs of others: by `sluice run --soft-gpu`, and by SLUICE_SOFTGPU=1."""
import json
import os
import pathlib
import sys

from support import (BUILD, LIBRARY, SLUICE, contains, environment, equal, main, run, scratch, skip_when_sanitized)

PROGRAM = pathlib.Path(__file__).with_name("soft_gpu_program.py")
FOREIGN_CUDA = BUILD / "test-bin/system/foreign/libcuda.so.1"

# Opens cuFile, then asks the loader for a driver, as programs do that load it late.
LATE = """
import ctypes, sys
if len(sys.argv) > 2: ctypes.CDLL(sys.argv[2])
ctypes.CDLL(sys.argv[1]).cuFileDriverOpen()
try:
    driver = ctypes.CDLL("libcuda.so.1")
    print("soft" if hasattr(driver, "cuSluiceSoftGpuVersion") else "foreign")
except OSError:
    print("none")
"""

# Reads a file into host memory, in a program that may have loaded a driver before.
READ = """
import ctypes, os, sys
ctypes.CDLL(sys.argv[2])
cufile = ctypes.CDLL(sys.argv[1])
class Description(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("handle", ctypes.c_void_p), ("operations", ctypes.c_void_p)]
file = ctypes.c_void_p()
cufile.cuFileHandleRegister(ctypes.byref(file), ctypes.byref(Description(1, os.open(sys.argv[3], os.O_RDONLY), None)))
memory = ctypes.create_string_buffer(100)
cufile.cuFileRead.restype = ctypes.c_ssize_t
print(cufile.cuFileRead(file, memory, ctypes.c_size_t(100), ctypes.c_int64(0), ctypes.c_int64(0)))
"""


def run_program(size=100_000, **variables):
    """What the program printed and its exit status, on a file of that size."""
    skip_when_sanitized()
    with scratch() as folder:
        file = folder / "file"
        file.write_bytes(os.urandom(size))
        return run(SLUICE, "run", "--soft-gpu", "--", sys.executable, PROGRAM, file, env=environment(**variables),
                   status=None)


def late(*words, **variables):
    skip_when_sanitized()
    return run(sys.executable, "-c", LATE, LIBRARY, *words, env=environment(**variables)).stdout


def test_soft_gpu_runs_a_program_of_the_driver_api():
    result = run_program()
    equal(result.stdout, "Sluice soft GPU 100000 True\n")
    equal(result.returncode, 0)
    contains(result.stderr, "1 read of 97.7 KiB by posix (soft_gpu)")


def test_soft_gpu_fails_the_call_that_a_program_is_to_survive():
    result = run_program(SLUICE_SOFTGPU_FAIL="cuMemAlloc:1:2")
    equal(result.returncode, 1)
    contains(result.stderr, "cuMemAlloc_v2 answered 2")


def test_soft_gpu_fails_to_start_on_request_as_often_as_that_is_wanted():
    driver = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
count = ctypes.c_int()
print([cuda.cuInit(0), cuda.cuDeviceGetCount(ctypes.byref(count)), cuda.cuInit(0), cuda.cuDeviceGetCount(ctypes.byref(count))])
"""
    for rule, answers in (("cuInit:1+:999", [999, 3, 999, 3]), ("cuInit:1:100", [100, 3, 0, 0]), ("cuInit:2:999", [0, 0, 999, 0])):
        result = run(sys.executable, "-c", driver,
                     env=environment(LD_LIBRARY_PATH=str(BUILD / "softgpu"), SLUICE_SOFTGPU_FAIL=rule))
        equal((rule, result.stdout), (rule, f"{answers}\n"))


def test_a_soft_gpu_that_refuses_what_it_was_told_is_named_as_the_cause():
    with scratch() as folder:
        for variable, word, answer in (("SLUICE_SOFTGPU_DEVICES", "0", "CUDA_ERROR_NO_DEVICE"),
                                       ("SLUICE_SOFTGPU_BACKING", "/nodir/memory", "CUDA_ERROR_OPERATING_SYSTEM")):
            told = run(SLUICE, "demo", "--dir", folder, env=environment(SLUICE_SOFTGPU="1", **{variable: word}), status=None).stderr
            contains(told, "the soft GPU does not start: cuInit of ")
            contains(told, answer)
            contains(told, f"Unset or mend what it was told: {variable}={word}.")


def test_soft_gpu_has_the_memory_that_a_program_is_to_do_with():
    result = run_program(size=5 << 20, SLUICE_SOFTGPU_MEMORY_MIB="4")
    contains(result.stderr, "cuMemAlloc_v2 answered 2")


def test_soft_gpu_memory_can_be_a_file_that_outlives_the_program():
    skip_when_sanitized()
    with scratch() as folder:
        (folder / "memory").write_bytes(b"")
        (folder / "file").write_bytes(b"in device memory" * 1000)
        run(SLUICE, "run", "--soft-gpu", "--", sys.executable, PROGRAM, folder / "file",
            env=environment(SLUICE_SOFTGPU_BACKING=str(folder / "memory"), SLUICE_SOFTGPU_MEMORY_MIB="4"))
        memory = (folder / "memory").read_bytes()
        equal(len(memory), 4 << 20)
        equal(memory[:16_000], b"in device memory" * 1000)


def test_soft_gpu_is_what_a_program_gets_that_loads_a_driver_late():
    equal(late(SLUICE_SOFTGPU="1"), "soft\n")


def test_soft_gpu_is_forced_on_nobody_without_being_asked_for():
    if late() == "soft\n":
        raise AssertionError("the soft GPU came along unasked")


def test_soft_gpu_never_joins_a_program_that_has_a_driver():
    with scratch() as folder:
        log = folder / "log"
        equal(late(FOREIGN_CUDA, SLUICE_SOFTGPU="1", CUFILE_LOGFILE_PATH=str(log)), "foreign\n")
        contains(log.read_text(), "SLUICE_SOFTGPU=1 is refused")
        contains(log.read_text(), str(FOREIGN_CUDA))


def test_soft_gpu_explains_that_it_was_refused():
    skip_when_sanitized()
    with scratch() as folder:
        (folder / "file").write_bytes(b"x" * 100)
        result = run(sys.executable, "-c", READ, LIBRARY, FOREIGN_CUDA, folder / "file",
                     env=environment(SLUICE_SOFTGPU="1", SLUICE_EXPLAIN="1"))
        equal(result.stdout, "100\n")
        contains(result.stderr, "SLUICE_SOFTGPU=1 is refused")


def test_soft_gpu_is_taught_by_the_help_of_run():
    text = run(SLUICE, "run", "--help").stdout
    for word in ("--soft-gpu", "SLUICE_SOFTGPU_FAIL", "driver API", "libcudart"):
        contains(text, word)


def test_a_limit_on_the_size_of_files_leaves_the_soft_gpu_less_memory_and_ends_no_tool():
    def limited(kibibytes, *words, status=0):
        script = f"ulimit -f {2 * kibibytes}; exec \"$@\""  # in units of 512 bytes
        return run("sh", "-c", script, "sh", *words, env=environment(SLUICE_SOFTGPU="1"), status=status)
    with scratch() as folder:
        file = folder / "file"
        file.write_bytes(bytes(1 << 20))
        equal(json.loads(limited(64 << 10, SLUICE, "explain", "--json", file).stdout)["driver"], "soft")
        equal(json.loads(limited(64 << 10, SLUICE, "demo", "--dir", folder, "--size", "1M", "--json").stdout)["verified"], True)
        limited(64 << 10, BUILD / "bin/gdscheck", "--soft", "-p")
        # No room for a page of a device: those that look work, and what wants a GPU says why there is none.
        limited(50, SLUICE, "version")
        limited(50, SLUICE, "explain", file, "--as-if-gpu")
        contains(limited(50, BUILD / "bin/gdscheck", "--soft", "-p", status=1).stdout, "Platform verification ")
        told = limited(50, SLUICE, "demo", "--dir", folder, "--size", "4K", status=1).stderr
        contains(told, "the soft GPU does not start: cuInit of ")
        contains(told, "CUDA_ERROR_OUT_OF_MEMORY")
        contains(told, "Raise the limit on the size of files: ulimit -f unlimited.")


if __name__ == "__main__":
    main(globals())
