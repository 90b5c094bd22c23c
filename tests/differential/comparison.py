# SPDX-License-Identifier: Apache-2.0
"""Where the answers of two libraries to one script part, and what is known of that."""

import pathlib
import re

from generator import BUFFERS

KNOWN = pathlib.Path(__file__).resolve().parent / "known.txt"
SOFT = KNOWN.with_name("known_soft.txt")
CALL = re.compile(r"^(\d+) (\S+)(.*)$")
ENDS = re.compile(r"(?:^|\s)(signal \d+|hang|gone|exit)$", re.MULTILINE)
# What a library may never answer, whatever the other one does: the player knows better (expectation.h), or bytes beside
# a good transfer are others.
FAULT = re.compile(r" wrong'*=| beyond'*=changed")
# What a line tells of a transfer is compared in this order: what was answered, what is wrong with it, the bytes.
ORDER = {"wrong": 1, "same": 1, "in": 2, "got": 2, "beyond": 3, "file": 3}


class Difference:
    """The first answer that differs: of which call, in which situation, which part of it, and both values."""

    def __init__(self, call, situation, part, ours, theirs, number):
        self.call, self.situation, self.part, self.ours, self.theirs, self.number = (call, situation, part, ours, theirs,
                                                                                    number)

    @property
    def key(self):
        return self.call, self.part, self.ours, self.theirs

    def __str__(self):
        return f"{self.call} {self.part}: ours {self.ours}, theirs {self.theirs} [{self.situation}]"


class Known:
    """The differences that have a reason: rows of  PATTERN | stop or on | reason."""

    def __init__(self, path=KNOWN, soft=False):
        self.rows = []
        for line in "\n".join(one.read_text(encoding="utf-8") for one in (path, SOFT)[:1 + soft]).splitlines():
            if line.strip() and not line.startswith("#"):
                pattern, after, reason = (part.strip() for part in line.split(" | ", 2))
                if after not in ("stop", "on"):
                    raise ValueError(f"{path}: neither stop nor on: {line}")
                self.rows.append((re.compile(pattern), after, reason))

    def row(self, difference):
        text = str(difference)
        for number, (pattern, after, _) in enumerate(self.rows):
            if pattern.search(text):
                return number, after
        return None, "stop"


def parts_of(line):
    """A line of answers as (what it is of, {part: value})."""
    line = line.strip()
    ends = ENDS.search(line)
    if ends:
        line = line[:ends.start()]
    match = CALL.match(line)
    name, rest = (match[2], match[3]) if match else (line.partition(" ")[0], line.partition(" ")[2])
    if not match and name in ("memory", "file"):
        name = " ".join(line.split()[:2])
    parts = {}
    for word in rest.split():
        key, equals, value = word.partition("=")
        key = key if equals else "word"
        while key in parts:
            key += "'"
        parts[key] = value if equals else word
    if ends:
        parts["ends"] = ends[1].replace("signal 0", "signal ")
    return name, parts


def size_class(number):
    if number < 0:
        return "negative"
    if number == 0:
        return "0"
    if number >= 2**63:
        return "past 2^63"
    if number >= 2**31 - 1:
        return "huge"
    return "aligned" if number % 4096 == 0 else "unaligned"


def offset_class(number):
    """Of an offset in a file: also of a huge one the alignment decides."""
    return f"{size_class(number)}{' unaligned' if 2**31 - 1 <= number < 2**63 and number % 4096 else ''}"


def value_class(part, value, name):
    """A value as far as it makes a class: digests and counts are all alike, codes are not."""
    part = part.rstrip("'")
    if value is None:
        return "nothing"
    if part in ("got", "bytes", "holds", "file") and not re.fullmatch(r"-?\d{1,9}|untouched", value):
        return value if value == "uncertain" else "other bytes"
    if part in ("ret", "bytes") and re.fullmatch(r"\d+", value):
        return "0" if value == "0" else "a count"
    if part == "events" and value != "uncertain":
        return ",".join(sorted({f"{status}:{'0' if ret == '0' else ret if ret.startswith('-') else 'n'}"
                                for _, status, ret in (event.split(":") for event in value.split(",") if event)}))
    if name.startswith(("memory", "file")):
        return "uncertain" if value == "uncertain" else "other bytes"
    return value


