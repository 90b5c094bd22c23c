# SPDX-License-Identifier: Apache-2.0
"""Scripts of cuFile calls, drawn by a seed: mostly sensible sequences, with arguments at and beyond every edge.

A script is (mode, calls): "life" begins as a process does that has not called the library, "open" with the driver open,
"closed" after the driver was opened and closed. Which one it is follows from the seed and the shares.
player.cpp says what the words of a call mean. Calls that end NVIDIA's process are drawn seldom, since each costs a
process: DANGERS.
"""

import random

from subjects import DANGERS, LIFE_SUBJECTS, OPEN_SUBJECTS, SUBJECTS

SIZES = {"e": 0, "t": 100, "s": 4096, "a": 65536, "r": 70001, "b": 1052689, "memfd": 8192, "unlinked": 8192}
BUFFERS = {"d0": 65536, "d1": 1310720, "d2": 4096, "d3": 1000, "m0": 65536, "p0": 65536, "q0": 1310720, "q1": 1310720,
           "v0": 131072}
MODES = ["rw", "drw", "rw", "drw", "ro", "dro", "wo", "dwo", "sync", "dup", "rw2", "drw2", "noatime"]
ODD_FILES = ["dir", "null", "zero", "proc", "socket", "pipe", "memfd", "unlinked", "-1", "9999", "1000000",
             "-2147483648", "s.append", "r.nonblock", "r.path", "a.append"]
BIG = [2**31 - 1, 2**31, 2**32, 2**40, 2**62, 2**63 - 1, 2**63, 2**64 - 1]
NEGATIVE = [-1, -512, -4096, -(2**31), -(2**63)]
SMALL = [0, 1, 100, 511, 512, 513, 1000, 4095, 4096, 4097, 8192, 16384, 65535, 65536]
TEXTS = ["ERROR", "WARN", "INFO", "DEBUG", "TRACE", "debug", "NOTICE", "bogus", "EMPTY", "NULL", "LONG", "FOLDER",
         "/nowhere/at/all", "FOLDER/x.log"]


