#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every source in C, C++, CUDA and Python says on its first lines under which licence it stands."""

import project

SUFFIXES = (".h", ".cpp", ".c", ".cu", ".cuh", ".py")
FOLDERS = ["bench", "deploy", "examples", "include", "python", "samples", "softgpu", "src", "tests", "tools"]
LINE = "SPDX-License-Identifier: Apache-2.0"
# Parts of the kernel, which stand under its licence.
KERNEL = ("tests/lab/nvfs/", "SPDX-License-Identifier: GPL-2.0")
FEWEST = 500  # sources; with fewer something was lost


def line_of(path):
    return KERNEL[1] if path.as_posix().startswith(KERNEL[0]) else LINE


def main():
    top = project.arguments(__doc__).project.resolve()
    sources = project.files(top, FOLDERS, SUFFIXES)
    complaints = [f"{path}:1: no line \"{line_of(path)}\"" for path in sources
                  if line_of(path) not in (top / path).read_text(encoding="utf-8")[:300]]
    if len(sources) < FEWEST:
        complaints.append(f"only {len(sources)} sources were found")
    project.finish(complaints, f"{len(sources)} sources say their licence")


main()
