#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every call fails once: a workload is played in a process of its own for each place of the library that calls the C
library, the system or the driver, and there one call fails. The process must neither crash nor hang, tell nothing
untrue, and do everything right afterwards.

  failures.py --build DIR --kind KIND [--full] [--seconds N] [--seed N] [--jobs N] [--match TEXT] [--verbose]
  failures.py --build DIR --play "cold allocation 4711 1 0"     one play, as a failing case prints it; with its record

Kinds: allocation, system_call, driver_call (one call fails, then all succeed again); refused (the kernel refuses one
system call from some time on, as a sandbox does); storage (the file's reads and writes fail, come short, late or in
another order); rings (io_uring is refused in whole or in part). Without --full a sample of each, drawn by --seed.
Exit status: 0 all good, 1 some bad, 77 it cannot be played here.
"""
import argparse
import collections
import concurrent.futures
import errno
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

# How many plays of a phase are a sample: the whole check has 25 s of processor time for all kinds.
SAMPLE = {"allocation": 7, "system_call": 5, "driver_call": 5, "refused": 6, "storage": 4, "rings": 3}
PHASES = ("cold", "warm")
NO_DRIVER = 77
MOST_SECONDS = 900  # a play ends itself by an alarm when one of its calls takes a minute
# How many allocations fail in a row; what a driver call answers (out of memory, not supported); what io_uring does.
CODES = {"allocation": (1, 30), "driver_call": (2, 801), "rings": (errno.EAGAIN, errno.EBUSY, errno.EINTR, errno.ENOMEM)}
REFUSALS = (errno.EPERM, errno.ENOSYS, errno.EINVAL)

# How glibc says that it ends a process which lacks memory for the thread-local data of a library that dlopen() brought.
NO_THREAD_LOCAL_DATA = "cannot allocate memory for thread-local data"

# What calls answer that find none: errno ENOMEM, CU_FILE_NOMEM_ERROR.
NO_MEMORY = (str(errno.ENOMEM), "5043")

# Refused, these end a process without the library's doing.
NOT_OURS = {
    "brk": "the kernel's answers an address, never an error: glibc takes -EPERM for one and writes there",
    "rseq": "glibc ends the process when a new thread cannot be registered while the first one was (pthread_create)",
}

Play = collections.namedtuple("Play", "phase kind site turn code")


def program_of(build, kind):
    name = "failing_storage" if kind in ("storage", "rings") else "failing_calls"
    return build / "test-bin" / name


class Result:
    """What became of a play: bad is empty when it was good."""

    def __init__(self, play, status, record, errors):
        self.play = play
        lines = [line.split(" ", 1) for line in record.splitlines()]
        told = collections.defaultdict(list)
        for word, *rest in lines:
            told[word].append(rest[0] if rest else "")
        self.sites = {int(number): int(calls) for number, calls in (text.split() for text in told["site"])}
        self.struck = told["struck"]
        self.ended = told["ended"]
        self.refused = told["refused"]
        self.blind = bool(told["blind"])
        self.has_no_driver = status == NO_DRIVER or bool(told["skipped"])
        self.bad = list(told["bad"])
        if play.kind == "allocation":
            self.bad += [f"{text}: not as without memory" for text in self.refused if text.split(": ")[-1] not in NO_MEMORY]
        self.ended_by_glibc = status == 127 and play.kind == "refused" and NO_THREAD_LOCAL_DATA in errors
        if self.ended_by_glibc:
            pass
        elif status < 0:
            how = "hangs" if -status == signal.SIGALRM else f"ends by {signal.Signals(-status).name}"
            self.bad.insert(0, f"the process {how}: {' '.join(errors.split())[-300:]}")
        elif status not in (0, NO_DRIVER):
            self.bad.insert(0, f"the process ends with status {status}: {' '.join(errors.split())[-300:]}")
        elif status == 0 and "over" not in told:
            self.bad.insert(0, "the passes are not over")


class Player:
    def __init__(self, build, folder):
        self.build = build
        self.folder = folder
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith(("SLUICE_", "CUFILE_", "LD_"))}
        self.environment["LD_LIBRARY_PATH"] = str(build / "softgpu")
        # Built with AddressSanitizer: memory of `new` is handed out by malloc() here; what was refused to be given back, and
        # what a process holds when it ends, is no leak.
        self.environment["ASAN_OPTIONS"] = "alloc_dealloc_mismatch=0:detect_leaks=0:allocator_may_return_null=1"
        # Nothing of the machine's own: its configuration, its settings.
        self.environment["CUFILE_ENV_PATH_JSON"] = str(folder / "cufile.json")
        (folder / "cufile.json").write_text('{"logging": {"dir": "%s"}}' % folder)

    def play(self, play):
        record = pathlib.Path(tempfile.mkstemp(dir=self.folder, prefix="record-")[1])
        words = [program_of(self.build, play.kind), record, self.folder, *map(str, play)]
        child = subprocess.Popen([str(word) for word in words], env=self.environment, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=self.folder)
        try:
            errors = child.communicate(timeout=MOST_SECONDS)[1]
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()
            return Result(play, -signal.SIGALRM, record.read_bytes().rstrip(b"\0").decode(), "")
        text = record.read_bytes().rstrip(b"\0").decode(errors="replace")
        record.unlink()
        return Result(play, child.returncode, text, errors.decode(errors="replace"))


def turns_of(kind, calls):
    """Of a site that is one place of the library, the first call, one amid and the last; of the storage, up to 50."""
    if kind in ("storage", "rings"):
        return range(1, calls + 1, max(calls // 50, 1))
    return sorted({1, (calls + 1) // 2, calls})


def plays_of(kind, player):
    """All of a kind: each site's first call, and a later one where there are more."""
    plays = []
    for phase in PHASES:
        if kind == "refused":
            listed = subprocess.run([str(program_of(player.build, kind)), "--refusable"], env=player.environment,
                                    stdout=subprocess.PIPE, text=True, check=True).stdout
            for name, number in (line.split() for line in listed.splitlines()):
                plays += [Play(phase, kind, int(number), name, code) for code in REFUSALS if name not in NOT_OURS]
            continue
        counted = player.play(Play(phase, kind, 0, 0, 0))
        if counted.bad:
            raise SystemExit(f"nothing fails, and it is bad all the same: {counted.bad}")
        for site, calls in counted.sites.items():
            for turn in turns_of(kind, calls):
                for code in CODES.get(kind, (0,)):
                    plays.append(Play(phase, kind, site, turn, code))
    return plays


