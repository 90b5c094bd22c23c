#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns a list of ABI facts into macro calls, one a fact, for list_holds.inc to include.

    generate_assertions.py LIST OUTPUT

A line that is neither a fact nor a comment ends the build: no line may pass without being asserted.
"""

import pathlib
import re
import sys

NAME = r"(\w+)"
NUMBER = r"(\d+)"
FORMS = [
    (re.compile(rf"sizeof {NAME} {NUMBER} align {NUMBER}"), "ABI_SIZEOF({0}, {1}, {2})"),
    (re.compile(rf"offset {NAME}\.([\w.]+) {NUMBER} size {NUMBER}"), "ABI_OFFSET({0}, {1}, {2}, {3})"),
    (re.compile(rf"value {NAME} {NUMBER}"), "ABI_VALUE({0}, {1})"),
    (re.compile(rf"symbol {NAME}"), "ABI_SYMBOL({0})"),
]


def assertion(fact):
    for pattern, macro_call in FORMS:
        match = pattern.fullmatch(fact)
        if match:
            return macro_call.format(*match.groups())
    return None


def main(list_path, output_path):
    lines = [f"/* Made from {list_path.name} by generate_assertions.py. */"]
    for number, text in enumerate(list_path.read_text().splitlines(), start=1):
        if not text.strip() or text.startswith("#"):
            continue
        macro_call = assertion(text.strip())
        if macro_call is None:
            sys.exit(f"{list_path}:{number}: not a fact: {text!r}. A fact begins with sizeof, offset, value or symbol.")
        lines.append(macro_call)
    output_path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(*(pathlib.Path(argument) for argument in sys.argv[1:3]))
