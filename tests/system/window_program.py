# SPDX-License-Identifier: Apache-2.0
"""A program that reads a file of 4 KiB ten times into registered device memory. Takes the file's name. Prints how many
reads the CPU stored by itself, and whether the bytes are the file's."""
import ctypes
import os
import sys

SIZE = 4096
COUNTERS = 12  # of sluice_carrier_counts_t
CPU_WINDOW = 10  # the one that is meant

cufile = ctypes.CDLL("libcufile.so.0")
cufile.cuFileDriverOpen()  # brings the soft GPU along where that is asked for
cuda = ctypes.CDLL("libcuda.so.1")


class Description(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("handle", ctypes.c_void_p), ("operations", ctypes.c_void_p)]


def call(name, *arguments):
    result = getattr(cuda, name)(*arguments)
    if result != 0:
        sys.exit(f"{name} answered {result}")


def main():
    context, memory, file = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_void_p()
    call("cuInit", 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    call("cuCtxSetCurrent", context)
    call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(SIZE))
    address = ctypes.c_void_p(memory.value)
    descriptor = os.open(sys.argv[1], os.O_RDONLY)
    cufile.cuFileHandleRegister(ctypes.byref(file), ctypes.byref(Description(1, descriptor, None)))
    cufile.cuFileBufRegister.restype = ctypes.c_uint64
    if cufile.cuFileBufRegister(address, ctypes.c_size_t(SIZE), 0) & 0xffffffff:
        sys.exit("the buffer is refused")
    cufile.cuFileRead.restype = ctypes.c_ssize_t
    for _ in range(10):
        if cufile.cuFileRead(file, address, ctypes.c_size_t(SIZE), ctypes.c_int64(0), ctypes.c_int64(0)) != SIZE:
            sys.exit("a read failed")
    counters = (ctypes.c_uint64 * COUNTERS)()
    cufile.sluice_carrier_counters(counters)
    back = ctypes.create_string_buffer(SIZE)
    call("cuMemcpyDtoH_v2", back, memory, ctypes.c_size_t(SIZE))
    with open(sys.argv[1], "rb") as original:
        print(counters[CPU_WINDOW], back.raw == original.read())


main()