# Small allocations of a device lie behind each other, as they were made.
DEVICE = {}
for _name in ("d0", "d1", "d2", "d3"):
    DEVICE[_name] = sum(BUFFERS[one] for one in DEVICE)


def address_of(word):
    """An address among the small allocations of a device, or None."""
    name, _, offset = word.partition("+")
    return DEVICE[name] + int(offset or 0) if name in DEVICE else None


class Past:
    """What earlier calls of a script have done that later ones still show."""

    def __init__(self, situation):
        self.situation = situation
        self.stale_transfer = self.given_back_twice = self.asked = self.set_closed = self.started = False
        self.level = 0
        self.rooms = set()  # batches of which it is not known how many entries have been told
        self.under_way = set()

    def add(self, words, parts, good):
        name, stale, failed = words[0], self.situation.stale, "err" in parts and not good
        if name in ("Read", "Write", "ReadAsync", "WriteAsync"):
            self.stale_transfer = self.stale_transfer or words[1] in stale
        elif name == "HandleDeregister":
            self.given_back_twice = self.given_back_twice or words[1] in stale
        elif name in ("Properties", "SetPollMode", "SetMaxDirect", "SetMaxCache", "SetMaxPinned"):
            self.asked = True
        elif name in ("SetSize", "SetBool", "SetText"):
            self.set_closed = self.set_closed or (self.asked and good and not self.situation.open)
        elif name == "SetLevel" and good:
            self.level = int(words[1])
        elif name in ("StatsStart", "StatsStop") and good:
            self.started = name == "StatsStart"
        elif name == "BatchSubmit" and good:
            self.under_way.add(words[1])
        elif name == "BatchStatus" and words[1] in self.under_way and (failed or parts.get("nr") == "uncertain"):
            self.rooms.add(words[1])

    def said(self, name, words):
        said = ["after a stale transfer"] if self.stale_transfer else []
        said += ["after a handle was given back twice"] if self.given_back_twice else []
        said += ["properties asked for"] if self.asked and name in ("SetSize", "SetBool", "SetText") else []
        said += ["set while closed"] if self.set_closed and name.startswith("Get") else []
        if name.startswith("Stats") or name == "GetLevel":
            said += [f"level {self.level}"] + (["started"] if self.started else [])
        uncertain = words[1] in self.rooms if name == "BatchSubmit" else name == "Stats" and self.rooms
        return said + (["room uncertain"] if uncertain else [])


