# SPDX-License-Identifier: Apache-2.0
"""Where the answers of two libraries to one script part, and what is known of that."""

import pathlib
import re

from generator import BUFFERS

KNOWN = pathlib.Path(__file__).resolve().parent / "known.txt"
SOFT = KNOWN.with_name("known_soft.txt")
CALL = re.compile(r"^(\d+) (\S+)(.*)$")
ENDS = re.compile(r"(?:^|\s)(signal \d+|hang|gone|exit)$", re.MULTILINE)


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


def value_class(part, value, name):
    """A value as far as it makes a class: digests and counts are all alike, codes are not."""
    part = part.rstrip("'")
    if value is None:
        return "nothing"
    if part in ("got", "bytes", "holds", "file") and not re.fullmatch(r"-?\d{1,9}|untouched", value):
        return value if value == "uncertain" else "other bytes"
    if part in ("ret", "bytes") and re.fullmatch(r"\d+", value):
        return "0" if value == "0" else "a count"
    if part == "events":
        return ",".join(sorted({f"{status}:{'0' if ret == '0' else ret if ret.startswith('-') else 'n'}"
                                for _, status, ret in (event.split(":") for event in value.split(",") if event)}))
    if name.startswith(("memory", "file")):
        return "uncertain" if value == "uncertain" else "other bytes"
    return value


class Situation:
    """What a script has come to before a call: which handles, memory and batches it holds, as far as words tell."""

    def __init__(self, mode, calls, number, lines):
        self.files, self.stale, self.memory, self.queued = {}, set(), {}, []
        self.closed, self.batches, self.streams = set(), {}, {}  # handles, entries by batch, flags by stream
        self.open = mode == "open"
        self.failed = number > 0 and any("ret=-1" in line for line in lines[number - 1:number])
        self.words = calls[number - 1].split() if number else ["Sync"]
        for call, line in zip(calls[:number - 1] if number else calls, lines):
            words, (_, parts) = call.split(), parts_of(line)
            good = parts.get("err", "").startswith("0/")
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
                f"{size_class(int(size))} {size_class(int(offset))} {size_class(int(shift))}")

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

    def of_transfer(self, words):
        size, offset, shift = (int(word) for word in words[3:6])
        return (f"{self.of_handle(words[1])}, {self.of_memory(words[2])}{self.of_range(words[2], size, shift)}, size "
                f"{size_class(size)}, offset {size_class(offset)}, buffer offset {size_class(shift)}")

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
        elif name == "BufDeregister":
            said.append(self.of_memory(words[1]))
        elif name == "HandleDeregister":
            said.append(self.of_handle(words[1]))
        elif name == "BatchSubmit":
            said += [f"of {words[2]}, flags {words[3]}"]
            for entry in words[4:]:
                said.append(self.of_entry(entry) if "," in entry else entry)
        else:
            said += words[1:]
            said += self.batches.get(words[1], []) if name == "BatchStatus" else []
        return ", ".join(said)


def differences(mode, calls, ours, theirs):
    """Every part of every answer that differs, in order."""
    for index in range(max(len(ours), len(theirs))):
        if ours[index:index + 1] == theirs[index:index + 1] and not ENDS.search(ours[index]):
            continue
        our_name, our_parts = parts_of(ours[index]) if index < len(ours) else ("nothing", {})
        their_name, their_parts = parts_of(theirs[index]) if index < len(theirs) else ("nothing", {})
        name = our_name if our_name != "nothing" else their_name
        number = index + 1 if index < len(calls) else 0
        both = [*our_parts, *(key for key in their_parts if key not in our_parts)]
        # That memory holds what it held before comes before what it holds.
        for part in ["ends", *sorted(both, key=lambda key: not key.startswith("same"))]:
            if part == "ends" and "ends" not in our_parts and "ends" not in their_parts:
                continue
            one, other = our_parts.get(part), their_parts.get(part)
            if "uncertain" in (one, other):
                break  # an accident, and so is what the rest of the line says
            if one == other and part != "ends":  # that both crash excuses neither
                continue
            situation = Situation(mode, calls, number, ours)
            yield Difference(name, str(situation), part, value_class(part, one, name), value_class(part, other, name),
                             number or len(calls))
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
