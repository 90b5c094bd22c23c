#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each test that docs/reference/security.md names exists."""

import re

from project import arguments, finish

FEWEST = 10  # rows; with fewer something was lost


def main():
    top = arguments(__doc__).project
    page = (top / "docs/reference/security.md").read_text(encoding="utf-8")
    sources = "\n".join(path.read_text(encoding="utf-8") for folder in ("tests", "python", "deploy")
                        for suffix in ("*.cpp", "*.py") for path in sorted((top / folder).rglob(suffix)))
    tests = {f"{suite}.{name}" for suite, name in re.findall(r"\bTEST(?:_F|_P)?\((\w+),\s*(\w+)\)", sources)}
    tests |= set(re.findall(r"^ *def (test_\w+)", sources, re.MULTILINE))
    complaints, rows = [], 0
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) != 6 or cells[4] in ("test", "---"):
            continue
        rows += 1
        for name in re.findall(r"`([^`]+)`", cells[4]):
            if not (name in tests or (top / name).exists()):
                complaints.append(f"docs/reference/security.md: there is no test {name}")
    if rows < FEWEST:
        complaints.append(f"only {rows} rows were found")
    finish(complaints, f"{rows} rows name tests that exist")


main()
