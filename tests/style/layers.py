#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which folder may include which: reads every #include of the project's own headers and holds it against layers.json.

A room may include itself and what its line lists, nothing else. Entries are folders, or single headers where a room
may use a neighbour's vocabulary but not its insides; a room can be a single source, too. A line can only name rooms
above it, so there are no cycles. The table in the documents is made from the same file (--write), and held against it.
"""

import json
import pathlib
import re

import project

# The rooms, from the ground up: layers.json, beside this script.
ROOMS = json.loads(pathlib.Path(__file__).with_name("layers.json").read_text(encoding="utf-8"))["rooms"]
LAYERS = {room["room"]: room["may_include"] for room in ROOMS}

# The page that shows them holds the table between these two lines; --write puts it there.
BEGIN = "<!-- The rooms: made from tests/style/layers.json by tests/style/layers.py --write -->"
END = "<!-- end of the rooms -->"

# Where the compiler looks for our headers, besides the folder of the file that includes.
SEARCH = [".", "include", "src", "softgpu", "tools", "bench", "tests", "tests/unit", "deploy/csi", "examples/rdma-files"]

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')


def room_of(path):
    """The longest entry of LAYERS that holds this file, or is it."""
    parts = path.parts
    for length in range(len(parts), 0, -1):
        room = "/".join(parts[:length])
        if room in LAYERS:
            return room
    return None


def is_within(path, entry):
    text = path.as_posix()
    return text == entry or text.startswith(entry + "/")


def resolve(top, includer, name):
    """The project's file that an #include means, relative to the top; None for a header from elsewhere."""
    for folder in [includer.parent, *map(pathlib.Path, SEARCH)]:
        candidate = (top / folder / name).resolve()
        # Some headers are made by the build from a file beside them: version.h from version.h.in.
        if candidate.is_file() or candidate.with_name(candidate.name + ".in").is_file():
            return candidate.relative_to(top) if candidate.is_relative_to(top) else None
    return None


def judge(top, includer, line, quote, name):
    """The complaint about one #include, or None."""
    place = f"{includer}:{line}"
    target = resolve(top, includer, name)
    if target is None:
        return f'{place}: "{name}" is no file of this project' if quote == '"' and name.endswith(".h") else None
    room = room_of(includer)
    if room is None:
        return f"{place}: this folder has no line in LAYERS"
    if is_within(target, room) or any(is_within(target, entry) for entry in LAYERS[room]):
        return None
    return f"{place}: {room} may not include {target}"


def shown(entry):
    return entry.removeprefix("src/")


def table():
    """The rooms as a page shows them."""
    lines = ["| Room | What lives there | May include |", "|---|---|---|"]
    for room in ROOMS:
        name = room["room"] + ("" if "." in room["room"] else "/")
        lines.append(f"| `{name}` | {room['holds']} | {', '.join(map(shown, room['may_include'])) or '–'} |")
    return "\n".join(lines)


def judge_page(top, write):
    """The complaint about the table in the documents, or None; with `write` it is put right first."""
    for page in project.files(top, ["docs"], {".md"}):
        text = (top / page).read_text(encoding="utf-8")
        if BEGIN in text and END in text:
            head, rest = text.split(BEGIN, 1)
            good = f"{head}{BEGIN}\n{table()}\n{END}{rest.split(END, 1)[1]}"
            if write and text != good:
                (top / page).write_text(good, encoding="utf-8")
            elif text != good:
                return f"{page}: its table of rooms is not what layers.json says: run layers.py --project . --write"
            return None
    return f'no page of docs has the line "{BEGIN}"'


def main():
    options = project.arguments(__doc__, flags=[("--write", "put the table of rooms into the page that shows it")])
    top = options.project.resolve()
    rooms = list(LAYERS)
    complaints = [f"LAYERS: {room} names {entry}, which does not come before it"
                  for room, entries in LAYERS.items() for entry in entries
                  if entry != "src" and not any(is_within(pathlib.Path(entry), other)
                                                for other in rooms[:rooms.index(room)])]
    sources = project.files(top, ["include", "src", "softgpu", "tools", "deploy", "bench", "samples", "examples", "tests"],
                            {".h", ".c", ".cpp", ".inc"})
    includes = 0
    for source in sources:
        text = (top / source).read_text(encoding="utf-8", errors="replace")
        for line, content in enumerate(text.splitlines(), start=1):
            match = INCLUDE.match(content)
            if match:
                includes += 1
                complaint = judge(top, source, line, *match.groups())
                if complaint:
                    complaints.append(complaint)
    page_complaint = judge_page(top, options.write)
    if page_complaint:
        complaints.append(page_complaint)
    if not includes:
        complaints.append(f"no #include found below {top}: is this the project?")
    project.finish(complaints, f"{includes} includes of {len(sources)} files keep the order")


if __name__ == "__main__":
    main()
