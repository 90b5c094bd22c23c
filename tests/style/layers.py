#!/usr/bin/env python3
"""Which folder may include which: reads every #include of the project's own headers and holds it against LAYERS.

A room may include itself and what its line lists, nothing else. Entries are folders, or single headers where a room
may use a neighbour's vocabulary but not its insides. A line can only name rooms above it, so there are no cycles.
"""

import pathlib
import re

import project

# base < config < observe: leaves that anybody may read. facts < topology; facts < route, which decides and does
# nothing. gpu < engine < paths: moving bytes. Then request < core < api.
LAYERS = {
    "include": [],
    "src/base": ["include"],
    "src/config": ["include", "src/base"],
    "src/observe": ["include", "src/base", "src/config"],
    "src/facts": ["include", "src/base"],
    "src/topology": ["include", "src/base", "src/config", "src/observe", "src/facts"],
    "src/route": ["include", "src/base", "src/facts"],
    "src/gpu": ["include", "src/base", "src/config", "src/observe", "src/facts"],
    "src/engine": ["include", "src/base", "src/config", "src/observe", "src/facts", "src/topology", "src/gpu"],
    "src/paths": ["include", "src/base", "src/config", "src/observe", "src/facts", "src/topology", "src/gpu",
                  "src/engine", "src/route/decision.h", "src/route/route.h"],
    "src/request": ["include", "src/base", "src/config", "src/observe", "src/facts", "src/topology", "src/gpu",
                    "src/engine", "src/route", "src/paths"],
    "src/core": ["include", "src/base", "src/config", "src/observe", "src/facts", "src/topology", "src/gpu",
                 "src/engine", "src/route", "src/paths", "src/request"],
    "src/api": ["include", "src/base", "src/config", "src/observe", "src/facts", "src/topology", "src/gpu",
                "src/engine", "src/route", "src/paths", "src/request", "src/core"],
    # The soft GPU stands in for the driver, and for GDRCopy's: it shares their declarations with us and nothing else.
    "softgpu": ["include/cufile.h", "src/gpu/cuda_abi.h", "src/gpu/gdr_abi.h"],
    # What is shipped or measured beside the library uses it as anybody would.
    "tools": ["include"],
    # Judging machines rests on the library's own readers of files, compiled once more: nothing that moves bytes.
    "tools/doctor": ["include", "src/base", "src/config", "src/facts", "src/topology"],
    "bench": ["include"],
    "bench/cpu_side": ["include", "src", "bench/client"],
    "examples": ["include"],
    # The same for tests through the public face; unit tests alone see the inside.
    "tests/support": ["include"],
    "tests/abi": ["include", "tests/support"],
    "tests/contract": ["include", "tests/support"],
    "tests/callers": ["include", "tests/support", "tests/contract/life"],
    "tests/system": ["include", "tests/support"],
    "tests/fault": ["include", "tests/support"],
    "tests/model": ["include", "tests/support"],
    "tests/sick": ["include", "tests/support"],
    "tests/fuzz": ["include", "tests/support"],
    "tests/differential": ["include"],
    "tests/lab": ["include", "tests/support"],
    # These ask a driver, real or soft, directly, by the declarations that both sides share; mailbox.h and staging.h have the
    # words that our kernels and the host exchange.
    "tests/gpu": ["include", "tests/support", "src/gpu/cuda_abi.h", "src/gpu/gdr_abi.h", "src/gpu/mailbox.h",
                  "src/gpu/staging.h", "softgpu/entry_points.h"],
    # The direct path: through the public face, with faults, and the parts of it that no public call reaches.
    "tests/direct": ["include", "src", "tests/support", "tests/contract/mapped_memory.h", "tests/fault/interpose.h"],
    "tests/unit": ["include", "src", "tests/support"],
}

# Where the compiler looks for our headers, besides the folder of the file that includes.
SEARCH = [".", "include", "src", "softgpu", "tools", "bench", "tests", "tests/unit"]

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')


def room_of(path):
    """The longest entry of LAYERS that holds this file."""
    parts = path.parts
    for length in range(len(parts) - 1, 0, -1):
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


def main():
    top = project.arguments(__doc__).project.resolve()
    rooms = list(LAYERS)
    complaints = [f"LAYERS: {room} names {entry}, which does not come before it"
                  for room, entries in LAYERS.items() for entry in entries
                  if entry != "src" and not any(is_within(pathlib.Path(entry), other)
                                                for other in rooms[:rooms.index(room)])]
    sources = project.files(top, ["include", "src", "softgpu", "tools", "bench", "examples", "tests"],
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
    if not includes:
        complaints.append(f"no #include found below {top}: is this the project?")
    project.finish(complaints, f"{includes} includes of {len(sources)} files keep the order")


if __name__ == "__main__":
    main()
