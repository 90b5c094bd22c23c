#!/usr/bin/env python3
"""Plays random scripts of cuFile calls against two libraries and tells where their answers part.

    differential.py --player build/release/test-bin/differential_player --ours OURS.so --theirs THEIRS.so \\
        --folder DIR [--seconds 480] [--scripts N] [--seed N] [--json FILE]

A script is drawn by its number, so that `--seed N --scripts 1 --show` plays script N and shows both sides' answers. In a
first pass processes play one script after the other, each in a fresh copy of the library or, where the driver is open
already, in one that stays; the first answer that differs decides which class a script belongs to. In the second pass an
example or two of each class is shrunk to few calls and played in fresh processes of each library: only what differs there
is a difference. known.txt holds those that have a reason.

Leaves with 0 when every difference has a reason, 1 when one has none, 3 when nothing could be compared.
"""

import argparse
import collections
import json
import multiprocessing
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import time

import comparison
import generator
import players

EXAMPLES = 3  # kept of each class

# Calls that not every version has: where one library has them and the other has not, scripts do without.
NEWER = {"Readv": b"cuFileReadv", "Writev": b"cuFileWritev", "GetP2P": b"cuFileDriverGetP2PFlags",
         "SetP2P": b"cuFileDriverSetP2PFlags", "SetGpuSlabs": b"cuFileSetParameterGpuBounceBufferSlabArray",
         "GetGpuSlabs": b"cuFileGetParameterGpuBounceBufferSlabArray"}

HERE = None  # what a process of the pool has: its players


class Bench:
    """The players of one process of the pool."""

    def __init__(self, given, folder, known):
        self.given, self.folder, self.known = given, folder, known
        self.warm = [self.player(side) for side in ("ours", "theirs")]
        self.alone = [self.player(side, alone=True) for side in ("ours", "theirs")]

    def player(self, side, alone=False):
        folder = self.folder / (side + ("-alone" if alone else ""))
        environment = dict(pair.split("=", 1) for pair in getattr(self.given, f"{side}_environment"))
        return players.Player(self.given.player, getattr(self.given, side), folder, environment, alone,
                              3 * self.given.patience if alone else self.given.patience)

    @staticmethod
    def play_on(pair, mode, calls):
        for player in pair:
            player.begin(mode, calls)
        return [player.answers() for player in pair]

    def play(self, mode, calls):
        return self.play_on(self.warm, mode, calls)

    def play_alone(self, mode, calls):
        return self.play_on(self.alone, mode, calls)

    def first(self, mode, calls, answers):
        return comparison.first_unknown(mode, calls, *answers, self.known)

    def stop(self):
        for player in self.warm + self.alone:
            player.stop()


def calls_of_one(given):
    """The calls that only one of the two libraries has."""
    ours, theirs = given.ours.read_bytes(), given.theirs.read_bytes()
    return sorted(call for call, symbol in NEWER.items() if (symbol + b"\0" in ours) != (symbol + b"\0" in theirs))


def script_of(seed, left_out):
    mode, calls = generator.script(seed)
    return mode, [call for call in calls if call.split()[0] not in left_out]


def set_up(given, top, known):
    global HERE
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    folder = top / f"w{os.getpid()}"
    HERE = Bench(given, folder, known)


def play_some(seeds, until):
    """What the scripts with these numbers show: (how many were played, calls, rows, {key: [count, situations, examples]})"""
    played, calls_played = 0, 0
    rows, classes = collections.Counter(), {}
    for seed in seeds:
        if time.time() > until:
            break
        mode, calls = script_of(seed, HERE.given.left_out)
        answers = HERE.play(mode, calls)
        played += 1
        calls_played += len(calls)
        difference, found = HERE.first(mode, calls, answers)
        rows.update(set(found))
        if difference is None:
            continue
        count, situations, examples = classes.setdefault(difference.key, [0, collections.Counter(), []])
        classes[difference.key][0] = count + 1
        if len(situations) < 50 or difference.situation in situations:
            situations[difference.situation] += 1
        if len(examples) < EXAMPLES:
            at = difference.number - 1
            examples.append((seed, mode, calls, difference.number, [side[at:at + 1] for side in answers]))
    return played, calls_played, rows, classes


