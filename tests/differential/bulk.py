# SPDX-License-Identifier: Apache-2.0
"""The first pass: processes that play shares of the scripts against one library each, and what their answers show.

Neither library waits for the other: the scripts go out in chunks by number, the answers come back and are compared once
both are there. Scripts that do not begin with the driver open have processes to themselves, since opening NVIDIA's library
takes seconds.
"""

import collections
import contextlib
import multiprocessing
import multiprocessing.connection
import os
import signal
import time

import comparison
import generator
import players
import records
import reports

SIDES = ("ours", "theirs")
LANES = {"open": ("open",), "slow": ("closed", "life")}
CHUNK = 200
EXAMPLES = 3  # kept of each class
STARTS = 4  # processes that start at once: the driver takes one at a time
AHEAD = 24  # chunks that a library may be in front of the other


def script_of(seed, given, wanted=("open", "closed", "life")):
    drawn = generator.script(seed, given.life / 100, given.closed / 100, given.danger, wanted)
    if drawn is None:
        return None
    mode, calls = drawn
    return mode, [call for call in calls if call.split(None, 1)[0] not in given.left_out]


def player_of(given, top, side, mode, alone=False, seconds=None):
    environment = dict(pair.split("=", 1) for pair in getattr(given, f"{side}_environment"))
    folder = top / f"{side}-{mode}{'-alone' if alone else ''}"
    return players.Player(given.player, getattr(given, side), folder, environment, mode, alone, seconds or given.patience)


def recorder(given, side, top):
    """A file for the answers of one process, if theirs are to be kept; records.py gathers them."""
    if side != "theirs" or not given.record:
        return contextlib.nullcontext()
    return records.writer(given.record_parts / f"{top.name}-{os.getpid()}.xz")


