# SPDX-License-Identifier: Apache-2.0
"""Small reads by the CPU's stores into device memory (sluice.small_reads: window): which libgdrapi.so.2 a program gets, and
what the log says where it gets none."""
import os
import pathlib
import shutil
import sys

from support import BUILD, SLUICE, contains, environment, equal, main, run, scratch, skip, skip_when_sanitized

PROGRAM = pathlib.Path(__file__).with_name("window_program.py")
STAND_IN = BUILD / "softgpu/libgdrapi.so.2"
BUILT_IN = "SLUICE_GDRCOPY:BOOL=ON" in (BUILD / "CMakeCache.txt").read_text()
FOREIGN_CUDA = BUILD / "test-bin/system/foreign/libcuda.so.1"

# Whether the stand-in opens, in a program that has loaded the drivers that it is given.
OPEN = """
import ctypes, sys
for driver in sys.argv[2:]: ctypes.CDLL(driver)
library = ctypes.CDLL(sys.argv[1])
library.gdr_open.restype = ctypes.c_void_p
print(library.gdr_open() is not None)
"""


def program(folder, *command, **variables):
    """What the program printed, and what the log says."""
    skip_when_sanitized()
    file, log = folder / "file", folder / "log"
    file.write_bytes(os.urandom(4096))
    variables = {"SLUICE_SMALL_READS": "window", "CUFILE_LOGFILE_PATH": str(log), "CUFILE_LOGGING_LEVEL": "INFO"} | variables
    result = run(*command, sys.executable, "-B", PROGRAM, file, env=environment(**variables))
    return result.stdout, log.read_text()


def skip_without_windows():
    if not BUILT_IN:
        skip("windows are not built in: configure with -DSLUICE_GDRCOPY=ON")


def test_windows_that_are_not_built_in_are_done_without():
    if BUILT_IN:
        skip("windows are built in")
    with scratch() as folder:
        printed, log = program(folder, SLUICE, "run", "--soft-gpu", "--")
        equal(printed, "0 True\n")
        contains(log, "windows are not built in (SLUICE_GDRCOPY)")


def test_windows_come_with_the_soft_gpu_that_sluice_run_preloads():
    skip_without_windows()
    with scratch() as folder:
        printed, log = program(folder, SLUICE, "run", "--soft-gpu", "--")
        equal(printed, "10 True\n")
        equal("window" in log, False)


def test_windows_come_with_the_soft_gpu_that_the_library_loads():
    skip_without_windows()
    with scratch() as folder:
        printed, _ = program(folder, LD_LIBRARY_PATH=str(BUILD / "lib"), SLUICE_SOFTGPU="1")
        equal(printed, "10 True\n")


def test_windows_are_opened_by_nobody_who_did_not_ask_for_them():
    with scratch() as folder:
        for variables in ({"SLUICE_SMALL_READS": "auto"}, {"SLUICE_COPY": "engine"}, {"SLUICE_MODE": "plain"}):
            printed, log = program(folder, SLUICE, "run", "--soft-gpu", "--", SLUICE_SOFTGPU_FAIL="gdr_open:1+", **variables)
            equal(printed, "0 True\n")
            equal("gdr_open" in log, False)


def test_windows_that_need_a_library_which_is_not_there_are_done_without():
    skip_without_windows()
    with scratch() as folder:
        alone = folder / "alone"
        alone.mkdir()
        shutil.copy(BUILD / "softgpu/libcuda.so.1", alone)
        # The one further on belongs to another driver.
        path = f"{BUILD}/lib:{alone}:{BUILD}/softgpu"
        printed, log = program(folder, LD_LIBRARY_PATH=path)
        equal(printed, "0 True\n")
        contains(log, "libgdrapi.so.2")
        contains(log, "install GDRCopy and load its driver gdrdrv")


def test_windows_that_gdrcopy_refuses_are_done_without():
    skip_without_windows()
    with scratch() as folder:
        for call, part in (("gdr_open", "gdr_open is refused: load gdrdrv"),
                           ("gdr_pin_buffer", "no window onto a registered buffer of 4096 bytes: gdr_pin_buffer answers EIO: "),
                           ("gdr_get_info", "gdr_get_info_v2 answers EIO"), ("gdr_map", "gdr_map answers EIO")):
            printed, log = program(folder, SLUICE, "run", "--soft-gpu", "--", SLUICE_SOFTGPU_FAIL=call + ":1+")
            equal(printed, "0 True\n")
            contains(log, part)


def test_windows_of_the_stand_in_are_the_soft_gpus_alone():
    skip_when_sanitized()
    equal(run(sys.executable, "-c", OPEN, STAND_IN, BUILD / "softgpu/libcuda.so.1").stdout, "True\n")
    equal(run(sys.executable, "-c", OPEN, STAND_IN, FOREIGN_CUDA).stdout, "False\n")
    equal(run(sys.executable, "-c", OPEN, STAND_IN).stdout, "False\n")


if __name__ == "__main__":
    main(globals())