def shrink(task):
    """An example with as few calls as still show its difference, if it does in fresh processes: a dictionary."""
    key, (seed, mode, calls, number, seen), until = task

    def shows(some, play):
        answers = play(mode, some)
        difference, _ = HERE.first(mode, some, answers)
        return (difference, answers) if difference is not None and difference.key == key else None

    best = calls[:number]
    if not shows(best, HERE.play):
        best = calls if shows(calls, HERE.play) else None
    if best is None:
        # Perhaps what went before in the same process had a part in it.
        confirmed = shows(calls, HERE.play_alone)
        return {"key": key, "seed": seed, "mode": mode, "calls": calls, "confirmed": bool(confirmed),
                "situation": confirmed[0].situation if confirmed else "",
                "answers": confirmed[1] if confirmed else [[""] * (number - 1) + side for side in seen]}
    index = len(best) - 1
    while index >= 0 and time.time() < until:
        fewer = best[:index] + best[index + 1:]
        if fewer and shows(fewer, HERE.play):
            best = fewer
            index = min(index, len(best))
        index -= 1
    confirmed = shows(best, HERE.play_alone)
    if not confirmed and len(best) < len(calls):
        confirmed = shows(calls[:number], HERE.play_alone)
        best = calls[:number] if confirmed else best
    return {"key": key, "seed": seed, "mode": mode, "calls": best, "confirmed": bool(confirmed),
            "situation": confirmed[0].situation if confirmed else "",
            "answers": confirmed[1] if confirmed else HERE.play(mode, best)}


def first_pass(pool, given, until):
    step = 20
    last = given.seed + given.scripts if given.scripts else None
    total, calls, rows, classes = 0, 0, collections.Counter(), {}
    running = collections.deque()
    seed = given.seed
    while True:
        while len(running) < given.jobs * 3 and time.time() < until and (last is None or seed < last):
            end = seed + step if last is None else min(seed + step, last)
            running.append(pool.apply_async(play_some, (range(seed, end), until)))
            seed = end
        if not running:
            return total, calls, rows, classes
        try:
            played, called, found, some = running.popleft().get(max(1, until + 60 - time.time()) if last is None else 1200)
        except multiprocessing.TimeoutError:
            return total, calls, rows, classes
        total += played
        calls += called
        rows.update(found)
        for key, (count, situations, examples) in some.items():
            mine = classes.setdefault(key, [0, collections.Counter(), []])
            mine[0] += count
            mine[1].update(situations)
            mine[2] = sorted(mine[2] + examples, key=lambda example: example[3])[:EXAMPLES]


def second_pass(pool, classes, until):
    """Shrunk examples by class, the most frequent classes first."""
    order = sorted(classes.items(), key=lambda item: -item[1][0])
    tasks = [(key, example, until) for turn in range(2) for key, (_, _, examples) in order
             for example in examples[turn:turn + 1]]
    found = collections.defaultdict(list)
    running = [pool.apply_async(shrink, (task,)) for task in tasks]
    for task, one in zip(tasks, running):
        try:
            found[task[0]].append(one.get(max(0.1, until + 60 - time.time())))
        except multiprocessing.TimeoutError:
            break
    return found


def show_example(example):
    lines = [f"    script {example['seed']}, {example['mode']}{'' if example['confirmed'] else ', not so in fresh processes'}:"]
    ours, theirs = example["answers"] or ([], [])
    for number, call in enumerate(example["calls"]):
        lines.append(f"      {call}")
        if ours[number:number + 1] != theirs[number:number + 1]:
            lines.append(f"          ours   {ours[number] if number < len(ours) else 'nothing'}")
            lines.append(f"          theirs {theirs[number] if number < len(theirs) else 'nothing'}")
    for side, answers in (("ours", ours), ("theirs", theirs)):
        if ours[len(example["calls"]):] != theirs[len(example["calls"]):]:
            lines += [f"          {side} {line}" for line in answers[len(example["calls"]):]]
    return lines


