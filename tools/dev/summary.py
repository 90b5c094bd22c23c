#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sums up `./run check`: its steps and the tests of every build.

  summary.py DIR [PART...]

Reads DIR/PART.steps (lines "passed|failed|skipped, name, reason" with bars between) and DIR/PART.xml (what ctest wrote).
Prints what failed, what was skipped and why, which of the parts that are named have left neither, and closes with
"N passed, N failed, N skipped". Fails when anything did.
"""
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree

# How tests say why they skip: a line "skipped: REASON" or "SKIP: REASON", or what GoogleTest prints.
SKIP_LINE = re.compile(r"^\s*skip(?:ped)?:\s*(.+)$", re.IGNORECASE | re.MULTILINE)
GTEST_SKIP = re.compile(r": Skipped\n(.+)$", re.MULTILINE)
# A part of a test that was left out: "skipped ext4: needs root".
PART_LINE = re.compile(r"^skipped (\S[^:\n]*): (.+)$", re.MULTILINE)
# How many cases a program of GoogleTest's has run.
GTEST_PASSED = re.compile(r"^\[  PASSED  \] (\d+) tests?\.$", re.MULTILINE)


def reason_of(output):
    for pattern in (SKIP_LINE, GTEST_SKIP):
        found = pattern.search(output)
        if found:
            return found.group(1).strip()
    return "no reason was given"


def read_steps(folder):
    return [tuple(line.split("|", 2)) for steps in sorted(folder.glob("*.steps")) for line in steps.read_text().splitlines()]


def read_tests(folder):
    """Returns (status, name, reason) of every test, the parts that passing tests left out, and the number of cases that
    ran within them."""
    results, parts, cases = [], {}, 0
    for report in sorted(folder.glob("*.xml")):
        build = report.stem
        for case in ElementTree.parse(report).getroot().iter("testcase"):
            name = f"{case.get('name')} ({build})"
            output = case.findtext("system-out") or ""
            if case.find("skipped") is not None:
                results.append(("skipped", name, reason_of(output)))
            elif case.find("failure") is not None or case.get("status") != "run":
                results.append(("failed", name, "its output stands above"))
            else:
                results.append(("passed", name, ""))
                for part, reason in PART_LINE.findall(output):
                    parts[f"{part} ({build})"] = reason
                # Programs of contract tests are run in many ways, most of which are not for all of their cases; these are.
                if case.get("name") == "unit":
                    parts.update({f"a case of {name}: {reason}": "" for reason in GTEST_SKIP.findall(output)})
                cases += sum(map(int, GTEST_PASSED.findall(output)))
    return results, parts, cases


def main():
    folder = pathlib.Path(sys.argv[1])
    tests, parts, cases = read_tests(folder)
    results = read_steps(folder) + tests
    count = {status: sum(result[0] == status for result in results) for status in ("passed", "failed", "skipped")}
    print("\nSummary")
    for status in ("failed", "skipped"):
        for result in results:
            if result[0] == status:
                print(f"  {status}: {result[1]}: {result[2]}")
    for part, reason in sorted(parts.items()):
        print(f"  left out within tests: {part}{': ' if reason else ''}{reason}")
    left = [part for part in sys.argv[2:] if not any((folder / f"{part}{end}").exists() for end in (".steps", ".xml"))]
    if left:
        print(f"  not run yet: {', '.join(left)}")
    print(f"  {cases} cases ran within the tests that passed")
    print(f"{count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped")
    return 1 if count["failed"] or not count["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
