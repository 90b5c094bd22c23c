# SPDX-License-Identifier: Apache-2.0
"""A program that is looked at while it runs: it does what stands on its standard input, a line each, and answers each line
with its own number (of the process) and "done".

  stats_program.py FILE host|device

  open            the driver, and the file
  read N, write N   so many transfers of 64 KiB from the file's start on
  fail N          so many reads that cannot be
  batch N         a batch of so many reads
  level N         cuFileSetStatsLevel, then cuFileStatsStart unless N is 0
  reset, stop     cuFileStatsReset, cuFileStatsStop
  forget          closes every descriptor above 2 but the file's
  fork            from here on a child answers, and the parent waits for its end
  sleep           executes another program, which waits for the end of the input
"""
import ctypes
import os
import sys

SIZE = 65536
PATH, KIND = sys.argv[1:3]


def load(name):
    return ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)


class Description(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("handle", ctypes.c_void_p), ("operations", ctypes.c_void_p)]


class Entry(ctypes.Structure):
    _fields_ = [("mode", ctypes.c_int), ("base", ctypes.c_void_p), ("file_offset", ctypes.c_int64),
                ("memory_offset", ctypes.c_int64), ("size", ctypes.c_size_t), ("handle", ctypes.c_void_p),
                ("opcode", ctypes.c_int), ("cookie", ctypes.c_void_p)]


class Event(ctypes.Structure):
    _fields_ = [("cookie", ctypes.c_void_p), ("status", ctypes.c_int), ("count", ctypes.c_size_t)]


def device_memory():
    cuda = load("libcuda.so.1")
    context, memory = ctypes.c_void_p(), ctypes.c_uint64()
    for answer in (cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), cuda.cuCtxSetCurrent(context),
                   cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(SIZE))):
        if answer != 0:
            sys.exit(f"the driver answered {answer}")
    return memory.value


class Program:
    def __init__(self):
        self.room = ctypes.create_string_buffer(SIZE)
        self.memory = device_memory() if KIND == "device" else ctypes.addressof(self.room)
        self.library = load("libcufile.so.0")
        for name in ("cuFileRead", "cuFileWrite"):
            getattr(self.library, name).restype = ctypes.c_ssize_t
        self.file = os.open(PATH, os.O_RDWR)
        self.handle = ctypes.c_void_p()

    def want(self, name, *arguments):
        # The code of an answer is its lower half.
        function = getattr(self.library, name)
        function.restype = ctypes.c_uint64
        answer = function(*arguments) & 0xffffffff
        if answer != 0:
            sys.exit(f"{name} answered {answer}")

    def open(self):
        self.want("cuFileDriverOpen")
        description = Description(1, self.file, None)
        self.want("cuFileHandleRegister", ctypes.byref(self.handle), ctypes.byref(description))
        self.want("cuFileBufRegister", ctypes.c_void_p(self.memory), ctypes.c_size_t(SIZE), 0)

    def move(self, name, count):
        for _ in range(count):
            done = getattr(self.library, name)(self.handle, ctypes.c_void_p(self.memory), ctypes.c_size_t(SIZE),
                                               ctypes.c_int64(0), ctypes.c_int64(0))
            if done != SIZE:
                sys.exit(f"{name} moved {done}")

    def fail(self, count):
        for _ in range(count):
            self.library.cuFileRead(self.handle, None, ctypes.c_size_t(SIZE), ctypes.c_int64(0), ctypes.c_int64(0))

    def batch(self, count):
        identity = ctypes.c_void_p()
        self.want("cuFileBatchIOSetUp", ctypes.byref(identity), count)
        entries = (Entry * count)(*[Entry(1, self.memory, 0, 0, SIZE, self.handle, 0, None) for _ in range(count)])
        self.want("cuFileBatchIOSubmit", identity, count, entries, 0)
        events = (Event * count)()
        left = count
        while left:
            got = ctypes.c_uint(left)
            self.want("cuFileBatchIOGetStatus", identity, left, ctypes.byref(got), events, None)
            left -= got.value
        self.library.cuFileBatchIODestroy(identity)

    def level(self, level):
        self.want("cuFileSetStatsLevel", level)
        if level:
            self.want("cuFileStatsStart")

    def forget(self):
        os.closerange(3, self.file)
        os.closerange(self.file + 1, 4096)

    @staticmethod
    def fork():
        child = os.fork()
        if child:
            os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    @staticmethod
    def sleep():
        print(os.getpid(), "done", flush=True)
        os.execvp("sh", ["sh", "-c", "while read line; do :; done"])

    def act(self, words):
        name, numbers = words[0], [int(word) for word in words[1:]]
        if name in ("read", "write"):
            self.move("cuFile" + name.capitalize(), *numbers)
        elif name in ("reset", "stop"):
            self.want("cuFileStats" + name.capitalize())
        else:
            getattr(self, name)(*numbers)


def main():
    program = Program()
    for line in sys.stdin:
        program.act(line.split())
        print(os.getpid(), "done", flush=True)


main()