def work(link, side, lane, given, top, until, starts):
    """Plays what the chunks that come hold of a lane; answers (seeds, calls, texts of answers, counts, given up)."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with recorder(given, side, top) as record:
        work_recorded(link, side, lane, given, top, until, starts, record)


def work_recorded(link, side, lane, given, top, until, starts, record):
    at_work = {mode: player_of(given, top, side, mode, seconds=max(1, given.patience // 2)) for mode in LANES[lane]}
    try:
        for first, last in iter(link.recv, None):
            seeds, texts, calls_played = [], [], 0
            drawn = [(seed, *found) for seed in range(first, last)
                     if (found := script_of(seed, given, LANES[lane])) is not None]
            for mode, player in at_work.items():
                mine = [(seed, calls) for seed, one, calls in drawn if one == mode and calls]
                for (seed, calls), lines in zip(mine, player.play_all([calls for _, calls in mine], until, starts)):
                    seeds.append(seed)
                    texts.append("\n".join(lines))
                    if record:
                        records.add(record, seed, mode, calls, lines)
                    calls_played += len(calls)
            counts = collections.Counter()
            for mode, player in at_work.items():
                counts.update({(mode, what): count for what, count in player.counts.items()})
                player.counts.clear()
            given_up = [(mode, *one) for mode, player in at_work.items() for one in player.given_up]
            for player in at_work.values():
                player.given_up.clear()
            link.send((seeds, calls_played, texts, counts, given_up))
    except (EOFError, OSError):
        pass
    finally:
        for player in at_work.values():
            player.stop(kill=True)


def count_difference(classes, seed, mode, calls, difference, answers):
    mine = classes.setdefault(difference.key, [0, collections.Counter(), []])
    mine[0] += 1
    if len(mine[1]) < reports.SITUATIONS or difference.situation in mine[1]:
        mine[1][difference.situation] += 1
    if len(mine[2]) < EXAMPLES:
        at = difference.number - 1
        mine[2].append((seed, mode, calls, difference.number, [side[at:at + 1] for side in answers]))


def compare(given, known, seeds, ours, theirs):
    """What the answers to these scripts show: (rows, {key: [count, situations, examples]})"""
    rows, classes = collections.Counter(), {}
    for seed, one, other in zip(seeds, ours, theirs):
        if one == other and not comparison.ENDS.search(one) and not comparison.FAULT.search(one):
            continue
        mode, calls = script_of(seed, given)
        answers = one.split("\n"), other.split("\n")
        difference, found = comparison.first_unknown(mode, calls, *answers, known)
        rows.update(set(found))
        if difference is None:
            continue
        count_difference(classes, seed, mode, calls, difference, answers)
    return rows, classes


class Passed:
    """What the first pass has shown."""

    def __init__(self):
        self.scripts, self.calls, self.last = 0, 0, 0  # last: what follows the highest number that was handed out
        self.rows, self.classes = collections.Counter(), {}
        self.counts = {side: collections.Counter() for side in SIDES}
        self.given_up = {}  # (side, mode, why) -> [(calls, last answers)]
        self.open_seconds = dict.fromkeys(SIDES, 0.0)  # until a library had played the last script of the lane "open"

    def note(self, side, counts, given_up):
        self.counts[side].update(counts)
        for mode, why, calls, told in given_up:
            kept = self.given_up.setdefault((side, mode, why), [])
            if len(kept) < EXAMPLES:
                kept.append((calls, told))

    def add(self, rows, classes):
        self.rows.update(rows)
        for key, (count, situations, examples) in classes.items():
            mine = self.classes.setdefault(key, [0, collections.Counter(), []])
            mine[0] += count
            mine[1].update(situations)
            mine[2] = sorted(mine[2] + examples, key=lambda example: example[3])[:EXAMPLES]


class Chunks:
    """The chunks of one lane: which each library is to play next, and the answers that the other has still to match."""

    def __init__(self, given, leader=None):
        self.leader = leader  # the lane that this one is not to be in front of
        self.first, self.last = given.seed, given.seed + given.scripts if given.scripts else None
        self.size = CHUNK if not given.scripts else max(1, min(CHUNK, given.scripts // (4 * given.jobs)))
        self.next = dict.fromkeys(SIDES, 0)
        self.stored = {}

    def take(self, side):
        """The next chunk, None if there is none left, or "wait"."""
        other = SIDES[side == SIDES[0]]
        begin = self.first + self.next[side] * self.size
        if self.last is not None and begin >= self.last:
            return None
        if self.next[side] - self.next[other] >= AHEAD or (self.leader and self.next[side] >= self.leader.next[side]):
            return "wait"
        self.next[side] += 1
        return begin, begin + self.size if self.last is None else min(begin + self.size, self.last)

    def match(self, side, chunk, seeds, texts):
        """(seeds, ours, theirs) of what both have played, once both have answered; or None."""
        answers = dict(zip(seeds, texts))
        if chunk not in self.stored:
            self.stored[chunk] = answers
            return None
        stored = self.stored.pop(chunk)
        both = [seed for seed in seeds if seed in stored]
        mine, other = [answers[seed] for seed in both], [stored[seed] for seed in both]
        return (both, mine, other) if side == "ours" else (both, other, mine)


def first_pass(pool, given, known, top, until):
    begun = time.time()
    passed = Passed()
    starts = multiprocessing.BoundedSemaphore(STARTS)
    lanes = {"open": Chunks(given)}
    if given.life or given.closed:
        lanes["slow"] = Chunks(given, lanes["open"])
    links, processes, busy, compared = {}, [], {}, collections.deque()
    for lane, side in ((lane, side) for lane in lanes for side in SIDES):
        for number in range(given.slow_jobs if lane == "slow" else given.ours_jobs if side == "ours" else given.jobs):
            mine, its = multiprocessing.Pipe()
            process = multiprocessing.Process(target=work, daemon=True,
                                              args=(its, side, lane, given, top / f"{lane}{number}", until, starts))
            process.start()
            its.close()
            processes.append(process)
            links[mine] = side, lane
    idle = set(links)
    try:
        while True:
            for link in list(idle):
                side, lane = links[link]
                chunk = lanes[lane].take(side) if time.time() < until else None
                if chunk != "wait":
                    idle.discard(link)
                if isinstance(chunk, tuple):
                    busy[link] = chunk
                    passed.last = max(passed.last, chunk[1])
                    link.send(chunk)
            if not busy or time.time() > until + 30:
                break
            for link in multiprocessing.connection.wait(list(busy), 5):
                (side, lane), chunk = links[link], busy.pop(link)
                try:
                    seeds, calls, texts, counts, given_up = link.recv()
                except (EOFError, OSError):
                    continue
                idle.add(link)
                passed.note(side, counts, given_up)
                if lane == "open":
                    passed.open_seconds[side] = time.time() - begun
                if side == "ours":
                    passed.calls += calls
                both = lanes[lane].match(side, chunk, seeds, texts)
                if both is not None:
                    passed.scripts += len(both[0])
                    compared.append(pool.apply_async(compare_here, both))
            while compared and compared[0].ready():
                passed.add(*compared.popleft().get())
        while compared:
            passed.add(*compared.popleft().get(300))
    finally:
        for link in links:
            try:
                link.send(None)
            except OSError:
                pass  # it has ended
        for process in processes:
            process.join(5)
            if process.is_alive():
                process.terminate()
    return passed


HERE = None  # what compare_here needs, in each process of the pool


def set_up(given, known):
    global HERE
    HERE = given, known


def compare_here(seeds, ours, theirs):
    return compare(*HERE, seeds, ours, theirs)
