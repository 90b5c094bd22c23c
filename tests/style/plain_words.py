#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Well-known things go by the field's own names: no private word that was given up comes back, in names or comments.

A word counts wherever it stands: alone, in a name (kernel_lane, LaneCount), in a comment, in the name of a file. Each
line of RETIRED says what to write. ALLOWED has the few places where such a word is not ours: a public name, or
the field's own term for another thing.
"""

import re

import project

LIBRARY = ["softgpu", "src"]
PRODUCT = [*LIBRARY, "docs", "tools"]
# All but tests, whose names are sentences; and "nobody" is also a user of Unix.
NO_TESTS = [*PRODUCT, "bench", "deploy", "examples", "include", "packaging", "python", "samples"]
SOURCES = [*LIBRARY, "bench", "deploy", "examples", "include", "packaging", "python", "samples", "tests"]
EVERYWHERE = [*SOURCES, "docs", "tools"]
SUFFIXES = {".c", ".cpp", ".cu", ".cuh", ".h", ".in", ".json", ".md", ".py", ".sh", ".txt"}
NOT_OURS = ("bench/results/", "docs/images/", "docs/lab-notebook/", "tests/fixtures/", "tests/style/")

# Words of the lower-case letters that a name is made of -> the plain word; and where it is looked for.
RETIRED = [
    (r"lanes?", "worker", PRODUCT),
    (r"errands?", "stream copy, or background job", EVERYWHERE),
    (r"naps?", "sleep", EVERYWHERE),
    (r"crews?", "helper tuner, helpers", EVERYWHERE),
    (r"attendants?", "stream worker", EVERYWHERE),
    (r"deput(y|ies)", "watchdog", EVERYWHERE),
    (r"courier(s|ed)?", "stream copier", EVERYWHERE),
    (r"stations?", "stream channel", EVERYWHERE),
    (r"convoys?", "group runner", EVERYWHERE),
    (r"slabs?", "bounce buffer", PRODUCT),
    (r"parcels?", "item", EVERYWHERE),
    (r"clerks?", "buffered-I/O thread", EVERYWHERE),
    (r"sequels?", "next range", EVERYWHERE),
    (r"compan(y|ies)", "class, group", EVERYWHERE),
    (r"abreast", "side by side; max_groups", EVERYWHERE),
    (r"headcounts?", "active count", EVERYWHERE),
    (r"rings?", "staging buffer: a ring is one of io_uring's", ["softgpu", "src/gpu", "src/staging", "tests/gpu"]),
    (r"warm(ing|able|ed|s)", "prefetch", SOURCES),
    (r"verdicts?", "choice, commit word", LIBRARY),
    (r"whoever|whomever|he|his|him", "the thing itself as the subject", SOURCES),
    (r"(no|some|any|every)bodys?", "which: a thread, another process, the program, the user", NO_TESTS),
]

PHRASES = [
    (re.compile(r"\blend(s|ing)? a hand\b|\b(many|more|other) hands\b|\bcall(ed|s)? off\b|\btaken back\b|\bstaging rings?\b",
                re.IGNORECASE), "help; helpers; revoke; staging buffer", SOURCES),
    (re.compile(r"\b(RingLoan|RingWords|CpuWindow|CarriedBy|GoingWithout|DiskCrowd|InCrowd|TimedRest|Workforce)\b"),
     "StagingLease, StagingWords, BarMapping, CopyCounter, KernelLoadHold, SlowDiskGauge, ActiveScope, TimedCooldown, "
     "ThreadBudget", SOURCES),
]

# File (or folder, with its slash) and what may stand there.
ALLOWED = [
    # Public names, which stay readable.
    ("src/api/", r"slabs?|stations?"),
    ("src/config/", r"slabs?"),
    ("src/observe/", r"slabs?"),
    ("tools/gdscheck/", r"slabs?"),
    ("tools/gds_stats/", r"slabs?"),
    ("docs/", r"slabs?"),
    ("docs/reference/statistics.md", r"stations?"),
    ("include/sluice.h", r"stations?|called off|taken back"),
    ("tests/fuzz/", r"stations?"),
    ("tests/lab/rdma/moves.cpp", r"stations?"),
    ("tests/soak/", r"stations?"),
    # Names of tests, and the user of a container.
    ("deploy/csi/tests/", r"(no|some)body"),
    ("docs/reference/security.md", r"nobody"),
    ("deploy/image/plain_root.sh", r"nobody"),
    # One of io_uring's; and a doorbell is rung.
    ("src/gpu/pinnable.h", r"ring"),
    ("src/gpu/stream_copy", r"ring"),
    # Of a command line that is not whole.
    ("tests/system/manual_test.py", r"he"),
    # Of a PCIe link.
    ("tools/doctor/", r"lanes?"),
    ("docs/guide/trouble.md", r"lanes?"),
    ("docs/reference/doctor", r"lanes?"),
]

PIECE = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def is_allowed(path, word):
    return any(path.startswith(place) and re.fullmatch(pattern, word) for place, pattern in ALLOWED)


def complaints_about(path, text):
    words = [(re.compile(pattern), plain) for pattern, plain, folders in RETIRED if path.startswith(tuple(f"{folder}/" for folder in folders))]
    phrases = [(pattern, plain) for pattern, plain, folders in PHRASES if path.split("/")[0] in folders]
    any_word = re.compile("|".join(f"(?:{pattern.pattern})" for pattern, _ in words), re.IGNORECASE)
    for line, content in enumerate([path, *text.splitlines()]):
        place = f"{path}:{line}" if line else path
        if any_word.search(content):
            for piece in {piece.lower() for piece in PIECE.findall(content)}:
                for pattern, plain in words:
                    if pattern.fullmatch(piece) and not is_allowed(path, piece):
                        yield f'{place}: "{piece}" is a private word: write {plain}'
        for pattern, plain in phrases:
            match = pattern.search(content)
            if match and not is_allowed(path, match.group(0).lower()):
                yield f'{place}: "{match.group(0)}" is a private word: write {plain}'


def main():
    top = project.arguments(__doc__).project.resolve()
    paths = [path for path in project.files(top, [folder for folder in EVERYWHERE if (top / folder).is_dir()], SUFFIXES)
             if not path.as_posix().startswith(NOT_OURS)]
    complaints = []
    for path in paths:
        complaints.extend(complaints_about(path.as_posix(), (top / path).read_text(encoding="utf-8", errors="replace")))
    if not paths:
        complaints.append(f"no file found below {top}: is this the project?")
    project.finish(complaints, f"{len(paths)} files call things by their names")


if __name__ == "__main__":
    main()