def sample_of(plays, kind, seed):
    """Every k-th of each phase, from a place that the seed says."""
    draw = random.Random(f"{seed} {kind}")
    chosen = []
    for phase in PHASES:
        of_phase = [play for play in plays if play.phase == phase]
        step = max(len(of_phase) // SAMPLE[kind], 1)
        chosen += of_phase[draw.randrange(step)::step][:SAMPLE[kind]]
    return chosen


def named(build, struck):
    """The library's functions on the way to the call."""
    if not struck:
        return ""
    call, *places = struck[0].split()
    if call in ("the", "a", "rings:") or shutil.which("addr2line") is None:
        return struck[0]
    places = [hex(int(place, 16) - 1) for place in places]
    lines = subprocess.run(["addr2line", "-Cfi", "-e", str(build / "lib/libcufile.so.0"), *places], stdout=subprocess.PIPE,
                           text=True, check=False).stdout.splitlines()
    functions = [f"{name} ({os.path.basename(place)})" for name, place in zip(lines[::2], lines[1::2])]
    ours = [name for name in functions if "/" not in name and not name.startswith(("std::", "operator", "__gnu"))]
    return f"{call} in " + " < ".join(ours[:8])


def tell(result, player):
    play = " ".join(map(str, result.play))
    print(f'BAD --play "{play}"\n    {named(player.build, result.struck)}')
    if result.ended:
        print(f"    ended by {named(player.build, result.ended)}")
    for text in result.bad[:6]:
        print(f"    {text}")
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="the folder of the build, for example build/release")
    parser.add_argument("--kind", choices=sorted(SAMPLE), help="what fails")
    parser.add_argument("--full", action="store_true", help="all of them, not a sample")
    parser.add_argument("--seconds", type=float, help="begins no play after so long; which are played by then --seed draws")
    parser.add_argument("--seed", default="1", help="draws the sample (1)")
    parser.add_argument("--jobs", type=int, default=2, help="processes at once (2)")
    parser.add_argument("--match", default="", help="only plays that hold this text")
    parser.add_argument("--play", help="one play: PHASE KIND SITE TURN CODE")
    parser.add_argument("--verbose", action="store_true", help="tell of every play which call failed and what was refused")
    parser.add_argument("--json", action="store_true", help="a summary for machines, as the last line")
    asked = parser.parse_args()
    if bool(asked.kind) == bool(asked.play):
        parser.error("say either --kind or --play")
    asked.build = asked.build.resolve()
    with tempfile.TemporaryDirectory(dir=asked.build, prefix="failures-") as folder:
        return run(asked, Player(asked.build, pathlib.Path(folder)))


def run(asked, player):
    if asked.play:
        phase, kind, site, turn, code = asked.play.split()
        plays = [Play(phase, kind, int(site), turn, int(code))]
    else:
        plays = [play for play in plays_of(asked.kind, player) if asked.match in " ".join(map(str, play))]
        if not asked.full:
            plays = sample_of(plays, asked.kind, asked.seed)
    counts = collections.Counter()
    end = time.monotonic() + asked.seconds if asked.seconds else None
    if end:
        random.Random(asked.seed).shuffle(plays)

    def played(play):
        return None if end and time.monotonic() > end else player.play(play)

    with concurrent.futures.ThreadPoolExecutor(asked.jobs) as pool:
        for result in pool.map(played, plays):
            if result is None:
                counts["left out"] += 1
                continue
            counts["plays"] += 1
            counts["bad"] += bool(result.bad)
            counts["with a refusal"] += bool(result.refused)
            counts["not reached"] += result.play.kind != "refused" and not result.struck
            counts["not looked at"] += result.blind
            counts["ended by glibc"] += result.ended_by_glibc
            counts["without a driver"] += result.has_no_driver
            if result.bad:
                tell(result, player)
            elif asked.verbose or asked.play:
                print(" ".join(map(str, result.play)), named(player.build, result.struck), collections.Counter(result.refused))
    if not plays:
        print("there is nothing to play")
        return 1
    print(", ".join(f"{number} {what}" for what, number in counts.items()) + f"; seed {asked.seed}")
    if asked.json:
        print(json.dumps(counts))
    if counts["without a driver"] == len(plays):
        return NO_DRIVER
    return 1 if counts["bad"] else 0


if __name__ == "__main__":
    sys.exit(main())
