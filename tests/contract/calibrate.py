#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the tests behind rows.txt against two libraries, ours and NVIDIA's, and compares the answers with the rows.

Each test runs in a process of its own, because NVIDIA's library crashes, aborts or hangs in some; many run at a time.
A row that says "same" has to pass on both; a row that says "ours" has to pass on ours, and none of its tests may pass
on NVIDIA's; of a row that says "varies" only ours has to pass. Now and then NVIDIA's library hangs, or fails, where it
does not the next time: what it does against a row that says "same" is asked again, alone, and told below. Needs root
(scratch file systems, a udev record for the disk, without which that library refuses files), a GPU, and NVIDIA's
libcufile.so.0. With a folder that tests/gpu/pack.sh has made, every row on a machine with 16 cores, in at most 150 s:

    tests/contract/calibrate.py --tests FOLDER/test-bin --ours FOLDER/lib --theirs /usr/local/cuda/lib64 \\
        --report calibration.txt

Where the time was up, or the script was told to end (SIGTERM), the table says which rows were not run; --match runs
some of them alone. Here, on the soft GPU, our library can stand in for theirs, with LD_LIBRARY_PATH=BUILD/softgpu and
more time: the rows marked "ours" differ then, and no others.

Leaves with 0 when every row is as rows.txt says, 1 when one is not, 3 when none is known to be otherwise but some were
not run.
"""

import argparse
import collections
import concurrent.futures
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROWS = HERE / "rows.txt"
SCRATCH_FS = HERE.parent / "support/scratch_fs.sh"
PROGRAMS = ("contract_tests", "fault_tests", "life_tests")  # where the tests of the rows are

PASSED, SKIPPED, FAILED, MISSING, NOT_RUN = "passed", "skipped", "failed", "there is no such test", "not run"
DIFFERS, OPEN = "DIFFERS", "open"

Row = collections.namedtuple("Row", "section situation kind tests")
Answer = collections.namedtuple("Answer", "state text")


def read_rows(path):
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        section, situation, kind, what = (part.strip() for part in line.split("|", 3))
        tests = [] if kind == "open" else [name.strip() for name in what.split(",")]
        rows.append(Row(section, situation, kind, tests))
    return rows


class Places:
    """Scratch file systems, and what udev would tell of the disk and of the raw device, while the scope lasts.

    The disk's own folder is where most tests work: of the file systems on loop devices NVIDIA's library knows nothing.
    """

    def __init__(self, disk):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="calibrate-", dir=disk)).resolve()
        self.file = self.folder / "list"
        self.records = []

    def __enter__(self):
        made = subprocess.run([SCRATCH_FS, "up", self.folder / "scratch"], capture_output=True, text=True, check=True)
        lines = [line for line in made.stdout.splitlines() if not re.match(r"(ext4|xfs)=", line)]
        self.file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        self.tell_udev(os.stat(self.folder).st_dev, "E:ID_FS_TYPE=ext4\nE:ID_FS_USAGE=filesystem\n")
        for line in lines:
            if line.startswith("loop="):
                self.tell_udev(os.stat(line.partition("=")[2]).st_rdev, "")
        return self

    def __exit__(self, *_):
        for record in self.records:
            record.unlink(missing_ok=True)
        for folder in ("/run/udev/data", "/run/udev"):
            if self.records and os.path.isdir(folder) and not os.listdir(folder):
                os.rmdir(folder)
        subprocess.run([SCRATCH_FS, "down", self.folder / "scratch"], capture_output=True, check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def write_record(self, path, text):
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            self.records.append(path)

    def tell_udev(self, device, text):
        self.write_record(pathlib.Path("/run/udev/control"), "")
        self.write_record(pathlib.Path(f"/run/udev/data/b{os.major(device)}:{os.minor(device)}"), text)


def environment_with(library, **more):
    search = [str(library.resolve()), os.environ.get("LD_LIBRARY_PATH", "")]
    return dict(os.environ, LD_LIBRARY_PATH=":".join(filter(None, search)), **more)


def programs_of_tests(folder, library):
    """Suite.Test -> the program that has it, whether with parameters or without."""
    found = {}
    for program in (folder.resolve() / name for name in PROGRAMS):
        if not program.exists():  # its rows say that there are no such tests
            continue
        listed = subprocess.run([program, "--gtest_list_tests"], env=environment_with(library), capture_output=True,
                                text=True, check=True).stdout
        suite = ""
        for line in listed.splitlines():
            if re.match(r"\S+\.(\s|$)", line):
                suite = line.split()[0].rpartition("/")[2]
            elif line.startswith("  "):
                found[suite + line.split()[0].partition("/")[0]] = program
    return found


def state_of(status, text, library):
    loaded = re.search(r"^libcufile (.+)$", text, re.MULTILINE)
    if loaded and not pathlib.Path(loaded[1]).resolve().parent.samefile(library):
        return f"loaded {loaded[1]}"
    if status < 0:
        return f"signal {-status}"
    good = text.count("[       OK ]")
    if status != 0:
        return FAILED
    if good == 0:
        return SKIPPED if "[  SKIPPED ]" in text else MISSING
    return PASSED


class Runner:
    def __init__(self, given, places):
        self.programs = programs_of_tests(given.tests, given.ours)
        self.seconds = given.seconds
        self.ends = time.monotonic() + given.budget
        self.places = places

    def stop(self, *_):
        """What has not ended now counts as not run: the table still tells of the rest."""
        self.ends = time.monotonic()

    def wait(self, process, begun):
        """The process's status; None when its time, or that of all, is up."""
        while True:
            until = min(begun + self.seconds, self.ends)
            try:
                return process.wait(min(0.5, max(0.0, until - time.monotonic())))
            except subprocess.TimeoutExpired:
                if time.monotonic() >= until:
                    return None

    def answer(self, library, test):
        """What the test said with this library; in a session of its own, so that all it started can be ended."""
        if test not in self.programs:
            return Answer(MISSING, "")
        begun = time.monotonic()
        if begun >= self.ends:
            return Answer(NOT_RUN, "")
        environment = environment_with(library, SLUICE_TEST_PLACES=str(self.places.file))
        with tempfile.TemporaryDirectory(dir=self.places.folder) as folder, \
                tempfile.TemporaryFile("w+", errors="replace") as output:
            process = subprocess.Popen([self.programs[test], f"--gtest_filter={test}:*/{test}/*"], env=environment,
                                       cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                       start_new_session=True)
            try:
                status = self.wait(process, begun)
            finally:
                try:
                    os.killpg(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                process.wait()
            output.seek(0)
            text = output.read()
        if status is None:
            return Answer("hangs" if time.monotonic() - begun >= self.seconds else NOT_RUN, text)
        return Answer(state_of(status, text, library), text)

    def answers(self, tests, libraries, jobs):
        # The longest first.
        order = sorted(tests, key=lambda test: (not test.startswith("Large."), test))
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            futures = {(test, name): pool.submit(self.answer, library, test)
                       for test in order for name, library in libraries.items()}
            return {key: future.result() for key, future in futures.items()}


def judge(row, ours, theirs):
    """Why the row is not as rows.txt says; empty when it is."""
    if NOT_RUN in ours + theirs:
        return "the time was up"
    wrong = []
    if any(state not in (PASSED, SKIPPED) for state in ours):
        wrong.append("ours does not pass")
    if row.kind == "same" and any(state not in (PASSED, SKIPPED) for state in theirs):
        wrong.append("theirs does not pass")
    if row.kind == "ours" and PASSED in theirs:
        wrong.append("theirs passes, too")
    return "; ".join(wrong)


def failures(text, most=4):
    """The first failures, a line each, with the traces that say where in the test; else the last line."""
    found = []
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if not line.endswith(": Failure"):
            continue
        block = []
        for part in lines[number:number + 16]:
            if not part.strip() or part.startswith("["):
                break
            block.append(part.strip())
        found.append(re.sub(r"\S*/(?=\w+\.cpp:)", "", " / ".join(block))[:500])
    if not found and lines:
        found = [lines[-1][:200]]
    more = [f"({len(found) - most} more)"] if len(found) > most else []
    return found[:most] + more


def ask_again(runner, rows, answers, theirs, times=3):
    """What NVIDIA's library does against a row that says "same": test -> what it did at first, where it did not again."""
    changed = {}
    for test in (test for row in rows if row.kind == "same" for test in row.tests):
        first = answers[test, "theirs"]
        for _ in range(times):
            if answers[test, "theirs"].state in (PASSED, SKIPPED, NOT_RUN):
                break
            again = runner.answer(theirs, test)
            if again.state == NOT_RUN:
                break
            answers[test, "theirs"] = again
        if answers[test, "theirs"].state != first.state:
            changed[test] = first.state
    return changed


def describe(rows, answers, libraries, changed):
    """The table's lines, and how many rows are what."""
    lines = []
    tally = collections.Counter()
    for row in rows:
        states = {name: [answers[test, name].state for test in row.tests] for name in libraries}
        complaint = "" if row.kind == "open" else judge(row, states["ours"], states["theirs"])
        verdict = OPEN if row.kind == "open" else "ok"
        if complaint:
            verdict = NOT_RUN if complaint == "the time was up" else DIFFERS
        elif row.tests and set(states["ours"] + states["theirs"]) == {SKIPPED}:
            verdict = SKIPPED
        tally[verdict] += 1
        shown = " | ".join(f"{name} {', '.join(found)}" for name, found in states.items()) if row.tests else "no test"
        lines.append(f"{verdict:8}{row.section} | {row.situation} | {row.kind} | {shown}"
                     f"{' | ' + complaint if complaint else ''}")
        lines += [f"            theirs {test}: {changed[test]} at first; asked again, it was otherwise"
                  for test in row.tests if test in changed]
        for test in row.tests if verdict == DIFFERS else ():
            for name in libraries:
                state, text = answers[test, name]
                if state not in (PASSED, SKIPPED):
                    lines += [f"            {name} {test}: {state}: {failure}" for failure in failures(text)]
    lines.append(f"{len(rows)} rows: " + ", ".join(f"{count} {verdict}" for verdict, count in tally.items()))
    return lines, tally


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tests", required=True, type=pathlib.Path, help="folder of the test programs")
    parser.add_argument("--ours", required=True, type=pathlib.Path, help="folder of our libcufile.so.0")
    parser.add_argument("--theirs", required=True, type=pathlib.Path, help="folder of NVIDIA's")
    parser.add_argument("--rows", default=ROWS, type=pathlib.Path)
    parser.add_argument("--match", default="", help="only rows in whose line this regular expression is found")
    parser.add_argument("--report", type=pathlib.Path, help="writes the table here, too")
    parser.add_argument("--disk", default=pathlib.Path("/var/tmp"), type=pathlib.Path, help="a folder on ext4 or xfs")
    parser.add_argument("--seconds", default=40, type=float, help="a test that takes longer hangs")
    parser.add_argument("--budget", default=140, type=float, help="seconds for all tests together")
    parser.add_argument("--jobs", default=os.cpu_count(), type=int)
    given = parser.parse_args()

    kind = subprocess.run(["stat", "-f", "-c", "%T", given.disk], capture_output=True, text=True, check=True).stdout
    if kind.strip() not in ("ext2/ext3", "xfs"):
        parser.error(f"{given.disk} is on {kind.strip()}, where NVIDIA's library takes no file: name a --disk")
    libraries = {"ours": given.ours, "theirs": given.theirs}
    for folder in libraries.values():
        if not (folder / "libcufile.so.0").exists():
            parser.error(f"there is no libcufile.so.0 in {folder}")
    rows = [row for row in read_rows(given.rows) if re.search(given.match, " | ".join(row[:3]))]
    tests = {test for row in rows for test in row.tests}
    with Places(given.disk) as places:
        runner = Runner(given, places)
        signal.signal(signal.SIGTERM, runner.stop)
        answers = runner.answers(tests, libraries, given.jobs)
        changed = ask_again(runner, rows, answers, given.theirs)
    lines, tally = describe(rows, answers, libraries, changed)
    text = "\n".join(lines) + "\n"
    print(text, end="")
    if given.report:
        given.report.write_text(text, encoding="utf-8")
    if tally[DIFFERS]:
        return 1
    return 3 if tally[NOT_RUN] else 0


if __name__ == "__main__":
    sys.exit(main())
