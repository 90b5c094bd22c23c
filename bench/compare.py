#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares two libcufile.so.0 row by row, in turns, and says which floors are met.

Both libraries run at the same time, each in a cufile_bench of its own; one of them moves bytes while the other rests.
A turn measures each once, in short slices, together with the references of the row (the link, plain reads and
writes, and what else bounds it); every second turn goes the other way round. So both see the same machine, and what
drifts cancels. Halfway the processes are started anew, in the other order: that of their starts has been worth a few
percent. Everything measured is written to the state file at once; called again with the same file, the script goes on
where it stopped, and with nothing left to do it prints the tables.

On a virtual machine, whose host may give its processors to others, a slice in which they had too much of them is made
again, whichever guest's it is (--stolen, --again): it tells what the neighbours do.

  compare.py --program cufile_bench --ours DIR --theirs DIR --file cached=PATH --file virtio=PATH --state FILE
  compare.py --state FILE --report

Against an earlier library of ours, row by row and by the geometric mean of all of them, without any reference:

  compare.py --asked 0.98 --theirs DIR-OF-THE-EARLIER-ONE ...
"""

import argparse
import datetime
import fnmatch
import hashlib
import json
import os
import pathlib
import sys
import time

import floors
import paired
import quiet
import verdicts
from client_process import Client, Refused

SELF_TEST = "both sides are the same library: a test of the script, no measurement"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", help="cufile_bench")
    parser.add_argument("--ours", help="the folder of our libcufile.so.0")
    parser.add_argument("--theirs", help="the folder of the incumbent's")
    parser.add_argument("--config", help="a cufile.json that both are given")
    parser.add_argument("--file", action="append", default=[], metavar="KIND=PATH",
                        help=f"a file for each kind to measure: {', '.join(floors.KINDS)}")
    parser.add_argument("--size", help="its size, where it has to be made")
    parser.add_argument("--write-size", default="1G", help="the size of the file that is written")
    parser.add_argument("--rows", default="*", help="patterns as of the shell, separated by commas, of KIND/ROW or ROW")
    parser.add_argument("--state", required=True, type=pathlib.Path, help="where results are kept (JSON)")
    parser.add_argument("--pairs", type=int, default=10, help="turns a row (default 10)")
    parser.add_argument("--seconds", type=float, default=0.2, help="of a slice (default 0.2)")
    parser.add_argument("--settle", type=float, default=0.02, help="of rest between slices (default 0.02)")
    parser.add_argument("--processes", type=int, default=2, help="how often processes are started (default 2)")
    parser.add_argument("--stolen", type=float, default=0.01,
                        help="the share of the processors' time that others may have in a slice (default 0.01)")
    parser.add_argument("--again", type=int, default=5,
                        help="how often a slice in which they have more is made again; the last one counts (default 5)")
    parser.add_argument("--budget", type=float, default=1e9, help="seconds after which no slice is begun")
    parser.add_argument("--version", action="append", default=[], metavar="KEY=VALUE", help="kept with the results")
    parser.add_argument("--same", action="store_true", help="allow the same library on both sides: a self-test")
    parser.add_argument("--with", action="append", default=[], metavar="NAME=VALUE", dest="ours_with",
                        help="a variable of the environment of our side alone: with --same, what a setting costs")
    parser.add_argument("--asked", type=float, metavar="RATIO",
                        help="what each row has to have of the other side's speed by its mean, and nothing else: of an "
                             "earlier libcufile.so.0 of ours, or with --same of one without the setting")
    parser.add_argument("--report", action="store_true", help="only print the tables")
    options = parser.parse_args()
    if options.asked is not None and options.asked <= 0:
        parser.error("--asked wants a share above 0")
    if not options.report:
        missing = [name for name in ("program", "ours", "theirs") if getattr(options, name) is None]
        if missing or not options.file:
            parser.error("to measure, --program, --ours, --theirs and --file are needed")
    return options


class State:
    """What is known so far; written after each turn, whole or not at all."""

    def __init__(self, path):
        self.path = path
        self.data = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"results": {}, "runs": []}

    def result(self, kind, row):
        return self.data["results"].setdefault(kind, {}).setdefault(row, {"pairs": [], "errors": {}})

    def save(self):
        beside = self.path.with_name(self.path.name + ".new")
        beside.write_text(json.dumps(self.data), encoding="utf-8")
        os.replace(beside, self.path)


def told_library(path):
    """How results name it: where a system has it, or by its own folder alone. Where it was built is of one machine."""
    is_installed = path.parts[1] in ("usr", "opt", "lib", "lib64")
    return str(path if is_installed else pathlib.Path(*path.parts[-2:]))


def check_libraries(options, clients):
    """What was mapped is what was asked for, and not the same on both sides."""
    about = {who: client.once("--about") for who, client in clients.items()}
    for who, folder in (("ours", options.ours), ("theirs", options.theirs)):
        wanted = pathlib.Path(folder, "libcufile.so.0").resolve()
        if pathlib.Path(about[who]["library"]) != wanted:
            sys.exit(f"compare.py: {who}: {about[who]['library']} was mapped, and not {wanted}")
        about[who]["library"] = told_library(wanted)
        about[who]["sha256"] = hashlib.sha256(wanted.read_bytes()).hexdigest()[:16]
    same = about["ours"]["sha256"] == about["theirs"]["sha256"]
    if same and not options.same:
        sys.exit(f"compare.py: both sides mapped {wanted} or a copy of it; --same allows that, for a test")
    return about, same


def about_sameness(options, same):
    """What is kept of a run in which both sides are one library, or two of ours."""
    asked = {"asked": options.asked} if options.asked else {}
    if not same:
        return asked
    if not options.ours_with:
        return {"note": SELF_TEST, **asked}
    note = f"both sides are the same library; ours has {' '.join(options.ours_with)}, and the incumbent's column is without"
    return {"note": note, **asked}


def check_state(state, about, asked):
    """Pairs of different libraries, devices or machines do not belong into one result, nor do other rows."""
    for run in state.data["runs"]:
        if run.get("asked") != asked:
            sys.exit(f"compare.py: {state.path} was measured with another --asked: name another --state")
        for who, now in about.items():
            for what in ("sha256", "device", "driver", "kernel"):
                if run["about"][who].get(what) != now.get(what):
                    sys.exit(f"compare.py: {state.path} was measured with another {what} ({who}): name another --state")


class Comparison:
    def __init__(self, options, state):
        self.options = options
        self.state = state
        self.began = time.monotonic()
        self.files = dict(text.split("=", 1) for text in options.file)
        unknown = set(self.files) - set(floors.KINDS)
        if unknown:
            sys.exit(f"compare.py: no such kind of file: {', '.join(sorted(unknown))}")

    def time_is_up(self):
        return time.monotonic() - self.began > self.options.budget

    def client(self, who, kind):
        # NVIDIA's library refuses tmpfs; there it is held against what it does with cached pages of another file.
        if kind == "tmpfs" and who == "theirs" and "cached" in self.files and not self.options.asked:
            kind = "cached"
        target = ["--file", os.path.abspath(self.files[kind]), "--write-size", self.options.write_size]
        if self.options.size:
            target += ["--size", self.options.size]
        if kind in ("virtio", "loop"):
            target.append("--direct")
        if kind in ("two_links", "four_links"):
            target.append("--all-gpus")
        environment = {"CUFILE_ENV_PATH_JSON": os.path.abspath(self.options.config)} if self.options.config else {}
        if who == "ours":
            environment.update(text.split("=", 1) for text in self.options.ours_with)
        library = self.options.theirs if who == "theirs" else self.options.ours
        return Client(os.path.abspath(self.options.program), os.path.abspath(library), target, environment)

    def wanted(self, kind):
        patterns = self.options.rows.split(",")
        rows = floors.KINDS[kind]
        if self.options.asked:
            rows = [row.of_speed(self.options.asked) for row in rows if row.has_speed()]
        return [row for row in rows
                if any(fnmatch.fnmatch(row.name, pattern) or fnmatch.fnmatch(f"{kind}/{row.name}", pattern)
                       for pattern in patterns)]

    def run(self):
        """False when time ran out."""
        for kind in self.files:
            clients = {who: self.client(who, kind) for who in ("ours", "theirs", "reference")}
            for client in clients.values():
                client.once("--prepare")
            for share in range(1, self.options.processes + 1):
                target = -(-self.options.pairs * share // self.options.processes)
                try:
                    for row in self.wanted(kind):
                        if not self.turns(kind, row, clients, target, ours_first=share % 2 == 1):
                            return False
                finally:
                    for client in clients.values():
                        client.close()
        return True

    def turns(self, kind, row, clients, target, ours_first=True):
        """Measures the row until it has that many pairs. False when time ran out."""
        result = self.state.result(kind, row.name)
        if len(result["pairs"]) >= target:
            return True
        result["errors"] = {}
        open_now = []
        participants = row.participants()
        for who, name in participants if ours_first else reversed(participants):
            if self.time_is_up():
                break
            if self.attempt(result, who, name, lambda: self.open(clients[who], name)):
                open_now.append((who, name))
        mine_works = ("ours", row.name) in open_now
        while mine_works and len(result["pairs"]) < target and not self.time_is_up():
            turn = len(result["pairs"])
            pair = {}
            for who, name in open_now if turn % 2 == 0 else reversed(open_now):
                if verdicts.key(who, name) in result["errors"]:
                    continue
                time.sleep(self.options.settle)
                self.attempt(result, who, name, lambda: pair.update(
                    {verdicts.key(who, name): self.slice(clients[who], name)}))
            if verdicts.key(*participants[0]) in result["errors"]:
                break
            result["pairs"].append(pair)
            self.state.save()
        for who, name in open_now:
            if verdicts.key(who, name) not in result["errors"]:
                self.attempt(result, who, name, lambda: self.close(clients[who], name))
        self.state.save()
        print(f"{kind}/{row.name}: {len(result['pairs'])} pairs, {time.monotonic() - self.began:.0f} s",
              *(f"{name}: {text}" for name, text in result["errors"].items()), flush=True, sep="; ")
        return not self.time_is_up()

    @staticmethod
    def attempt(result, who, name, action):
        try:
            action()
            return True
        except Refused as refusal:
            result["errors"][verdicts.key(who, name)] = str(refusal)
            return False

    def open(self, client, name):
        if not name.startswith("first-"):
            client.command(f"open {name}", 120)

    def close(self, client, name):
        if not name.startswith("first-"):
            client.command(f"close {name}", 120)

    def slice(self, client, name):
        """One sample. A first request needs a process of its own; idleness needs a while to be seen."""
        if name.startswith("first-"):
            return client.once("--first", name.removeprefix("first-"))
        seconds = max(self.options.seconds, 2.0) if name in ("idle", "held") else self.options.seconds
        return quiet.measured(lambda: client.command(f"run {name} {seconds}", 60 + 10 * seconds),
                              self.options.stolen, self.options.again)


def judged(state):
    """All verdicts: by the floors of the rows, or by what was asked of a setting."""
    found = []
    asked = state.data["runs"][-1].get("asked") if state.data["runs"] else None
    for kind, rows in state.data["results"].items():
        for row in floors.KINDS[kind]:
            if row.name not in rows:
                continue
            found += verdicts.judge_row(kind, row if asked is None else row.of_speed(asked), rows[row.name])
    return found


def all_rows(found, asked):
    """One sentence on all rows, where each was asked for the same: their geometric mean, and those below it."""
    by_their_mean = [verdict for verdict in found if verdict.estimate is not None]
    if asked is None or len(by_their_mean) < 2:
        return []
    mean, bound = paired.ratio([(verdict.estimate, 1.0) for verdict in by_their_mean])
    below = [f"{verdict.kind}/{verdict.row}" for verdict in by_their_mean if verdict.estimate < asked]
    return [f"all {len(by_their_mean)} rows: geometric mean {mean:.3f} (95 % bound {bound:.3f}); "
            f"below {asked} by their own mean: {', '.join(below) or 'none'}"]


def report(state):
    """The tables, and how many requirements are met."""
    found = judged(state)
    for run in state.data["runs"][-1:]:
        print(*(f"{name}: {value}" for name, value in run.items() if name != "about"), sep="\n")
        for who, about in run["about"].items():
            print(f"{who}: {', '.join(f'{name} {value}' for name, value in about.items())}")
    print(f"\n{verdicts.verdict_table(found)}\n\n{verdicts.sample_table(state.data['results'])}\n")
    missed = [verdict for verdict in found if verdict.met is False]
    in_the_middle = sum(verdict.is_met_in_the_middle() for verdict in missed)
    print(f"{sum(verdict.met is True for verdict in found)} met by the mean's bound, {in_the_middle} more by the median's, "
          f"{len(missed) - in_the_middle} not met, {sum(verdict.met is None for verdict in found)} without a verdict")
    print(*all_rows(found, state.data["runs"][-1].get("asked") if state.data["runs"] else None),
          quiet.account(state.data["results"]), sep="\n")


def main():
    options = arguments()
    state = State(options.state)
    if options.report:
        report(state)
        return 0
    comparison = Comparison(options, state)
    kind = next(iter(comparison.files))
    about, same = check_libraries(options, {who: comparison.client(who, kind) for who in ("ours", "theirs")})
    check_state(state, about, options.asked)
    state.data["runs"].append({
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        **dict(text.split("=", 1) for text in options.version),
        "seconds": options.seconds, "about": about, **about_sameness(options, same)})
    finished = comparison.run()
    state.save()
    report(state)
    if not finished:
        print("compare.py: the time is up; call again with the same --state to go on")
    return 0 if finished else 3


if __name__ == "__main__":
    sys.exit(main())
