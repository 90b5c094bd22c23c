# SPDX-License-Identifier: Apache-2.0
"""A job that is slow for a while, because its storage is: reads a file by O_DIRECT into host memory, and tells the sick
file system (tests/sick) when to fall ill.

  slow_program.py FILE CONDITION [WAITING]     CONDITION is the memory that the server looks at

Prints when it was slow, in nanoseconds of the wall's clock. With a third word it waits before, between and after its three
parts, each time for a line: so that a test can look at it.
"""
import ctypes
import mmap
import os
import sys
import time

PIECE = 1 << 20
PIECES = 16
READS_BEFORE, READS_SLOW, READS_AFTER = 4000, 100, 4000
LATE = 1


class Description(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("handle", ctypes.c_void_p), ("operations", ctypes.c_void_p)]


def main():
    library = ctypes.CDLL("libcufile.so.0")
    library.cuFileRead.restype = ctypes.c_ssize_t
    library.cuFileDriverOpen.restype = library.cuFileHandleRegister.restype = ctypes.c_uint64
    with open(sys.argv[2], "r+b") as file:
        condition = mmap.mmap(file.fileno(), 32)
    memory = mmap.mmap(-1, PIECE)
    place = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    handle = ctypes.c_void_p()
    descriptor = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
    assert library.cuFileDriverOpen() & 0xffffffff == 0
    assert library.cuFileHandleRegister(ctypes.byref(handle), ctypes.byref(Description(1, descriptor, None))) & 0xffffffff == 0

    def read(count):
        for number in range(count):
            done = library.cuFileRead(handle, ctypes.c_void_p(place), ctypes.c_size_t(PIECE),
                                      ctypes.c_int64(number % PIECES * PIECE), ctypes.c_int64(0))
            assert done == PIECE, done

    def border():
        if len(sys.argv) > 3:
            print("waiting", flush=True)
            sys.stdin.readline()

    border()
    read(READS_BEFORE)
    border()
    begin = time.time_ns()
    condition[0:4] = LATE.to_bytes(4, "little")
    read(READS_SLOW)
    condition[0:4] = bytes(4)
    end = time.time_ns()
    border()
    read(READS_AFTER)
    border()
    print(begin, end)


main()
