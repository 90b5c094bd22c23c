#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Instructions per call, counted by callgrind: exact where nanoseconds waver. Counted are those of the library alone
(it is linked into the program), not those of the C library, the kernel or the driver.

  instructions.py --program build/release/bin/fixed_calls [--json]

77: valgrind is missing.
"""

import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

COUNTS = (200, 1200)


def own_cost(profile, program):
    """The instructions that a callgrind profile ascribes to functions of the program itself, calls not included."""
    names, current, skip, total = {}, "", False, 0
    for line in profile.splitlines():
        match = re.match(r"ob=\((\d+)\)(?: (.*))?$", line)
        if match:
            if match.group(2):
                names[match.group(1)] = match.group(2)
            current = names[match.group(1)]
        elif line.startswith("cob="):
            number, _, name = line[4:].partition(" ")
            if name:
                names[number.strip("()")] = name
        elif line.startswith("calls="):
            skip = True  # the next line is the cost inside of the call
        elif re.match(r"[+\-*\d]", line):
            if not skip and pathlib.Path(current).name == program.name:
                total += int(line.split()[1])
            skip = False
    return total


def run(program, call, count):
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder, "profile")
        done = subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", program, call, str(count)],
                              capture_output=True, text=True, timeout=300, check=False)
        if done.returncode != 0:
            sys.exit(f"instructions.py: {call}: {done.stderr[-500:]}")
        return own_cost(out.read_text(encoding="utf-8", errors="replace"), program)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, required=True)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if shutil.which("valgrind") is None:
        print("instructions.py: valgrind is missing (package valgrind): instructions are not counted", file=sys.stderr)
        return 77
    calls = subprocess.run([options.program], capture_output=True, text=True, check=True).stdout.split()
    program = options.program.resolve()
    few, many = COUNTS
    counted = {call: round((run(program, call, many) - run(program, call, few)) / (many - few), 1) for call in calls}
    if options.json:
        print(json.dumps(counted))
    else:
        for call, instructions in counted.items():
            print(f"{call:<18} {instructions:10.1f} instructions a call")
    return 0


if __name__ == "__main__":
    sys.exit(main())