class Draw:
    """What one script is made of; every choice comes from its seed."""

    def __init__(self, seed, dangers=None):
        self.random = random.Random(f"cufile {seed}")
        self.dangers = {**DANGERS, **(dangers or {})}
        self.stale = set()  # slots whose handle was given back
        self.spent = set()  # batches of which some entries may still be under way
        self.calls = []
        self.handles = {}  # slot -> file name, or None for one that no registration is expected to fill
        self.registered = {}  # what was registered, and how many bytes of it
        self.batches = {}  # slot -> (room, entries under way)
        self.cookie = 0
        self.unsynchronised = None  # the stream that has transfers not waited for
        self.faults = self.random.choice([0.02, 0.05, 0.1, 0.25])

    def one(self, options):
        return self.random.choice(options)

    def wrong(self):
        return self.random.random() < self.faults

    def dares(self, danger):
        return self.random.random() < self.dangers[danger]

    def add(self, *words):
        # Two transfers at once of one range would leave what they leave by accident.
        if self.unsynchronised and not words[0].endswith("Async") and words[0] != "Sync":
            self.calls.append("Sync")
        self.unsynchronised = words[-2] if words[0].endswith("Async") else None
        self.calls.append(" ".join(str(word) for word in words))

    # ------------------------------------------------------------------------------------------------------ arguments
    def file(self):
        if self.wrong():
            return self.one(ODD_FILES)
        return self.one("etsarrb") + "." + self.one(MODES)

    def handle(self):
        if self.stale and self.dares("stale"):
            return self.one(sorted(self.stale))
        if self.wrong():
            return self.one(["NULL", "garbage", "wild", *(slot for slot in ("h5", "h0", "h1") if slot not in self.stale)])
        return self.one(sorted(self.handles) or ["h4"])  # nothing is ever registered as h4

    def file_size(self, handle):
        name = self.handles.get(handle) or "s"
        return SIZES.get(name.split(".")[0], 4096)

    def buffer(self):
        if self.wrong():
            return self.one(["NULL", "garbage", "garbage+4096", "d0+4096", "d0+1", "q0+511", "v0+4096", "d2+4095"])
        if self.registered and self.random.random() < 0.5:
            return self.one(list(self.registered))
        return self.one(["d0", "d0", "d0", "d1", "d2", "d3", "m0", "p0", "q0", "q1", "v0"])

    def room(self, buffer):
        name, _, offset = buffer.partition("+")
        return max(0, BUFFERS.get(name, 65536) - int(offset or 0))

    def size(self, buffer):
        if self.wrong() and buffer != "m0":  # what lies beside managed memory is an accident
            return self.one(BIG + [self.room(buffer) + 1, self.room(buffer) + 4096, 2 * self.room(buffer)])
        return min(self.one(SMALL + [self.room(buffer), self.random.randrange(70000)]), self.room(buffer))

    def file_offset(self, handle):
        end = self.file_size(handle)
        if self.wrong():
            return self.one(NEGATIVE + BIG[:6] + [end + 1, end + 4096])
        return max(0, self.one([0, 0, 0, 1, 512, 4095, 4096, 4097, 8192, end - 4096, end - 512, end - 1, end, end + 1,
                                self.random.randrange(70000)]))

    def buffer_offset(self, buffer, size):
        if self.wrong() and buffer != "m0":
            return self.one(NEGATIVE + [2**40, 2**63 - 1, self.room(buffer), self.room(buffer) + 4096])
        most = max(0, self.room(buffer) - size)
        return min(most, self.one([0, 0, 0, 1, 512, 513, 4096, 8192, most]))

    def parameter(self, count):
        return self.one([-1, count, count + 1, 99, 2**31 - 1]) if self.wrong() else self.random.randrange(count)

    # ---------------------------------------------------------------------------------------------------------- calls
    def register_file(self):
        slot = "h5" if self.wrong() else f"h{self.random.randrange(4)}"
        if slot in self.stale:  # a registration that fails would leave the stale handle there
            return
        name = self.file()
        if not self.wrong() and name in self.handles.values():
            return
        kind = self.one([0, 2, 3, 4, -1, 99]) if self.wrong() else 1
        flags = self.one(["nofh", "nodescr", "nofh,nodescr"]) if self.wrong() else "-"
        self.add("HandleRegister", slot, name, kind, flags)
        if kind == 1 and flags == "-":
            self.handles.setdefault(slot, name)

    def deregister_file(self):
        handle = self.one(sorted(self.stale)) if self.stale and self.wrong() else self.handle()
        self.add("HandleDeregister", handle)
        self.handles.pop(handle, None)
        if handle[0] == "h":
            self.stale.add(handle)

    def register_memory(self):
        buffer = self.buffer()
        room = self.room(buffer)
        size = self.one(BIG + [0, 1, room + 1, room + 4096]) if self.wrong() else self.one([room, room, 4096, room // 2, 1])
        flags = self.one([1, 2, 3, 4, 8, -1, 2**31 - 1]) if self.wrong() else self.one([0, 0, 0, 1])
        self.add("BufRegister", buffer, min(size, 2**64 - 1), flags)
        if size and buffer not in ("NULL", "garbage"):
            self.registered.setdefault(buffer, size)

    def deregister_memory(self):
        self.add("BufDeregister", self.buffer())

    def transfer(self):
        handle, buffer = self.handle(), self.buffer()
        size = self.size(buffer)
        name = self.one(["Read", "Read", "Write"])
        if self.random.random() < 0.06:
            parts = [f"{buffer},{size // 2}", f"{self.buffer()},{self.one(SMALL)}"]
            flags = self.one([1, 2**31]) if self.wrong() else 0
            if self.wrong():
                parts = ["noiov"] if self.wrong() else []
            self.add(name + "v", handle, self.file_offset(handle), flags, *parts)
            return
        self.add(name, handle, buffer, size, self.file_offset(handle), self.buffer_offset(buffer, size))

    def batch_set_up(self):
        slot = f"b{self.random.randrange(2)}"
        if slot in self.spent:
            return
        room = self.one([0, 129, 256, 2**31, 2**32 - 1]) if self.wrong() else self.one([1, 2, 4, 8, 16, 128])
        if self.dares("set_up_null"):
            slot = "NULL"
        self.add("BatchSetUp", slot, room)
        if 0 < room <= 128 and slot != "NULL":
            self.batches[slot] = [room, 0]

    def handle_for(self, opcode, count):
        """A handle for an entry of a batch: one that suits, mostly, where it has neighbours."""
        unfit = ("ro", "dro") if opcode == 1 else ("wo", "dwo")
        fit = sorted(handle for handle, name in self.handles.items()
                     if name and "." in name and name.split(".")[1] not in (*unfit, "path"))
        return self.handle() if count == 1 or not fit or self.dares("batch_odd") else self.one(fit)

    def entry(self, opcode, handle, buffer, index, count):
        """Entries of one batch touch ranges of their own: what they leave is then no accident."""
        share = self.room(buffer) // count
        size = min(share, self.one([512, 4096, 100, 1000, share]))
        # A bad entry beside good ones ends the incumbent's process.
        odd = count == 1 or self.dares("batch_odd")
        if self.random.random() < 0.01:
            size = 0
        mode = 1
        file_offset = index * share if opcode else self.file_offset(handle)
        buffer_offset = index * share
        if odd and self.wrong() and self.wrong():
            mode = self.one([0, 2, -1])
        if self.wrong() and count == 1:
            file_offset = self.file_offset(handle)
        if self.random.random() < 0.001:
            opcode = self.one([2, -1])
        if self.dares("batch_null"):
            buffer = "NULL"
        elif buffer == "NULL":
            buffer = "garbage"
        if odd and self.wrong() and self.wrong():
            buffer_offset = self.one([-1, -4096, 2**40])
        if odd and self.wrong() and self.wrong():
            handle = self.one(["NULL", "garbage"])
        if not odd:
            file_offset = abs(file_offset)
        self.cookie += 1
        return f"{opcode},{mode},{handle},{buffer},{size},{file_offset},{buffer_offset},{self.cookie}"

    def batch_submit(self):
        if not self.batches and not self.wrong():
            self.batch_set_up()
        slot = self.one(sorted(self.batches) or ["b0"])
        if self.wrong() and self.wrong():
            slot = self.one(["NULL", "b2", "b1"])
        if slot in self.spent:
            return
        state = self.batches.setdefault(slot, [4, 0])
        count = self.one([1, 1, 2, 3, 4])
        if not self.wrong():
            count = min(count, max(1, state[0] - state[1]))
        buffers = [self.buffer() for _ in range(count)]
        choice = self.random.random()
        opcode = 0 if choice < 0.13 else self.one([0, 0, 1])  # what a cancelled write leaves in a file is an accident
        entries = [self.entry(opcode, self.handle_for(opcode, count), buffers[0] if count > 1 else buffers[index], index, count)
                   for index in range(count)]
        told = count
        flags = self.one([1, 2, 2**32 - 1]) if self.wrong() else 0
        if self.wrong() and self.wrong():
            told = self.one([0, count + 1, 129])
        if self.random.random() < 0.005:
            entries = ["noparams"]
        self.add("BatchSubmit", slot, told, flags, *entries)
        state[1] += told
        if choice < 0.1:
            self.add("BatchCancel", slot)
        elif choice < 0.13:
            self.add("BatchDestroy", slot)
            self.batches.pop(slot, None)
            return
        self.batch_status(slot)

    def batch_status(self, slot=None):
        slot = slot or self.one(sorted(self.batches) or ["b0"])
        state = self.batches.setdefault(slot, [4, 0])
        least = state[1]
        room = max(least, self.one([least, 8, 128]))
        timeout = "none"
        flags = "-"
        if self.wrong():
            least = self.one([0, least + 1, max(0, least - 1)])
            timeout = self.one(["none", "0", "1", "10"]) if least <= state[1] else self.one(["0", "1", "10"])
        if self.wrong() and self.wrong():
            room = self.one([0, max(0, least - 1)])
        if self.wrong() and self.wrong():
            flags = self.one(["nonr", "noev"])
        if self.wrong() and self.wrong():
            slot = self.one(["NULL", "b2"])
        self.add("BatchStatus", slot, least, room, timeout, flags)
        if least < state[1] and slot in self.batches:  # how much room is left is an accident
            self.batches.pop(slot)
            self.spent.add(slot)
        state[1] = 0

    def batch_end(self):
        slot = self.one(sorted(self.batches) + ["NULL"]) if self.wrong() else self.one(sorted(self.batches) or ["NULL"])
        self.add(self.one(["BatchCancel", "BatchDestroy", "BatchDestroy"]), slot)
        if self.calls[-1].startswith("BatchDestroy") and not self.wrong():
            self.batches.pop(slot, None)

    def stream(self):
        return self.unsynchronised or self.one(["s0", "s1", "s1", "s2"])

    def stream_call(self):
        choice = self.random.random()
        if choice < 0.15:
            flags = self.one([16, 31, 2**32 - 1]) if self.wrong() else self.random.randrange(16)
            self.add("StreamRegister", self.stream(), flags)
        elif choice < 0.22:
            self.add("StreamDeregister", self.stream())
        else:
            handle, buffer = self.handle(), self.buffer()
            size = self.size(buffer)
            flags = "-"
            if self.wrong():
                flags = ",".join(name for name in ("nosize", "nofile", "nobuffer", "nobytes") if self.random.random() < 0.4)
            shift = self.buffer_offset(buffer, size)
            if size >= 2**31 - 1 and not self.dares("async_huge"):
                size = self.room(buffer)
            if (shift < 0 or shift + size > self.room(buffer)) and not self.dares("async_past"):
                size, shift = min(size, self.room(buffer)), 0
            if shift + size > self.registered.get(buffer, 2**64) and not self.dares("async_registered"):
                size, shift = min(size, self.registered[buffer]), 0
            self.add(self.one(["ReadAsync", "ReadAsync", "WriteAsync"]), handle, buffer, size, self.file_offset(handle),
                     shift, self.stream(), flags or "-")
            if self.random.random() < 0.8:
                self.add("Sync")

    def ask(self):
        null = "NULL" if self.wrong() else "-"
        kind = self.random.randrange(11)
        if kind == 0:
            self.add("UseCount")
        elif kind == 1:
            self.add("Version", null)
        elif kind == 2:
            self.add("Properties", null)
        elif kind == 3:
            self.add("BarSize", self.one([0, 0, -1, 1, 99, 2**31 - 1]), null)
        elif kind == 4:
            self.add("GetP2P", self.parameter(14), null)
        elif kind == 5:
            self.add("GetSize", self.parameter(12), null)
        elif kind == 6:
            self.add("GetBool", self.parameter(12), null)
        elif kind == 7:
            self.add("GetText", self.parameter(3), self.one([300, 300, 4000, 6, 5, 1, 0, -1]), null)
        elif kind == 8:
            self.add("MinMax", self.parameter(12), self.one(["nomin", "nomax", "nomin,nomax"]) if self.wrong() else "-")
        elif kind == 9:
            self.add("GetSlabs", self.one([0, -1, 9, 33, 2]) if self.wrong() else self.one([1, 2, 3, 4]),
                     self.one(["nosizes", "nocounts"]) if self.wrong() else "-")
        else:
            self.add("GetGpuSlabs", self.one([1, 2, 3]), "-")

    def set_parameter(self):
        kind = self.random.randrange(4)
        if kind == 0:
            parameter = self.parameter(12)
            usual = [0, 1, 2, 3, 4, 5, 7, 8, 16, 32, 63, 64, 65, 128, 256, 257, 500, 1000, 1001, 1024, 4096, 5000, 8192,
                     16384, 16385, 65536, 131072, 268435456]
            self.add("SetSize", parameter, self.one(BIG) if self.wrong() else self.one(usual))
            self.add("GetSize", parameter, "-")
        elif kind == 1:
            parameter = self.parameter(12)
            self.add("SetBool", parameter, self.one([0, 1]))
            self.add("GetBool", parameter, "-")
        elif kind == 2:
            parameter = self.parameter(3)
            self.add("SetText", parameter, self.one(TEXTS))
            self.add("GetText", parameter, 4000, "-")
        else:
            count = self.one([1, 2, 3, 4])
            sizes = ",".join(str(self.one([4, 64, 1024, 4096, 16384, 5, 0, 1])) for _ in range(count))
            counts = ",".join(str(self.one([1, 8, 64, 128, 0])) for _ in range(count))
            flags = self.one(["nosizes", "nocounts"]) if self.wrong() else "-"
            length = self.one([0, -1, 33]) if self.wrong() else count
            gpu = self.one(["", "", "Gpu"])
            self.add(f"Set{gpu}Slabs", length, flags, sizes, counts)
            self.add(f"Get{gpu}Slabs", max(1, min(length, 64)), "-")

    def set_property(self):
        value = self.one([0, 1, 3, 4, 7, 8, 60, 64, 65, 100, 128, 1024, 4096, 8192, 16384, 16448, 65536, 2**20, 2**30, 2**40,
                          2**64 - 1])
        kind = self.random.randrange(5)
        if kind == 0:
            self.add("SetPollMode", self.one([0, 1]), value)
        elif kind == 4:
            self.add("SetP2P", self.parameter(14), self.one([0, 1, 2, 4, 8, 16, 31, 32, -1]))
        else:
            self.add(["SetMaxDirect", "SetMaxCache", "SetMaxPinned"][kind - 1], value)
        if self.random.random() < 0.5:
            self.add("Properties", "-")

    def statistics(self):
        kind = self.random.randrange(7)
        if kind <= 1:
            self.add("SetLevel", self.one([-1, 4, 2**31 - 1, -(2**31)]) if self.wrong() else self.one([0, 1, 2, 3, 3]))
        elif kind == 2:
            self.add("GetLevel", "NULL" if self.wrong() else "-")
        elif kind == 3:
            self.add(self.one(["StatsStart", "StatsStart", "StatsStop", "StatsReset"]))
        else:
            self.add("Stats", self.one([1, 2, 3]), "NULL" if self.wrong() else "-")


def mode_of(draw, life, closed):
    choice = draw.random.random()
    return "life" if choice < life else "closed" if choice < life + closed else "open"


def script(seed, life=0.002, closed=0.002, dangers=None, wanted=("open", "closed", "life")):
    """The script of a seed: (mode, calls), or None if its mode is none of those wanted. `life` and `closed`: the shares of
    these modes; `dangers`: what differs from DANGERS."""
    draw = Draw(seed, dangers)
    mode = mode_of(draw, life, closed)
    if mode not in wanted:
        return None
    subject = draw.one(OPEN_SUBJECTS if mode == "open" else LIFE_SUBJECTS)
    weights = dict(SUBJECTS[subject])
    if "batch_submit" in weights and not draw.dares("batches"):
        weights = {name: odds for name, odds in weights.items() if not name.startswith("batch_")}
    transfers = any(name in weights for name in ("transfer", "batch_submit", "stream_call"))
    if mode != "open" and draw.random.random() < 0.6:
        draw.add("DriverOpen")
    if transfers and draw.random.random() < 0.85:
        for _ in range(draw.one([1, 1, 2])):
            draw.register_file()
    length = draw.random.randrange(3, 19)
    names, odds = zip(*weights.items())
    while len(draw.calls) < length:
        if mode != "open" and draw.random.random() < 0.12:
            draw.add(draw.one(["DriverOpen", "DriverClose", "DriverCloseV2", "DriverClose"]))
            continue
        if draw.random.random() < 0.004:
            draw.add("CloseFile", draw.one(sorted({name for name in draw.handles.values() if name}) or ["r.rw"]))
            continue
        getattr(draw, draw.random.choices(names, odds)[0])()
    return mode, draw.calls[:25]
