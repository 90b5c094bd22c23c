#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plays recorded scripts against our library alone, and tells where its answers part from those that were recorded.

    replay.py --player PLAYER --ours OURS.so [--soft] [--folder DIR] [--only WORD] [--json FILE] answers.0.xz ...

The records come from differential.py --record. Nothing is confirmed in fresh processes or shrunk. Over the soft GPU, what
lies beside an allocation differs from a device's. Leaves with 0 when every difference has a reason, 1 when one has none.
"""

import argparse
import collections
import json
import multiprocessing
import os
import pathlib
import shutil
import sys
import tempfile
import time

import bulk
import comparison
import players
import records
import reports

HERE = None
SHARE = 250  # scripts that a process gets at once


def set_up(given, top):
    global HERE
    known = comparison.Known(given.known, given.soft)
    folder = top / f"w{os.getpid()}"
    HERE = known, {mode: players.Player(given.player, given.ours, folder / mode, {}, mode) for mode in ("open", "closed", "life")}


def play(share):
    """What the answers to these scripts show: (how many, calls, rows, classes)."""
    known, at_work = HERE
    rows, classes, calls_played = collections.Counter(), {}, 0
    until = time.time() + 3600
    for mode, player in at_work.items():
        mine = [one for one in share if one[1] == mode]
        starts = multiprocessing.BoundedSemaphore(1)
        for (seed, _, calls, theirs), ours in zip(mine, player.play_all([one[2] for one in mine], until, starts)):
            calls_played += len(calls)
            difference, found = comparison.first_unknown(mode, calls, ours, theirs, known)
            rows.update(set(found))
            if difference is not None:
                bulk.count_difference(classes, seed, mode, calls, difference, (ours, theirs))
    return len(share), calls_played, rows, classes


def shares(given):
    share = []
    for record in records.read(given.records):
        if given.only and not any(given.only in call for call in record[2]):
            continue
        share.append(record)
        if len(share) == SHARE:
            yield share
            share = []
    if share:
        yield share


def examples_of(passed):
    examples = {}
    for key, (_, situations, some) in passed.classes.items():
        seed, mode, calls, number, seen = some[0]
        answers = [[""] * (number - 1) + side for side in seen]
        examples[key] = {"seed": seed, "mode": mode, "calls": calls[:number], "confirmed": True, "answers": answers,
                         "situation": next(iter(situations), "")}
    return examples


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", nargs="+", type=pathlib.Path, metavar="answers.N.xz")
    parser.add_argument("--player", required=True, type=pathlib.Path)
    parser.add_argument("--ours", required=True, type=pathlib.Path, help="a libcufile")
    parser.add_argument("--folder", default=pathlib.Path(tempfile.gettempdir()), type=pathlib.Path,
                        help="where the files lie that the scripts read and write")
    parser.add_argument("--jobs", default=max(1, os.cpu_count() // 2), type=int)
    parser.add_argument("--only", help="scripts that have a call with this text in it")
    parser.add_argument("--known", default=comparison.KNOWN, type=pathlib.Path)
    parser.add_argument("--soft", action="store_true", help="ours plays on the soft GPU: known_soft.txt counts, too")
    parser.add_argument("--json", type=pathlib.Path, help="writes the report here, too")
    given = parser.parse_args()
    given.player, given.ours = given.player.resolve(), given.ours.resolve()
    given.seed, given.life, given.closed, given.danger, given.left_out = 0, 0, 0, {}, []
    return given


def main():
    given = arguments()
    begun = time.time()
    passed = bulk.Passed()
    top = pathlib.Path(tempfile.mkdtemp(prefix="replay-", dir=given.folder)).resolve()
    try:
        with multiprocessing.Pool(given.jobs, set_up, (given, top)) as pool:
            for scripts, calls, rows, classes in pool.imap_unordered(play, shares(given)):
                passed.scripts += scripts
                passed.calls += calls
                passed.add(rows, classes)
    finally:
        shutil.rmtree(top, ignore_errors=True)
    seconds = time.time() - begun
    document = reports.document_of(given, comparison.Known(given.known, given.soft), passed, examples_of(passed), seconds, seconds)
    print("\n".join(reports.lines_of(document)))
    if given.json:
        given.json.write_text(json.dumps(document, indent=1), encoding="utf-8")
    return 1 if reports.unexplained(document) else 0


if __name__ == "__main__":
    sys.exit(main())
