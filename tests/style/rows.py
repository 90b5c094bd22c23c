#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each row of tests/contract/rows.txt names tests that exist, or says why it is open. A test of a "same" row holds
nothing that we do differently: it stands in no row of another kind, and docs/reference/differences.md does not name it."""

import re

from project import arguments, finish

KINDS = ("same", "ours", "varies", "open")
FEWEST = 100  # rows; with fewer something was lost


def defined_tests(top):
    sources = [path.read_text(encoding="utf-8") for folder in ("contract", "fault")
               for path in sorted((top / "tests" / folder).glob("*.cpp"))]
    return {f"{suite}.{name}" for text in sources
            for suite, name in re.findall(r"\bTEST(?:_F|_P)?\((\w+),\s*(\w+)\)", text)}


def main():
    top = arguments(__doc__).project
    defined = defined_tests(top)
    differences = set(re.findall(r"`(\w+\.\w+)`", (top / "docs/reference/differences.md").read_text(encoding="utf-8")))
    lines = (top / "tests/contract/rows.txt").read_text(encoding="utf-8").splitlines()
    complaints = []
    kinds = {}  # test -> kind of the rows that name it
    rows = {kind: 0 for kind in KINDS}
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith("#"):
            continue
        parts = [part.strip() for part in line.split("|")]
        if len(parts) != 4 or parts[2] not in KINDS or not all(parts):
            complaints.append(f"rows.txt:{number}: not \"section | situation | {'/'.join(KINDS)} | tests\"")
            continue
        kind = parts[2]
        rows[kind] += 1
        if kind == "open":
            continue
        for test in parts[3].split(", "):
            if test not in defined:
                complaints.append(f"rows.txt:{number}: there is no test {test}")
            if kinds.setdefault(test, kind) != kind:
                complaints.append(f"rows.txt:{number}: {test} stands for \"{kinds[test]}\" and for \"{kind}\": split it")
            if kind == "same" and test in differences:
                complaints.append(f"rows.txt:{number}: {test} holds a difference (docs/reference/differences.md): split it")
    if sum(rows.values()) < FEWEST:
        complaints.append(f"only {sum(rows.values())} rows were found")
    finish(complaints, f"{rows['same']} rows are the same, {rows['ours']} ours, {rows['varies']} varying, {rows['open']} open")


main()
