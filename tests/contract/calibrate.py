#!/usr/bin/env python3
"""Runs the tests behind rows.txt against two libraries, ours and NVIDIA's, and compares the answers with the rows.

Each test runs in a process of its own, because NVIDIA's library crashes, aborts or hangs in some. A row that says
"same" has to pass on both; a row that says "ours" has to pass on ours and is expected to fail on NVIDIA's. Needs a
machine with a GPU, a udev record for the file system in SLUICE_TEST_DIR (tests/gpu/on_device.sh makes one), and
NVIDIA's libcufile.so.0.

    tests/contract/calibrate.py --program build/release/test-bin/contract_tests \\
        --ours build/release/lib --theirs /usr/local/cuda/lib64 --report calibration.txt

Leaves with 0 when every row is as rows.txt says, 1 when one is not.
"""

import argparse
import collections
import concurrent.futures
import os
import pathlib
import subprocess
import sys

ROWS = pathlib.Path(__file__).with_name("rows.txt")

Row = collections.namedtuple("Row", "section situation kind tests")


def read_rows(path):
    rows = []
    for line in path.read_text().splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        section, situation, kind, what = (part.strip() for part in line.split("|", 3))
        tests = [] if kind == "open" else [name.strip() for name in what.split(",")]
        rows.append(Row(section, situation, kind, tests))
    return rows


def outcome(program, library, test, seconds):
    """passed, skipped, failed, hangs, or how the process died."""
    environment = dict(os.environ, LD_LIBRARY_PATH=str(library))
    try:
        result = subprocess.run([program, f"--gtest_filter={test}:*/{test}/*", "--gtest_brief=0"], env=environment,
                                capture_output=True, text=True, errors="replace", timeout=seconds)
    except subprocess.TimeoutExpired:
        return "hangs", ""
    text = result.stdout + result.stderr
    if result.returncode < 0:
        return f"signal {-result.returncode}", text
    if "[  SKIPPED ]" in text:
        return "skipped", text
    if "[       OK ]" not in text:
        return "failed", text
    return ("passed" if result.returncode == 0 else "failed"), text


def judge(row, ours, theirs):
    """Why the row is not as rows.txt says; empty when it is."""
    if row.kind == "open":
        return "open"
    wrong = []
    if any(state not in ("passed", "skipped") for state in ours):
        wrong.append("ours does not pass")
    if row.kind == "same" and any(state not in ("passed", "skipped") for state in theirs):
        wrong.append("theirs does not pass")
    if row.kind == "ours" and theirs and all(state == "passed" for state in theirs):
        wrong.append("theirs passes, too")
    return "; ".join(wrong)


def first_failure(text):
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if ": Failure" in line:
            return " / ".join(part.strip() for part in lines[number:number + 6])[:300]
    return lines[-1][:200] if lines else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, type=pathlib.Path, help="the contract tests")
    parser.add_argument("--ours", required=True, type=pathlib.Path, help="folder of our libcufile.so.0")
    parser.add_argument("--theirs", required=True, type=pathlib.Path, help="folder of NVIDIA's")
    parser.add_argument("--rows", default=ROWS, type=pathlib.Path)
    parser.add_argument("--report", type=pathlib.Path, help="writes the table here, too")
    parser.add_argument("--seconds", default=40, type=float, help="a test that takes longer hangs")
    parser.add_argument("--jobs", default=4, type=int)
    given = parser.parse_args()

    rows = read_rows(given.rows)
    names = sorted({test for row in rows for test in row.tests})
    with concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
        futures = {(test, library): pool.submit(outcome, given.program, library, test, given.seconds)
                   for test in names for library in (given.ours, given.theirs)}
    found = {key: future.result() for key, future in futures.items()}

    lines = []
    wrong = 0
    for row in rows:
        ours = [found[test, given.ours][0] for test in row.tests]
        theirs = [found[test, given.theirs][0] for test in row.tests]
        complaint = judge(row, ours, theirs)
        wrong += bool(complaint)
        lines.append(f"{'DIFFERS' if complaint else 'ok':8}{row.section} | {row.situation} | {row.kind} | "
                     f"ours {', '.join(ours)} | theirs {', '.join(theirs)}{' | ' + complaint if complaint else ''}")
        for test in row.tests if complaint else ():
            for name, library in (("ours", given.ours), ("theirs", given.theirs)):
                state, text = found[test, library]
                if state not in ("passed", "skipped"):
                    lines.append(f"            {name} {test}: {state}: {first_failure(text)}")
    lines.append(f"{len(rows)} rows, {wrong} not as rows.txt says")
    text = "\n".join(lines) + "\n"
    print(text, end="")
    if given.report:
        given.report.write_text(text)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
