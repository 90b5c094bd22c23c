#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plays random scripts of cuFile calls against two libraries and tells where their answers part.

    differential.py --player build/release/test-bin/differential_player --ours OURS.so --theirs THEIRS.so \\
        --folder DIR [--seconds 480] [--scripts N] [--seed N] [--json FILE]

A script is drawn by its number, so that `--seed N --scripts 1 --show` plays script N and shows both sides' answers. A
process has one libcufile, loaded once. Most scripts begin with the driver open: one process plays thousands of them and
brings the library back to where it was after each; some begin after a close; a few have a process of their own. Neither
library waits for the other. The first
answer that differs decides which class a script belongs to. In the second pass an example of each class is played in fresh
processes of each library, the largest classes first: only what differs there is a difference. Then those are shrunk to few
calls. known.txt holds those that have a reason.

Leaves with 0 when every difference has a reason, 1 when one has none, 3 when nothing could be compared.
"""

import argparse
import json
import multiprocessing
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import time

import bulk
import comparison
import generator
import records
import reports

# Calls that not every version has: where one library has them and the other has not, scripts do without.
NEWER = {"Readv": b"cuFileReadv", "Writev": b"cuFileWritev", "GetP2P": b"cuFileDriverGetP2PFlags",
         "SetP2P": b"cuFileDriverSetP2PFlags", "SetGpuSlabs": b"cuFileSetParameterGpuBounceBufferSlabArray",
         "GetGpuSlabs": b"cuFileGetParameterGpuBounceBufferSlabArray"}

HERE = None  # what a process of the pool has: its players


class Bench:
    """The players of one process of the pool."""

    def __init__(self, given, folder, known):
        self.given, self.folder, self.known = given, folder, known
        self.pairs = {}

    def begin(self, mode, calls, alone=False):
        if (mode, alone) not in self.pairs:
            self.pairs[mode, alone] = [bulk.player_of(self.given, self.folder, side, mode, alone)
                                       for side in bulk.SIDES]
        for player in self.pairs[mode, alone]:
            player.begin(calls)

    def answers(self, mode, alone=False):
        return [player.answers() for player in self.pairs[mode, alone]]

    def play(self, mode, calls, alone=False):
        self.begin(mode, calls, alone)
        return self.answers(mode, alone)

    def play_alone(self, mode, calls):
        return self.play(mode, calls, alone=True)

    def first(self, mode, calls, answers):
        return comparison.first_unknown(mode, calls, *answers, self.known)

    def stop(self):
        for pair in self.pairs.values():
            for player in pair:
                player.stop()


def calls_of_one(given):
    """The calls that only one of the two libraries has."""
    ours, theirs = given.ours.read_bytes(), given.theirs.read_bytes()
    return sorted(call for call, symbol in NEWER.items() if (symbol + b"\0" in ours) != (symbol + b"\0" in theirs))


def set_up(given, top, known):
    global HERE
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    folder = top / f"w{os.getpid()}"
    HERE = Bench(given, folder, known)
    bulk.set_up(given, known)


def shows(key, mode, calls, alone):
    """The answers, and where they part, if it is the difference of this class; or None."""
    answers = HERE.play(mode, calls, alone)
    difference, _ = HERE.first(mode, calls, answers)
    return (answers, difference.situation) if difference is not None and difference.key == key else None


def as_example(seed, mode, calls, confirmed, answers, situation=""):
    return {"seed": seed, "mode": mode, "calls": calls, "confirmed": confirmed, "answers": answers, "situation": situation}


def confirm(task):
    """An example of a class in fresh processes, or one that does not show there; None where the time is over."""
    key, examples, until = task
    for seed, mode, calls, number, _ in examples:
        for some in (calls[:number], calls):
            if time.time() > until:
                return None
            shown = shows(key, mode, some, alone=True)
            if shown:
                return as_example(seed, mode, some, True, *shown)
            if number == len(calls):
                break
    seed, mode, calls, number, seen = examples[0]
    return as_example(seed, mode, calls, False, [[""] * (number - 1) + side for side in seen])


def shrink(task):
    """An example with as few calls as still show its difference, again in fresh processes."""
    key, example, until = task
    until = min(until, time.time() + 20)
    mode, best = example["mode"], example["calls"]
    if time.time() > until or not shows(key, mode, best, alone=False):
        return example
    index = len(best) - 1
    while index >= 0 and time.time() < until:
        fewer = best[:index] + best[index + 1:]
        if fewer and shows(key, mode, fewer, alone=False):
            best = fewer
            index = min(index, len(best))
        index -= 1
    shown = shows(key, mode, best, alone=True) if len(best) < len(example["calls"]) else None
    return as_example(example["seed"], mode, best, True, *shown) if shown else example


def all_of(pool, work, tasks, until):
    """What `work` makes of each task, as {key: result}; what has no result at the end of the time is left out."""
    running = [(task[0], pool.apply_async(work, (task,))) for task in tasks]
    found = {}
    for key, one in running:
        try:
            found[key] = one.get(max(0.1, until + 30 - time.time()))
        except multiprocessing.TimeoutError:
            continue
    return {key: result for key, result in found.items() if result is not None}


def second_pass(pool, classes, until):
    """An example by class, the most frequent classes first. Two thirds of the time at most are for confirming."""
    order = sorted(classes.items(), key=lambda item: -item[1][0])
    middle = until - (until - time.time()) / 3
    found = all_of(pool, confirm, [(key, examples, middle) for key, (_, _, examples) in order], middle)
    shrunk = all_of(pool, shrink, [(key, found[key], until) for key, _ in order if key in found and found[key]["confirmed"]],
                    until)
    return {**found, **shrunk}


def show(given, known, top):
    set_up(given, top, known)
    for seed in range(given.seed, given.seed + (given.scripts or 1)):
        mode, calls = bulk.script_of(seed, given)
        if given.script:
            mode, *calls = given.script.read_text(encoding="utf-8").splitlines()
        ours, theirs = (HERE.play_alone if given.alone else HERE.play)(mode, calls)
        print(f"script {seed}, {mode}")
        for index in range(max(len(ours), len(theirs))):
            print(f"  {calls[index] if index < len(calls) else ''}")
            one, other = (side[index] if index < len(side) else "nothing" for side in (ours, theirs))
            print(f"      {one}" if one == other else f"      ours   {one}\n      theirs {other}")
        difference, _ = HERE.first(mode, calls, (ours, theirs))
        print(f"  {difference or 'no difference without a reason'}")
    HERE.stop()
    return 0


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--player", required=True, type=pathlib.Path)
    parser.add_argument("--ours", required=True, type=pathlib.Path, help="a libcufile")
    parser.add_argument("--theirs", required=True, type=pathlib.Path, help="another, or the same")
    parser.add_argument("--folder", default=pathlib.Path(tempfile.gettempdir()), type=pathlib.Path,
                        help="where the files lie that the scripts read and write")
    parser.add_argument("--seconds", default=480, type=float, help="for everything, both passes")
    parser.add_argument("--share", default=75, type=float, help="of the seconds, in a hundred, for the first pass")
    parser.add_argument("--scripts", default=0, type=int, help="how many; 0: as many as there is time for")
    parser.add_argument("--seed", default=1, type=int, help="the number of the first script")
    parser.add_argument("--jobs", default=max(1, os.cpu_count() // 2), type=int,
                        help="processes that play theirs with the driver open; the other modes have some of their own")
    parser.add_argument("--ours-jobs", default=0, type=int, help="the same for ours; half as many if not given")
    parser.add_argument("--slow-jobs", default=0, type=int,
                        help="processes of each library for the other modes; a sixth of --jobs if not given")
    parser.add_argument("--patience", default=10, type=int, help="seconds after which a call hangs; half of it in the first pass")
    parser.add_argument("--life", default=0.2, type=float, help="scripts of a hundred that have a process of their own")
    parser.add_argument("--closed", default=0.2, type=float, help="scripts of a hundred that begin after a close")
    parser.add_argument("--danger", default=[], action="append", metavar="NAME=CHANCE",
                        help=f"what costs a process or an open: {', '.join(f'{a}={b}' for a, b in generator.DANGERS.items())}")
    parser.add_argument("--ours-environment", default=[], action="append", metavar="NAME=VALUE")
    parser.add_argument("--theirs-environment", default=[], action="append", metavar="NAME=VALUE")
    parser.add_argument("--known", default=comparison.KNOWN, type=pathlib.Path)
    parser.add_argument("--json", type=pathlib.Path, help="writes the report here, too, with every example")
    parser.add_argument("--record", type=pathlib.Path, metavar="DIR",
                        help="keeps all answers of theirs there, as answers.N.xz: replay.py compares ours with them again")
    parser.add_argument("--show", action="store_true", help="plays the scripts and shows all answers, no more")
    parser.add_argument("--script", type=pathlib.Path, help="with --show: this file, its mode and a call a line")
    parser.add_argument("--alone", action="store_true", help="with --show: in fresh processes")
    given = parser.parse_args()
    for side in ("player", "ours", "theirs"):
        path = getattr(given, side).resolve()
        if not path.is_file():
            parser.error(f"there is no {path}")
        setattr(given, side, path)
    try:
        given.danger = {name: float(chance) for name, chance in (pair.split("=") for pair in given.danger)}
    except ValueError:
        parser.error("--danger takes NAME=CHANCE")
    if not set(given.danger) <= set(generator.DANGERS):
        parser.error(f"the dangers are {', '.join(generator.DANGERS)}")
    given.ours_jobs = given.ours_jobs or (given.jobs + 1) // 2
    given.slow_jobs = given.slow_jobs or max(1, given.jobs // 6)
    given.left_out = calls_of_one(given)
    return given


def keep(given, document):
    if given.json:
        given.json.write_text(json.dumps(document, indent=1), encoding="utf-8")


def main():
    given = arguments()
    known = comparison.Known(given.known)
    begun = time.time()
    top = pathlib.Path(tempfile.mkdtemp(prefix="differential-", dir=given.folder)).resolve()
    given.record_parts = top / "record"
    given.record_parts.mkdir()
    try:
        if given.show:
            return show(given, known, top)
        with multiprocessing.Pool(given.jobs, set_up, (given, top, known)) as pool:
            passed = bulk.first_pass(pool, given, known, top, begun + given.seconds * given.share / 100)
            first_seconds = time.time() - begun
            if given.record:
                records.gather(given.record_parts, given.record)
            print(f"{passed.scripts} scripts played in {first_seconds:.0f} s, {len(passed.classes)} classes to look at",
                  file=sys.stderr, flush=True)
            keep(given, reports.document_of(given, known, passed, {}, first_seconds, first_seconds))
            examples = second_pass(pool, passed.classes, begun + given.seconds)
    finally:
        shutil.rmtree(top, ignore_errors=True)
    document = reports.document_of(given, known, passed, examples, time.time() - begun, first_seconds)
    print("\n".join(reports.lines_of(document)))
    keep(given, document)
    if passed.scripts == 0:
        return 3
    return 1 if reports.unexplained(document) else 0


if __name__ == "__main__":
    sys.exit(main())
