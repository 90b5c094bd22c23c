# SPDX-License-Identifier: Apache-2.0
"""What a guest printed, as rows; and rows as the report that ctest's own would be."""

import dataclasses
import re
import xml.etree.ElementTree as ElementTree

import dma

ROW = re.compile(r"(pass|fail|skip) (.+?)(?: -- (.*))?$")
PROMISE = re.compile(r"dma (\d+) (.+) -- (read|write) (\d+) (\S+)$")
COUNT = re.compile(r"count (.+) -- (\d+)$")
WINDOW = re.compile(r"window (\S+) (0x[0-9a-f]+) (0x[0-9a-f]+)$")
STATUS = {"pass": "passed", "fail": "failed", "skip": "skipped"}


@dataclasses.dataclass(frozen=True)
class Row:
    status: str  # passed, failed or skipped
    name: str
    why: str = ""


@dataclasses.dataclass
class Output:
    rows: list = dataclasses.field(default_factory=list)
    promises: list = dataclasses.field(default_factory=list)
    windows: dict = dataclasses.field(default_factory=dict)  # name -> (first, last)
    counts: dict = dataclasses.field(default_factory=dict)  # what was counted -> number


def read_output(text):
    output = Output()
    for line in text.splitlines():
        if found := ROW.match(line):
            output.rows.append(Row(STATUS[found.group(1)], found.group(2), found.group(3) or ""))
        elif found := PROMISE.match(line):
            number, row, operation, inside, window = found.groups()
            output.promises.append(dma.Promise(int(number), row, operation, int(inside), window))
        elif found := COUNT.match(line):
            output.counts[found.group(1)] = int(found.group(2))
        elif found := WINDOW.match(line):
            output.windows[found.group(1)] = (int(found.group(2), 16), int(found.group(3), 16))
    return output


def doubled(rows):
    """Names that occur twice: one row would hide the other in a report."""
    names = [row.name for row in rows]
    return sorted({name for name in names if names.count(name) > 1})


def write_junit(path, rows):
    suite = ElementTree.Element("testsuite", name="lab")
    for row in rows:
        case = ElementTree.SubElement(suite, "testcase", name=row.name, status="run")
        if row.status == "skipped":
            case.set("status", "notrun")
            ElementTree.SubElement(case, "skipped", message=row.why)
        elif row.status == "failed":
            case.set("status", "fail")
            ElementTree.SubElement(case, "failure", message=row.why)
        # The summary of `./run check` looks for reasons in the output.
        ElementTree.SubElement(case, "system-out").text = f"skipped: {row.why}" if row.status == "skipped" else row.why
    ElementTree.ElementTree(suite).write(path, encoding="unicode")