class Situation:
    """What a script has come to before a call: which handles, memory and batches it holds, as far as words tell."""

    def __init__(self, mode, calls, number, lines):
        self.files, self.stale, self.memory, self.queued = {}, set(), {}, []
        self.closed, self.batches, self.streams = set(), {}, {}  # handles, entries by batch, flags by stream
        self.open = mode == "open"
        self.failed = number > 0 and any("ret=-1" in line for line in lines[number - 1:number])
        self.words = calls[number - 1].split() if number else ["Sync"]
        self.first, self.past = number == 1, Past(self)
        for call, line in zip(calls[:number - 1] if number else calls, lines):
            words, (_, parts) = call.split(), parts_of(line)
            good = parts.get("err", "").startswith("0/")
            self.past.add(words, parts, good)
            if words[0] == "HandleRegister" and good and words[1] not in self.files:
                self.files[words[1]] = words[2]
            elif words[0] == "HandleDeregister" and words[1] in self.files:
                self.stale.add(words[1])
            elif words[0] == "BufRegister" and good:
                self.memory[words[1]] = int(words[2])
            elif words[0] == "BufDeregister" and good:
                self.memory.pop(words[1], None)
            elif words[0] == "CloseFile":
                self.closed.update(slot for slot, name in self.files.items() if name == words[1])
            elif words[0] == "StreamRegister" and good:
                self.streams[words[1]] = int(words[2])
            elif words[0] == "StreamDeregister" and good:
                self.streams.pop(words[1], None)
            elif words[0].endswith("Async"):
                self.queued.append(f"{words[0][:-5]} {self.of_transfer(words)}{self.of_stream(words[6])}")
            elif words[0] == "Sync":
                self.queued = []
            elif words[0] == "BatchSubmit" and good:
                self.batches.setdefault(words[1], []).extend(self.of_entry(entry) for entry in words[4:] if "," in entry)
            elif words[0] == "BatchCancel" and self.batches.get(words[1]):
                self.batches[words[1]].append("cancelled")
            elif words[0] in ("BatchStatus", "BatchSetUp", "BatchDestroy"):
                self.batches.pop(words[1], None)
            if "use" in parts:
                self.open = parts["use"] != "0"
                if not self.open:  # a close gives back all handles
                    self.stale.update(self.files)

    def of_handle(self, word):
        if word not in self.files:
            return f"handle {word if word in ('NULL', 'garbage', 'wild') else 'unset'}"
        stale = "stale " if word in self.stale else ""
        closed = "closed " if word in self.closed else ""
        return f"{stale}{closed}handle of {self.files[word]}"

    def of_stream(self, word):
        return f", flags {self.streams[word]}" if word in self.streams else ""

    def of_entry(self, entry):
        opcode, mode, handle, place, size, offset, shift, _ = entry.split(",")
        return (f"op {opcode} mode {mode} {self.of_handle(handle)} {self.of_memory(place)}"
                f"{self.of_range(place, int(size), int(shift))} "
                f"{size_class(int(size))} {offset_class(int(offset))} {size_class(int(shift))}{self.reached(place)}")

    def of_memory(self, word):
        return f"{'registered ' if word in self.memory else ''}{word}"

    def of_range(self, word, size, shift):
        """Does a range reach past what it is a range of?"""
        name, _, offset = word.partition("+")
        said = ""
        if word in self.memory and shift + size > self.memory[word]:
            said = ", past the registration"
        if name in BUFFERS and shift + size + int(offset or 0) > BUFFERS[name]:
            said += ", past the memory"
        return said + (", before the memory" if shift + int(offset or 0) < 0 else "")

    def reached(self, word):
        """Does a registration of another allocation hold the memory at this address?"""
        at = address_of(word)
        hold = at is not None and any(low <= at < high and name.partition("+")[0] != word.partition("+")[0]
                                      for name, low, high in self.registrations())
        return ", reached into" if hold else ""

    def registrations(self):
        """Those of a device's memory as (name, begin, end)."""
        return [(name, address_of(name), address_of(name) + size) for name, size in self.memory.items()
                if address_of(name) is not None]

    def of_registration(self, word, size):
        """Where memory is registered that has something to do with what is registered."""
        said = self.of_range(word, size, 0).replace(", past the registration", "")
        at = address_of(word)
        allocation = word.partition("+")[0]  # of one allocation any ranges may be registered
        meets = word in self.memory or (at is not None and any(
            low < at + size and at < high and name.partition("+")[0] != allocation
            for name, low, high in self.registrations()))
        return said + (", of registered memory" if meets else "")

    def of_transfer(self, words):
        size, offset, shift = (int(word) for word in words[3:6])
        return (f"{self.of_handle(words[1])}, {self.of_memory(words[2])}{self.of_range(words[2], size, shift)}, size "
                f"{size_class(size)}, offset {offset_class(offset)}, buffer offset {size_class(shift)}{self.reached(words[2])}")

    def __str__(self):
        said = ["open" if self.open else "closed"]
        words = self.words
        name = words[0] if words else ""
        if name in ("Read", "Write", "ReadAsync", "WriteAsync"):
            said += [self.of_transfer(words), *words[6:]]
            said += [f"flags {self.streams[words[6]]}"] if words[6:7] and words[6] in self.streams else []
            said += ["failed"] if self.failed else []
        elif name == "Sync":
            said += self.queued
        elif name in ("HandleRegister", "BufRegister"):
            said += [size_class(int(word)) if name == "BufRegister" and index == 1 else word
                     for index, word in enumerate(words[1:])]
            if name == "BufRegister":
                said[-1] += self.of_registration(words[1], int(words[2]))
            elif words[2] in (held for slot, held in self.files.items() if slot not in self.stale | self.closed):
                said.append("registered already")
            said += ["the first call"] if self.first else []
        elif name == "BufDeregister":
            said.append(self.of_memory(words[1]) + self.reached(words[1]))
        elif name == "HandleDeregister":
            said.append(self.of_handle(words[1]))
        elif name == "BatchSubmit":
            said += [f"of {words[2]}, flags {words[3]}"]
            for entry in words[4:]:
                said.append(self.of_entry(entry) if "," in entry else entry)
        else:
            said += words[1:]
            said += self.batches.get(words[1], []) if name == "BatchStatus" else []
        return ", ".join(said + self.past.said(name, words))


