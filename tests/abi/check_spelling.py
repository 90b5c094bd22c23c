#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that <cudafile.h> has a cudaFileX for each public cuFileX, and an alias for each public type.

    check_spelling.py cudafile.h cufile.h FACTS...
"""

import pathlib
import re
import sys


def code_of(path):
    return re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)


def main(runtime_header, driver_header, *lists):
    runtime, driver = code_of(runtime_header), code_of(driver_header)
    facts = [line for path in lists for line in path.read_text().splitlines()]
    functions = {fact.split()[1] for fact in facts if fact.startswith("symbol ")}
    functions.discard("cuFileDriverClose_v2")  # cudaFileDriverClose stands for both
    missing = []
    for name in sorted(functions):
        other = name.replace("cuFile", "cudaFile", 1)
        calls = name + "_v2" if name == "cuFileDriverClose" else name
        definition = re.search(rf"static inline [\w ]+\b{other}\([^)]*\) {{([^}}]*)}}", runtime)
        if not definition or f"{calls}(" not in definition[1]:
            missing.append(f"{other}, which calls {calls}")
    types = set(re.findall(r"}\s*((?:CU|cu)\w+);|typedef void\s*\*\s*(\w+);", driver))
    types = {name for pair in types for name in pair if name}
    for name in sorted(types):
        if not re.search(rf"typedef {name} cudaFile\w+;", runtime):
            missing.append(f"an alias of {name}")
    print(f"{len(functions)} functions and {len(types)} types looked for in {runtime_header.name}")
    for what in missing:
        print(f"wrong: {runtime_header.name} lacks {what}")
    return 1 if missing or not functions or not types else 0


if __name__ == "__main__":
    sys.exit(main(*map(pathlib.Path, sys.argv[1:])))
