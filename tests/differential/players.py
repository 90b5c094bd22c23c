# SPDX-License-Identifier: Apache-2.0
"""Players at work: processes that play scripts against one library, started anew when one has ended."""

import collections
import os
import pathlib
import re
import select
import struct
import subprocess
import sys
import time

START_SECONDS = 60  # until a process is ready; many start at once
MOST_NOTES = 6  # of hangs, by one process of the pool
NEAR = 1 << 14  # bytes of a stack that are searched for return addresses

LAST = re.compile(rb"(?:^|\n)end(?: us=(\d+) reset=(\d+) opened=(\d+) took=(\S*) left=(\S+))?\n")
notes = 0


def note(text):
    """Tells on standard error, in one piece: others tell there, too."""
    os.write(sys.stderr.fileno(), (text.rstrip("\n") + "\n").encode(errors="replace"))


def contents(path):
    try:
        return pathlib.Path(path).read_text(errors="replace").strip()
    except OSError as error:
        return f"({error.strerror})"


def stack_of(process, pointer, maps):
    """What looks like return addresses on a stack: "file+offset", the innermost first."""
    try:
        with open(f"/proc/{process}/mem", "rb", buffering=0) as memory:
            memory.seek(pointer)
            data = memory.read(NEAR)
    except (OSError, ValueError, OverflowError) as error:
        return [f"({error})"]
    found = []
    for (word,) in struct.iter_unpack("<Q", data[:len(data) // 8 * 8]):
        for low, high, shift, name in maps:
            if low <= word < high:
                found.append(f"{name}+0x{word - low + shift:x}")
    return found[:16]


def describe(process):
    """What each task of a process does: lines."""
    maps, lines = [], []
    for line in contents(f"/proc/{process}/maps").splitlines():
        fields = line.split(None, 5)
        if len(fields) == 6 and "x" in fields[1] and fields[5].startswith("/"):
            low, high = (int(part, 16) for part in fields[0].split("-"))
            maps.append((low, high, int(fields[2], 16), os.path.basename(fields[5])))
    try:
        tasks = sorted(os.listdir(f"/proc/{process}/task"), key=int)
    except OSError as error:
        return [f"  process {process}: {error.strerror}"]
    for task in tasks[:40]:
        at = f"/proc/{process}/task/{task}"
        call = contents(f"{at}/syscall")
        lines.append(f"  {task} {contents(f'{at}/comm')}: wchan {contents(f'{at}/wchan')}, syscall {call}")
        kernel = contents(f"{at}/stack")
        if kernel and not kernel.startswith("("):
            lines.append("    kernel: " + " ".join(part.split()[-1] for part in kernel.splitlines()))
        words = call.split()
        if len(words) >= 3 and words[-2].startswith("0x"):  # else contents() says why it cannot be read
            lines.append("    stack: " + " ".join(stack_of(process, int(words[-2], 16), maps)))
    return lines


class Player:
    """Plays scripts of one mode against a library. A process plays many, unless `alone`; of the mode "life", always one."""

    def __init__(self, program, library, folder, environment, mode, alone=False, seconds=10):
        self.command = [str(program), f"--library={library}", f"--folder={folder}", f"--seconds={seconds}"]
        self.folder = pathlib.Path(folder)
        self.environment = {**os.environ, **environment}
        self.mode, self.alone, self.seconds = mode, alone, seconds
        self.process = None
        self.ready = False
        self.calls = []
        self.counts = collections.Counter()  # starts, start_us, scripts, us, reset_us, opened, ... and why processes ended
        self.given_up = []  # (why, calls, the last answers) of the scripts that ended a process

    def start(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        for log in self.folder.glob("*.log"):
            log.unlink()
        with open(self.folder / "stderr.txt", "wb") as errors:
            self.process = subprocess.Popen(self.command, cwd=self.folder, env=self.environment, stdin=subprocess.PIPE,
                                            stdout=subprocess.PIPE, stderr=errors)
        self.ready = False
        self.counts["starts"] += 1

    def stop(self, kill=False):
        if self.process is None:
            return
        for pipe in (self.process.stdin, self.process.stdout):
            try:
                pipe.close()
            except OSError:
                pass
        if kill:
            self.process.kill()
        try:
            self.process.wait(3)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def begin(self, calls):
        """Hands the script to the process; answers() gets what it says."""
        text = "".join([f"script x {self.mode}\n", *(f"{call}\n" for call in calls), "end\n"]).encode()
        self.calls = calls
        for _ in range(2):
            if self.process is None:
                self.start()
            try:
                self.process.stdin.write(text)
                self.process.stdin.flush()
                return
            except OSError:
                self.stop()

    def count_end(self, why, lines):
        """A process ends early: why, with this script as an example."""
        self.counts[why] += 1
        if self.counts[why] <= MOST_NOTES:
            told = [line for line in lines if "cuda=" in line or "signal" in line or "hang" in line]
            self.given_up.append((why, list(self.calls), told[:3] or lines[-1:]))

    def give_up(self, lines, why):
        """The process has hung or gone: says where, and ends it."""
        global notes
        self.count_end(f"{'while starting' if not self.ready else 'in a script'}: {why}", lines)
        if notes < MOST_NOTES:
            notes += 1
            note("\n".join([f"{why} {'in a script' if self.ready else 'while starting'}, {self.mode}: {self.command[1]}",
                            *(f"  > {call}" for call in self.calls if self.ready), *(f"  < {line}" for line in lines[-2:]),
                            *describe(self.process.pid), f"  said: {contents(self.folder / 'stderr.txt')[-1000:]}"]))
        self.stop(kill=True)
        return lines

    def lines_until(self, data, end, seconds):
        """Reads on until `end` is found: (what came, whether it was found, why not)."""
        limit = time.monotonic() + seconds
        while not end(data):
            left = limit - time.monotonic()
            ready = select.select([self.process.stdout], [], [], left)[0] if left > 0 else []
            some = os.read(self.process.stdout.fileno(), 1 << 16) if ready else b""
            if not some:
                return data, "gone" if ready else "hang"
            data += some
        return data, ""

    def greet(self, first):
        """Takes the first line of a process; False if it is not what a process says that can play."""
        if not first.startswith(b"ready "):
            return False
        _, taken, opened = first.decode(errors="replace").split()
        self.ready = True
        self.counts["start_us"] += int(taken[3:])
        if opened != "open=0/0":
            self.counts[f"while starting: {opened}"] += 1
        return True

    def settle(self, lines, last):
        """The lines of a script's answers, after what its end says has been counted and done."""
        if last[1] is None:
            if lines and lines[-1].endswith(" hang"):
                return self.give_up(lines, "hang")
            self.count_end(f"in a script: {' '.join(lines[-1].split()[-2:]) if lines else 'nothing'}", lines)
            self.stop()
            return lines
        for what, count in zip(("scripts", "us", "reset_us", "opened"), (1, int(last[1]), int(last[2]), int(last[3]))):
            self.counts[what] += count
        for word in last[4].decode().split(",")[:-1]:
            name, times, taken = word.split(":")
            self.counts[f"times {name}"] += int(times)
            self.counts[f"took {name}"] += int(taken)
        left = last[5].decode()
        if left not in ("nothing", "life"):
            self.count_end(f"left: {left}", lines)
        if self.alone or left != "nothing":
            self.stop()
        return lines

    def answers(self):
        """The lines of answers; the last one tells of a process that ended or hung."""
        if self.process is None:
            return ["start gone"]
        data = b""
        if not self.ready:
            data, why = self.lines_until(data, lambda data: b"ready" in data and b"\n" in data or LAST.search(data),
                                         START_SECONDS)
            first, _, rest = data.partition(b"\n")
            if why or not self.greet(first):
                return self.give_up([f"start {why or data.decode(errors='replace').split(chr(10) + 'end')[0].strip()}"],
                                    why or "crash")
            data = rest
        data, why = self.lines_until(data, LAST.search, 6 * self.seconds + 15)
        last = LAST.search(data)
        lines = (data[:last.start()] if last else data).decode(errors="replace").splitlines()[1:]
        return self.give_up(lines + [why], why) if why else self.settle(lines, last)

    def play_all(self, scripts, until, starts):
        """The answers to each script in turn, up to the time. The process is handed all of them at once, so that it never
        waits; one that has ended is followed by another. `starts`: a semaphore that is held while one starts."""
        at = 0
        while at < len(scripts) and time.time() < until:
            held = False
            if self.process is None:
                starts.acquire()
                held = True
            try:
                if held:
                    self.start()
                    os.set_blocking(self.process.stdin.fileno(), False)
                for lines in self.play_on(scripts[at:at + 1] if self.mode == "life" else scripts[at:], until):
                    if held:
                        starts.release()
                        held = False
                    if lines is not None:
                        yield lines
                        at += 1
            finally:
                if held:
                    starts.release()

    def play_on(self, scripts, until):
        """None once the process is ready, then the answers to scripts until it ends."""
        text = "".join("\n".join([f"script x {self.mode}", *calls, "end\n"]) for calls in scripts).encode()
        text, data, at = memoryview(text), b"", 0
        self.calls = scripts[0]
        limit = time.monotonic() + (6 * self.seconds + 15 if self.ready else START_SECONDS)
        while at < len(scripts) and self.process is not None:
            left = min(limit - time.monotonic(), until - time.time())
            came, taken, _ = select.select([self.process.stdout], [self.process.stdin] if text else [], [], max(0, left))
            if taken:
                try:
                    text = text[os.write(self.process.stdin.fileno(), text[:1 << 16]):]
                except OSError:
                    text = text[:0]  # the process ends: its output tells
            if not came:
                if time.time() >= until:
                    self.stop(kill=True)
                elif time.monotonic() >= limit:
                    yield self.give_up(data.decode(errors="replace").splitlines()[1:] + ["hang"], "hang")
                continue
            some = os.read(self.process.stdout.fileno(), 1 << 16)
            data += some
            if not self.ready and (b"\n" in data or not some):
                first, _, data = data.partition(b"\n")
                if not self.greet(first):
                    yield self.give_up(["start " + (first.decode(errors="replace").strip() or "gone")], "crash")
                    return
                yield None
            begin = 0
            while self.process is not None and (last := LAST.search(data, begin)):
                lines = data[begin:last.start()].decode(errors="replace").splitlines()[1:]
                begin = last.end()
                lines = self.settle(lines, last)
                at += 1
                self.calls = scripts[min(at, len(scripts) - 1)]
                limit = time.monotonic() + 6 * self.seconds + 15
                yield lines
            data = data[begin:]
            if not some and self.process is not None:
                yield self.give_up(data.decode(errors="replace").splitlines()[1:] + ["gone"], "gone")
