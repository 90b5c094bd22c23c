# SPDX-License-Identifier: Apache-2.0
"""What the tests of stats, top and exporter share: a program that shows statistics, and reading numbers out of JSON."""
import contextlib
import os
import select
import shutil
import subprocess
import sys
import time

from support import BUILD, SOURCE, environment, scratch, skip_when_sanitized

PROGRAM = SOURCE / "tests/system/stats_program.py"
SIZE = 65536
# One that other users can execute, too.
PYTHON = shutil.which("python3", path="/usr/bin:/bin") or sys.executable


class Program:
    """stats_program.py, and the process in it that answers."""

    def __init__(self, folder, kind="host", prefix=(), libraries=BUILD / "lib", **variables):
        file = folder / "file"
        file.write_bytes(os.urandom(SIZE))
        file.chmod(0o666)
        self.process = subprocess.Popen(
            [*prefix, PYTHON, "-B", PROGRAM, file, kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=environment(LD_LIBRARY_PATH=f"{libraries}:{BUILD}/softgpu", **variables))
        self.pid = self.process.pid

    def do(self, *lines):
        for line in lines:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
            if not select.select([self.process.stdout], [], [], 60)[0]:
                raise AssertionError(f"no answer to {line}")
            answer = self.process.stdout.readline().split()
            if not answer:
                raise AssertionError(f"the program ended at {line}")
            self.pid = int(answer[0])
        return self

    def end(self):
        self.process.stdin.close()
        return self.process.wait(timeout=60)


@contextlib.contextmanager
def program(*words, **variables):
    skip_when_sanitized()
    with scratch() as folder:
        started = Program(folder, *words, **variables)
        try:
            yield started
        finally:
            started.process.stdin.close()
            try:
                started.process.wait(timeout=60)
            finally:
                started.process.kill()
                started.process.stdout.close()


def until(holds):
    deadline = time.monotonic() + 60
    while not holds():
        if time.monotonic() > deadline:
            raise AssertionError("this took longer than a minute")
        os.sched_yield()


def number(answer, name, **labels):
    """The sum of the series of a metric that have these labels; `name` without what all names begin and end with."""
    metrics = answer["metrics"]
    series = metrics.get(f"sluice_{name}_total", metrics.get(f"sluice_{name}", []))
    return sum(each["value"] for each in series if labels.items() <= each.items())
