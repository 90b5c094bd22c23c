# SPDX-License-Identifier: Apache-2.0
"""`sluice top`: in a terminal, in a pipe, and as JSON."""
import contextlib
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

from support import SLUICE, contains, environment, equal, main, run, scratch
from watching import program, until

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """A terminal with `sluice top` in it, and the screen that it has drawn last."""

    def __init__(self, columns=80, lines=24, **variables):
        self.master, slave = pty.openpty()
        self.resize(columns, lines)
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        own = environment(TERM="xterm-256color", **variables)
        own.pop("NO_COLOR", None) if "NO_COLOR" not in variables else None
        self.process = subprocess.Popen([SLUICE, "top", "--interval", "0.1"], stdin=slave, stdout=slave, env=own,
                                        start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self.all = ""

    def resize(self, columns, lines):
        self.columns, self.lines = columns, lines
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def press(self, keys):
        os.write(self.master, keys.encode())

    def read(self):
        if not select.select([self.master], [], [], 60)[0]:
            raise AssertionError("nothing was drawn for a minute")
        with contextlib.suppress(OSError):
            self.all += os.read(self.master, 65536).decode("utf-8", "ignore")

    def screens(self):
        """Whole ones, each as a list of lines; what is still being drawn is none."""
        parts = self.all.split("\x1b[H")[1:]
        return [part.split("\x1b[J")[0].split("\r\n") for part in parts if "\x1b[J" in part]

    def until(self, holds):
        """Draws on until a screen that comes from now on has it. Each is looked at once: a look may press a key."""
        self.all = ""
        last = None
        deadline = time.monotonic() + 60
        while True:
            for last in self.screens():
                text = [ESCAPE.sub("", line).rstrip("\r") for line in last]
                if holds(text):
                    return last, text
            self.all = self.all[self.all.rfind("\x1b[J") + 1:]
            if time.monotonic() > deadline:
                raise AssertionError(f"not within a minute; last: {last}")
            self.read()

    def end(self):
        """Its exit status, when it has left the terminal as it was."""
        while self.process.poll() is None:
            if select.select([self.master], [], [], 0.05)[0]:
                self.read()
        with contextlib.suppress(BlockingIOError):  # a terminal gives 4 KiB at a time at most
            os.set_blocking(self.master, False)
            while True:
                self.all += os.read(self.master, 65536).decode("utf-8", "ignore")
        equal(termios.tcgetattr(self.slave), self.before)
        equal(self.all.endswith("\x1b[?25h\x1b[?1049l"), True)
        return self.process.returncode

    def close(self):
        self.process.kill()
        self.process.wait(timeout=60)
        os.close(self.master)
        os.close(self.slave)


@contextlib.contextmanager
def terminal(*words, **more):
    opened = Terminal(*words, **more)
    try:
        yield opened
    finally:
        opened.close()


def row_of(text, pid):
    return next((line for line in text if line.split()[:1] == [str(pid)]), None)


def test_top_shows_a_line_for_each_process_and_fits_its_terminal():
    with program("device", SLUICE_STATS="1") as started, terminal() as opened:
        started.do("open", "read 100")
        # It may have drawn the process before that had read: then the row has no path yet.
        screen, text = opened.until(lambda text: "posix" in (row_of(text, started.pid) or ""))
        equal(text[0].startswith("sluice top: "), True)
        equal(text[1].split()[:7], ["PID", "PROGRAM", "READ", "WRITE", "P50", "P99", "PATH"])
        equal(row_of(text, started.pid).split()[1], "python3")
        contains(text[-1], "q quit")
        for columns, lines in ((80, 24), (60, 10), (200, 50), (40, 5)):
            opened.resize(columns, lines)
            # Lines of another width come when the size has been seen: the last one is never wider than that.
            _, text = opened.until(lambda text: len(text) <= lines and max(map(len, text)) <= columns and
                                   (columns < 100 or max(map(len, text)) > 100))
        opened.press("q")
        equal(opened.end(), 0)


def test_top_is_steered_by_keys():
    with program("host", SLUICE_STATS="1") as started, terminal(120, 30) as opened:
        started.do("open", "read 10")
        opened.until(lambda text: row_of(text, started.pid) is not None)
        opened.press("p")
        opened.until(lambda text: "PAUSED" in text[0])
        opened.press("p")
        opened.until(lambda text: "PAUSED" not in text[0])
        opened.press("e")

        def chosen():
            return lambda text: any("(python3): " in line or "): " in line for line in text[2:])
        opened.until(chosen())
        for _ in range(50):  # as many as there may be; the last one is chosen at the end
            opened.press("\x1b[B")
        opened.press("kj")
        opened.until(lambda text: row_of(text, started.pid) is not None)
        opened.press("e")
        opened.until(lambda text: not any("): " in line for line in text[2:]))
        opened.press("q")
        equal(opened.end(), 0)


def test_top_explains_what_keeps_a_process_from_a_more_direct_way():
    with program("device", SLUICE_STATS="1") as started, terminal(120, 40) as opened:
        started.do("open", "read 1000")
        # Drawn before it had read, it has no way that could be explained.
        opened.until(lambda text: "posix" in (row_of(text, started.pid) or ""))
        opened.press("e")
        steps = {"taken": 0}  # down and up again: rows of others come and go

        def explained(text):
            if any(f"{started.pid} (python3): soft_gpu: " in line for line in text):
                return True
            opened.press("j" if steps["taken"] // 10 % 2 == 0 else "k")
            steps["taken"] += 1
            return False
        opened.until(explained)
        opened.press("q")
        equal(opened.end(), 0)


def test_top_leaves_the_terminal_as_it_was_when_a_signal_ends_it():
    for sent in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        with terminal() as opened:
            opened.until(lambda text: text[0].startswith("sluice top: "))
            opened.process.send_signal(sent)
            equal(opened.end(), 0)


def test_top_has_colours_in_a_terminal_alone_and_not_where_they_are_not_wanted():
    with program("device", SLUICE_STATS="1") as started:
        started.do("open", "read 10")
        for variables, coloured in (({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True)):
            with terminal(**variables) as opened:
                screen, _ = opened.until(lambda text: row_of(text, started.pid) is not None)
                equal(any("\x1b[3" in line for line in screen), coloured)
                opened.press("q")
                equal(opened.end(), 0)
        plain = run(SLUICE, "top", "--once", "--interval", "0.1").stdout
        equal("\x1b" in plain, False)
        equal(plain.isascii(), True)
        equal(max(map(len, plain.splitlines())) <= 80, True)
        contains(plain, "HISTORY")
        equal(row_of(plain.splitlines(), started.pid) is not None, True)


def test_top_in_a_pipe_is_a_table_each_interval():
    text = run(SLUICE, "top", "--interval", "0.05", "--count", "3").stdout
    equal(text.count("sluice top: "), 3)


def told_while(started, *lines, seconds, holds, **variables):
    """What is told of a process that does these lines all the while. Where the machine gave it too little time in one interval,
    the next one counts."""
    told = []

    def is_told():
        watching = subprocess.Popen([SLUICE, "top", "--interval", str(seconds), "--once", "--json"], stdout=subprocess.PIPE, text=True,
                                    env=environment(**variables))
        while watching.poll() is None:
            started.do(*lines)
        answer = json.loads(watching.communicate(timeout=60)[0])
        (own,) = [each for each in answer["processes"] if each["pid"] == started.pid]
        told.append(own)
        return holds(own)
    until(is_told)
    return told[-1]


def test_top_once_as_json_tells_rates_latencies_the_way_and_the_share_of_the_link():
    with program("device", SLUICE_STATS="1") as started:
        started.do("open", "read 1")
        own = told_while(started, "read 200", "write 20", seconds=1, holds=lambda own: own["read_bytes_per_second"] >
                         own["written_bytes_per_second"] > 0)
        equal((own["program"], own["ended"], own["level"], own["path"], own["reason"]), ("python3", False, 1, "posix", "soft_gpu"))
        equal(0 < own["p50_seconds"] <= own["p99_seconds"], True)
        (gpu,) = own["gpus"]
        equal((gpu["gpu"], gpu["UUID"]), (0, "GPU-736c7569-6365-2d73-6f66-746770752d00"))
        equal(gpu["bytes_per_second"] > 0, True)
        # The soft GPU sits on no bus that this machine has.
        equal(gpu["link_share"], None)


def test_the_share_of_the_link_is_that_of_the_gpus_place_on_the_bus():
    with program("device", SLUICE_STATS="1") as started, scratch() as folder:
        started.do("open", "read 1")
        # Where the soft GPU says that it sits.
        place = folder / "5347:01:00.0"
        place.mkdir()
        for speed, width, expected in (("32.0 GT/s PCIe", "16", 63015384615), ("16.0 GT/s PCIe", "8", 15753846153),
                                       ("2.5 GT/s PCIe", "1", 250000000), ("Unknown", "16", None), ("64.0 GT/s PCIe", "16", 121000000000)):
            (place / "max_link_speed").write_text(speed + "\n")
            (place / "current_link_width").write_text(width + "\n")
            env = environment(SLUICE_TEST_PCI_DEVICES=str(folder))
            answer = json.loads(run(SLUICE, "stats", started.pid, "--json", "--level", "3", env=env).stdout)
            links = answer["metrics"].get("sluice_device_link_bytes_per_second", [])
            equal([link["value"] for link in links], [] if expected is None else [expected])
        own = told_while(started, "read 50", seconds=0.5, holds=lambda own: own["read_bytes_per_second"] > 0,
                         SLUICE_TEST_PCI_DEVICES=str(folder))
        (gpu,) = own["gpus"]
        equal(abs(gpu["link_share"] - gpu["bytes_per_second"] / 121e9) < 1e-9, True)


def test_top_says_what_to_do_where_nothing_shows_statistics():
    # Of one look: between two, another test may have started a process that shows some.
    text = run(SLUICE, "top", "--once", "--interval", "0.05", env=environment(COLUMNS="70")).stdout
    if re.match(r"sluice top: (\d+) process", text)[1] != "0":
        return  # something else of this machine does
    contains(text, "SLUICE_STATS=1")
    equal(max(map(len, text.splitlines())) <= 70, True)


def test_top_refuses_what_makes_no_sense():
    for count in ("0", "-1", "x"):
        contains(run(SLUICE, "top", "--count", count, status=2, timeout=10).stderr, "--count: takes a whole number, 1 or more")
    for words in (("--interval", "0"), ("--interval", "-1"), ("--interval", "nan"), ("--interval", "4000")):
        contains(run(SLUICE, "top", "--once", *words, status=2).stderr, "--interval")


if __name__ == "__main__":
    main(globals())
