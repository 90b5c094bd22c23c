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

LAST = re.compile(rb"(?:^|\n)end(?: us=(\d+) left=(\S+))?\n$")
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
        if len(words) >= 3:
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
        self.counts = collections.Counter()  # starts, start_us, scripts, us, why processes ended

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

    def give_up(self, lines, why):
        """The process has hung or gone: says where, and ends it."""
        global notes
        self.counts[f"{'while starting' if not self.ready else 'in a script'}: {why}"] += 1
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

    def answers(self):
        """The lines of answers; the last one tells of a process that ended or hung."""
        if self.process is None:
            return ["start gone"]
        data = b""
        if not self.ready:
            data, why = self.lines_until(data, lambda data: b"ready" in data and b"\n" in data or LAST.search(data),
                                         START_SECONDS)
            if why or not data.startswith(b"ready"):
                return self.give_up([f"start {why or data.decode(errors='replace').split(chr(10) + 'end')[0].strip()}"],
                                    why or "crash")
            self.ready = True
            first, _, data = data.partition(b"\n")
            _, taken, opened = first.decode(errors="replace").split()
            self.counts["start_us"] += int(taken[3:])
            if opened != "open=0/0":
                self.counts[f"while starting: {opened}"] += 1
        data, why = self.lines_until(data, LAST.search, 6 * self.seconds + 15)
        lines = data.decode(errors="replace").splitlines()[1:]
        if why:
            return self.give_up(lines + [why], why)
        last = LAST.search(data)
        lines.pop()
        if last[1] is None:
            if lines and lines[-1].endswith(" hang"):
                return self.give_up(lines, "hang")
            self.counts[f"in a script: {' '.join(lines[-1].split()[-2:]) if lines else 'nothing'}"] += 1
            self.stop()
            return lines
        self.counts["scripts"] += 1
        self.counts["us"] += int(last[1])
        left = last[2].decode()
        if left not in ("nothing", "life"):
            self.counts[f"left: {left}"] += 1
        if self.alone or left != "nothing":
            self.stop()
        return lines
