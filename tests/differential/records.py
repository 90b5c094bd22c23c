# SPDX-License-Identifier: Apache-2.0
"""Answers of a library, kept: lines of [seed, mode, calls, answers] in files of a size that can be carried."""

import contextlib
import json
import lzma

MOST = 14 << 20  # bytes of a file


@contextlib.contextmanager
def writer(path):
    """A file that is there once it is complete."""
    part = path.with_suffix(".part")
    with lzma.open(part, "wt", preset=1, encoding="utf-8") as record:
        yield record
    part.rename(path)


def add(record, seed, mode, calls, lines):
    record.write(json.dumps([seed, mode, calls, lines], separators=(",", ":")) + "\n")


def gather(parts, folder):
    """What processes have written makes answers.0.xz and so on: streams behind each other are one file."""
    folder.mkdir(parents=True, exist_ok=True)
    number, room, out = -1, 0, None
    for part in sorted(parts.glob("*.xz")):
        data = part.read_bytes()
        if out is None or len(data) > room:
            if out is not None:
                out.close()
            number, room = number + 1, MOST
            out = open(folder / f"answers.{number}.xz", "wb")
        out.write(data)
        room -= len(data)
    if out is not None:
        out.close()


def read(paths):
    for path in paths:
        with lzma.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                yield json.loads(line)
