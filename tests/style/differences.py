#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each row of docs/reference/differences.md names tests, and each of those exists in tests/contract or tests/fault."""

import re

from project import arguments, finish


def main():
    top = arguments(__doc__).project
    page = (top / "docs/reference/differences.md").read_text(encoding="utf-8")
    files = [path for folder in ("contract", "fault") for path in sorted((top / "tests" / folder).glob("*.cpp"))]
    sources = "\n".join(path.read_text(encoding="utf-8") for path in files)
    defined = {f"{suite}.{name}" for suite, name in re.findall(r"\bTEST(?:_F|_P)?\((\w+),\s*(\w+)\)", sources)}
    complaints = []
    rows = [line for line in page.splitlines() if line.startswith("| ") and not line.startswith("| Situation")]
    for row in rows:
        named = re.findall(r"`(\w+\.\w+)`", row.rsplit("|", 2)[1])
        if not named:
            complaints.append(f"no test is named: {row[:60]}")
        complaints += [f"there is no test {test}" for test in named if test not in defined]
    if len(rows) < 20:
        complaints.append("the table was not found")
    finish(complaints, f"{len(rows)} differences, each with its tests")


main()
