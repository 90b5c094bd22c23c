# SPDX-License-Identifier: Apache-2.0
"""A program of the driver API and of cuFile, as a user has it: reads a file into device memory and copies it back.

Takes the file's name. Prints the name of the device, how many bytes arrived, and whether they are the file's. Leaves
with 1 when a CUDA call fails, and prints which.
"""
import ctypes
import os
import sys

cuda = ctypes.CDLL("libcuda.so.1")
cufile = ctypes.CDLL("libcufile.so.0")


def call(name, *arguments):
    result = getattr(cuda, name)(*arguments)
    if result != 0:
        sys.exit(f"{name} answered {result}")


class Description(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("handle", ctypes.c_void_p), ("operations", ctypes.c_void_p)]


def main():
    path = sys.argv[1]
    size = os.path.getsize(path)
    context = ctypes.c_void_p()
    call("cuInit", 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    call("cuCtxSetCurrent", context)
    name = ctypes.create_string_buffer(100)
    call("cuDeviceGetName", name, 100, 0)
    memory = ctypes.c_uint64()
    call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(size))

    descriptor = os.open(path, os.O_RDONLY)
    file = ctypes.c_void_p()
    cufile.cuFileHandleRegister(ctypes.byref(file), ctypes.byref(Description(1, descriptor, None)))
    cufile.cuFileRead.restype = ctypes.c_ssize_t
    count = cufile.cuFileRead(file, ctypes.c_void_p(memory.value), ctypes.c_size_t(size), ctypes.c_int64(0),
                              ctypes.c_int64(0))
    cufile.cuFileHandleDeregister(file)

    back = ctypes.create_string_buffer(size)
    call("cuMemcpyDtoH_v2", back, memory, ctypes.c_size_t(size))
    with open(path, "rb") as original:
        print(name.value.decode(), count, back.raw == original.read())


main()
