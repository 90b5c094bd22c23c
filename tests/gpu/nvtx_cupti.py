#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads and writes a file through our library while NVIDIA's CUPTI records ranges (it is the library that NVTX injects),
and says which ones it got: `CUPTI: domain sluice: ...`. Ends with 77 and the reason where there is no CUPTI.
"""
import argparse
import collections
import ctypes
import glob
import os
import site
import sys

MARKER, MARKER_DATA = 12, 13  # kinds of records
START, END = 2, 4             # flags of a marker
COUNT, SIZE = 3, 1 << 20
PLACES = ("/usr/local/cuda*/extras/CUPTI/lib64", "/usr/local/cuda*/lib64", "/opt/nvidia/nsight-compute/*/target/*",
          *(f"{folder}/nvidia/*/lib" for folder in site.getsitepackages()))


def skip(reason):
    print(f"CUPTI: {reason}")
    sys.exit(77)


def find_cupti():
    for place in PLACES:
        for name in sorted(glob.glob(f"{place}/libcupti.so*"), reverse=True):
            try:
                return name, ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
            except OSError as error:
                print(f"{name} cannot be loaded: {error}")
    return skip("is not here")


class Record(ctypes.Structure):
    """What both kinds begin with."""
    _fields_ = [("kind", ctypes.c_uint32), ("flags", ctypes.c_uint32)]


class Marker(ctypes.Structure):
    """The second version: with a domain."""
    _fields_ = [*Record._fields_, ("timestamp", ctypes.c_uint64), ("id", ctypes.c_uint32), ("object_kind", ctypes.c_uint32),
                ("object", ctypes.c_uint32 * 3), ("pad", ctypes.c_uint32), ("name", ctypes.c_char_p),
                ("domain", ctypes.c_char_p)]


class MarkerData(ctypes.Structure):
    _fields_ = [*Record._fields_, ("id", ctypes.c_uint32), ("payload_kind", ctypes.c_uint32), ("payload", ctypes.c_uint64),
                ("color", ctypes.c_uint32), ("category", ctypes.c_uint32)]


class Recorder:
    REQUESTED = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_size_t),
                                 ctypes.POINTER(ctypes.c_size_t))
    COMPLETED = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)

    def __init__(self, cupti):
        self.cupti = cupti
        self.room, self.names, self.data, self.ended = [], {}, {}, set()
        self.callbacks = self.REQUESTED(self.requested), self.COMPLETED(self.completed)
        self.want("cuptiActivityRegisterCallbacks", *self.callbacks)
        self.want("cuptiActivityEnable", MARKER)
        self.want("cuptiActivityEnable", MARKER_DATA)

    def want(self, name, *arguments):
        answer = getattr(self.cupti, name)(*arguments)
        if answer != 0:
            skip(f"does not work here: {name} answered {answer}")

    def requested(self, buffer, size, most):
        room = ctypes.create_string_buffer((1 << 20) + 64)
        self.room.append(room)  # kept for as long as this lives
        buffer[0] = (ctypes.addressof(room) + 63) & ~63
        size[0], most[0] = 1 << 20, 0

    def completed(self, _context, _stream, buffer, _size, valid):
        record = ctypes.c_void_p()
        while self.cupti.cuptiActivityGetNextRecord(ctypes.c_void_p(buffer), ctypes.c_size_t(valid), ctypes.byref(record)) == 0:
            kind = Record.from_address(record.value).kind
            if kind == MARKER:
                marker = Marker.from_address(record.value)
                if marker.flags & START:
                    self.names[marker.id] = ((marker.domain or b"").decode(), (marker.name or b"").decode())
                elif marker.flags & END:
                    self.ended.add(marker.id)
            elif kind == MARKER_DATA:
                data = MarkerData.from_address(record.value)
                self.data[data.id] = (data.category, data.payload)

    def ranges(self):
        self.want("cuptiActivityFlushAll", 1)
        return collections.Counter((*name, *self.data.get(identity, (0, 0)), identity in self.ended)
                                   for identity, name in self.names.items())


class Description(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("handle", ctypes.c_void_p), ("operations", ctypes.c_void_p)]


def device_memory():
    cuda = ctypes.CDLL("libcuda.so.1", mode=ctypes.RTLD_GLOBAL)
    context, memory = ctypes.c_void_p(), ctypes.c_uint64()
    for answer in (cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), cuda.cuCtxSetCurrent(context),
                   cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(SIZE))):
        if answer != 0:
            sys.exit(f"the driver answered {answer}")
    return memory.value


def transfer(library_file, name):
    memory = device_memory()
    library = ctypes.CDLL(library_file, mode=ctypes.RTLD_GLOBAL)
    library.cuFileDriverOpen.restype = library.cuFileHandleRegister.restype = ctypes.c_uint64
    if library.cuFileDriverOpen() & 0xffffffff:
        sys.exit("the driver of cuFile cannot be opened")
    description, handle = Description(1, os.open(name, os.O_RDWR), None), ctypes.c_void_p()
    if library.cuFileHandleRegister(ctypes.byref(handle), ctypes.byref(description)) & 0xffffffff:
        sys.exit("the file cannot be registered")
    for call in (library.cuFileRead, library.cuFileWrite):
        call.restype = ctypes.c_ssize_t
        for _ in range(COUNT):
            done = call(handle, ctypes.c_void_p(memory), ctypes.c_size_t(SIZE), ctypes.c_int64(0), ctypes.c_int64(0))
            if done != SIZE:
                sys.exit(f"a transfer moved {done} bytes")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", required=True)
    parser.add_argument("--file", required=True)
    options = parser.parse_args()
    path, cupti = find_cupti()
    recorder = Recorder(cupti)
    os.environ["NVTX_INJECTION64_PATH"] = path
    transfer(options.library, options.file)
    ranges = recorder.ranges()
    for (domain, name, category, payload, ended), count in sorted(ranges.items()):
        print(f"  domain {domain!r}: {name!r} x{count}, category {category}, payload {payload}{'' if ended else ', no end'}")
    for name, category in (("read", 1), ("write", 2)):
        if ranges[("sluice", name, category, SIZE, True)] != COUNT:
            sys.exit(f"{path}: of {COUNT} ranges of domain sluice, called {name}, of category {category} and {SIZE} bytes, "
                     f"{ranges[('sluice', name, category, SIZE, True)]} came")
    print(f"CUPTI ({path}): domain sluice: read x{COUNT}, write x{COUNT}, with their categories, sizes and ends")


main()
