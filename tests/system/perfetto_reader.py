# SPDX-License-Identifier: Apache-2.0
"""Reads Perfetto's TrackEvent protobuf, as far as `sluice trace` writes it: by the numbers of fields of Perfetto's own
files under protos/perfetto/trace, and in the way in which its trace processor puts events together.
"""
import dataclasses

SLICE_BEGIN, SLICE_END, INSTANT, COUNTER = 1, 2, 3, 4
REALTIME, MONOTONIC, BOOTTIME = 1, 3, 6


def fields(data):
    """(field, value) pairs; a value is a number or bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7f) << shift
            if byte < 0x80:
                return value
            shift += 7

    while at < len(data):
        key = varint()
        field, kind = key >> 3, key & 7
        if kind == 0:
            yield field, varint()
        elif kind == 1:
            yield field, int.from_bytes(data[at:at + 8], "little")
            at += 8
        elif kind == 2:
            size = varint()
            if at + size > len(data):
                raise AssertionError("a field reaches beyond its message")
            yield field, data[at:at + size]
            at += size
        else:
            raise AssertionError(f"wire type {kind}")


def message(data):
    found = {}
    for field, value in fields(data):
        found.setdefault(field, []).append(value)
    return found


@dataclasses.dataclass
class Slice:
    name: str
    category: str
    begin: int
    end: int = 0
    depth: int = 0
    arguments: dict = dataclasses.field(default_factory=dict)
    flows: list = dataclasses.field(default_factory=list)
    parent: object = None
    moment: bool = False

    def inside(self):
        around = []
        here = self.parent
        while here is not None:
            around.append(here)
            here = here.parent
        return around


@dataclasses.dataclass
class Track:
    name: str = ""
    process: int = 0
    thread: int = 0
    parent: int = 0
    is_counter: bool = False
    slices: list = dataclasses.field(default_factory=list)
    counts: list = dataclasses.field(default_factory=list)
    open: list = dataclasses.field(default_factory=list)


def signed(value):
    return value - (1 << 64) if value >> 63 else value


def arguments_of(event):
    found = {}
    for data in event.get(4, []):
        annotation = message(data)
        name = annotation[10][0].decode()
        if 6 in annotation:
            found[name] = annotation[6][0].decode()
        else:
            found[name] = signed(annotation[4][0]) if 4 in annotation else annotation[3][0]
    return found


class Trace:
    def __init__(self, path):
        self.tracks, self.clocks = {}, {}
        for field, data in fields(path.read_bytes()):
            assert field == 1, f"field {field} of a trace"
            packet = message(data)
            assert packet[10] == [1], "each packet belongs to the one sequence"
            if 6 in packet:
                for clock in message(packet[6][0])[1]:
                    parts = message(clock)
                    self.clocks[parts[1][0]] = parts[2][0]
            if 60 in packet:
                self.describe(message(packet[60][0]))
            if 11 in packet:
                self.take(packet[8][0], message(packet[11][0]))
        self.processes = [track for track in self.tracks.values() if not track.parent]
        self.threads = [track for track in self.tracks.values() if track.parent and not track.is_counter]

    def describe(self, descriptor):
        track = self.tracks[descriptor[1][0]] = Track(parent=descriptor.get(5, [0])[0], is_counter=8 in descriptor)
        if track.parent:
            assert track.parent in self.tracks, "a track's parent comes before it"
        if 3 in descriptor:
            about = message(descriptor[3][0])
            track.process, track.name = about[1][0], about[6][0].decode()
        if 4 in descriptor:
            about = message(descriptor[4][0])
            track.process, track.thread, track.name = about[1][0], about[2][0], about[5][0].decode()
        if 2 in descriptor:
            track.name = descriptor[2][0].decode()

    def take(self, time, event):
        track = self.tracks[event[11][0]]
        kind = event[9][0]
        if kind == COUNTER:
            track.counts.append((time, signed(event[30][0])))
        elif kind == SLICE_END:
            ended = track.open.pop()  # an end without a beginning would be an error
            ended.end = time
            ended.arguments |= arguments_of(event)
        else:
            begun = Slice(event[23][0].decode(), event[22][0].decode(), time, time if kind == INSTANT else 0,
                          len(track.open), arguments_of(event), event.get(47, []),
                          track.open[-1] if track.open else None, kind == INSTANT)
            track.slices.append(begun)
            if kind == SLICE_BEGIN:
                track.open.append(begun)

    def slices(self, start=""):
        return [each for track in self.threads for each in track.slices if each.name.startswith(start)]

    def requests(self):
        return [each for each in self.slices() if each.category == "request" and not each.moment]