def report(given, known, passed, examples, seconds):
    total, calls, rows, classes = passed
    unexplained = unconfirmed = 0
    lines = []
    for key, (count, situations, _) in sorted(classes.items(), key=lambda item: -item[1][0]):
        shrunk = examples.get(key, [])
        good = any(example["confirmed"] for example in shrunk)
        unexplained += good
        unconfirmed += not good
        name, part, ours, theirs = key
        lines.append(f"{'UNEXPLAINED' if good else 'unconfirmed'} {name} {part}: ours {ours}, theirs {theirs} "
                     f"({count} scripts)")
        confirmed = collections.Counter(example["situation"] for example in shrunk if example["confirmed"])
        for situation, _ in (confirmed or situations).most_common(3):
            lines.append(f"    where: {situation}")
        for example in [example for example in shrunk if example["confirmed"]][:2] or shrunk[:1]:
            lines += show_example(example)
    head = [f"{total} scripts from {given.seed} on, {calls} calls, {seconds:.0f} s; {len(classes) + len(rows)} classes of "
            f"differences: {len(rows)} with a reason, {unexplained} without, {unconfirmed} that fresh processes did not show"]
    if given.left_out:
        head.append(f"left out, since one library alone has them: {', '.join(given.left_out)}")
    for row, count in rows.most_common():
        pattern, _, reason = known.rows[row]
        head.append(f"reason  {count:7} scripts  {reason}  ({pattern.pattern})")
    document = {
        "scripts": total, "first": given.seed, "calls": calls, "seconds": round(seconds),
        "known": [{"reason": known.rows[row][2], "pattern": known.rows[row][0].pattern, "scripts": count}
                  for row, count in rows.most_common()],
        "classes": [{"call": key[0], "part": key[1], "ours": key[2], "theirs": key[3], "scripts": count,
                     "confirmed": any(example["confirmed"] for example in examples.get(key, [])),
                     "situations": dict(situations.most_common(10)), "examples": examples.get(key, [])}
                    for key, (count, situations, _) in sorted(classes.items(), key=lambda item: -item[1][0])],
    }
    return head + lines, document, unexplained


def show(given, known, top):
    set_up(given, top, known)
    for seed in range(given.seed, given.seed + (given.scripts or 1)):
        mode, calls = script_of(seed, given.left_out)
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
    parser.add_argument("--seconds", default=480, type=float, help="for everything; a quarter of it for the second pass")
    parser.add_argument("--scripts", default=0, type=int, help="how many; 0: as many as there is time for")
    parser.add_argument("--seed", default=1, type=int, help="the number of the first script")
    parser.add_argument("--jobs", default=os.cpu_count(), type=int)
    parser.add_argument("--patience", default=5, type=int, help="seconds after which a script hangs")
    parser.add_argument("--ours-environment", default=[], action="append", metavar="NAME=VALUE")
    parser.add_argument("--theirs-environment", default=[], action="append", metavar="NAME=VALUE")
    parser.add_argument("--known", default=comparison.KNOWN, type=pathlib.Path)
    parser.add_argument("--json", type=pathlib.Path, help="writes the report here, too, with every example")
    parser.add_argument("--show", action="store_true", help="plays the scripts and shows all answers, no more")
    parser.add_argument("--script", type=pathlib.Path, help="with --show: this file, its mode and a call a line")
    parser.add_argument("--alone", action="store_true", help="with --show: in fresh processes")
    given = parser.parse_args()
    for side in ("player", "ours", "theirs"):
        path = getattr(given, side).resolve()
        if not path.is_file():
            parser.error(f"there is no {path}")
        setattr(given, side, path)
    given.left_out = calls_of_one(given)
    return given


def main():
    given = arguments()
    known = comparison.Known(given.known)
    begun = time.time()
    top = pathlib.Path(tempfile.mkdtemp(prefix="differential-", dir=given.folder)).resolve()
    try:
        if given.show:
            return show(given, known, top)
        with multiprocessing.Pool(given.jobs, set_up, (given, top, known)) as pool:
            passed = first_pass(pool, given, begun + given.seconds * 0.75)
            print(f"{passed[0]} scripts played in {time.time() - begun:.0f} s, {len(passed[3])} classes to look at",
                  file=sys.stderr, flush=True)
            examples = second_pass(pool, passed[3], begun + given.seconds)
    finally:
        shutil.rmtree(top, ignore_errors=True)
    lines, document, unexplained = report(given, known, passed, examples, time.time() - begun)
    print("\n".join(lines))
    if given.json:
        given.json.write_text(json.dumps(document, indent=1), encoding="utf-8")
    if passed[0] == 0:
        return 3
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