def is_fault(part, value, parts, same_files):
    """Is this part of our answer one that no row excuses? A transfer that fails may have changed a file as it does in the
    other library."""
    counts = [count for name, count in parts.items() if name.rstrip("'") in ("ret", "bytes")]
    went_well = not any(count.startswith("-") for count in counts) and "64:" not in parts.get("events", "")
    if part.startswith("wrong"):
        return value is not None and (value != "file" or went_well or not same_files)
    return part.startswith("beyond") and value == "changed" and went_well


def differences(mode, calls, ours, theirs):
    """Every part of every answer that differs, in order, and those of ours that are faults."""
    for index in range(max(len(ours), len(theirs))):
        if ours[index:index + 1] == theirs[index:index + 1] and not ENDS.search(ours[index]) and not FAULT.search(ours[index]):
            continue
        our_name, our_parts = parts_of(ours[index]) if index < len(ours) else ("nothing", {})
        their_name, their_parts = parts_of(theirs[index]) if index < len(theirs) else ("nothing", {})
        name = our_name if our_name != "nothing" else their_name
        number = index + 1 if index < len(calls) else 0
        same_files = all(value == their_parts.get(part) for part, value in our_parts.items() if part.rstrip("'") == "file")
        both = [*our_parts, *(key for key in their_parts if key not in our_parts)]
        for part in ["ends", *sorted(both, key=lambda key: ORDER.get(key.rstrip("'"), 0))]:
            if part == "ends" and "ends" not in our_parts and "ends" not in their_parts:
                continue
            one, other = our_parts.get(part), their_parts.get(part)
            fault = is_fault(part, one, our_parts, same_files)
            if part.startswith("wrong") and one == "file" and not fault:
                continue
            if "uncertain" in (one, other) and part == "written":
                continue
            if "uncertain" in (one, other):
                break  # an accident, and so is what the rest of the line says
            if one == other and part != "ends" and not fault:  # that both crash excuses neither
                continue
            situation = Situation(mode, calls, number, ours)
            yield Difference(name, str(situation), part, value_class(part, one, name),
                             value_class(part, other, name) if not fault else "whatever", number or len(calls))
            if part == "ends":
                return
        if "ends" in our_parts or "ends" in their_parts:
            return


def first_unknown(mode, calls, ours, theirs, known):
    """(the first difference that no row explains or None, the numbers of the rows that explained some)"""
    rows = []
    for difference in differences(mode, calls, ours, theirs):
        row, after = known.row(difference)
        if row is None:
            return difference, rows
        rows.append(row)
        if after == "stop":
            return None, rows
    return None, rows
