#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every source is formatted by the repository's .clang-format.

Versions of clang-format disagree about details; VERSION decides. Without it the check is skipped. With --fix the
sources are formatted in place.
"""

import concurrent.futures
import os
import re
import shutil
import subprocess

import project

VERSION = 14
AT_A_TIME = 25  # starting the formatter takes longer than what it does
FOLDERS = ["bench", "deploy", "examples", "include", "python", "samples", "softgpu", "src", "tests", "tools"]


def formatter():
    """A clang-format of the right version, or None."""
    for name in (f"clang-format-{VERSION}", "clang-format"):
        path = shutil.which(name)
        if path:
            text = subprocess.run([path, "--version"], text=True, capture_output=True, check=False).stdout
            match = re.search(r"version (\d+)\.", text)
            if match and int(match.group(1)) == VERSION:
                return path
    return None


def main():
    options = project.arguments(__doc__, flags=[("--fix", "format in place")])
    top = options.project.resolve()
    tool = formatter()
    if tool is None:
        project.skip(f"clang-format {VERSION} is not installed (package clang-format or clang-format-{VERSION})")
    suffixes = {".c", ".cpp", ".cu", ".cuh", ".h"}
    sources = project.files(top, [folder for folder in FOLDERS if (top / folder).is_dir()], suffixes)
    manner = ["-i"] if options.fix else ["--dry-run", "-Werror"]

    def complaints_of(some):
        run = subprocess.run([tool, *manner, "--style=file", *(top / source for source in some)], text=True,
                             capture_output=True, check=False)
        firsts = {}
        for line in run.stderr.splitlines():
            place = re.match(r"(.+?):\d+:\d+: (?:error|warning)", line)
            if place:
                firsts.setdefault(place.group(1), line.removeprefix(f"{top}/"))
        found = [f"{line} (clang-format -i {source.removeprefix(f'{top}/')})" for source, line in firsts.items()]
        return found or ([run.stderr] if run.returncode else [])

    helpings = [sources[i : i + AT_A_TIME] for i in range(0, len(sources), AT_A_TIME)]
    with concurrent.futures.ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0))) as pool:
        complaints = [text for texts in pool.map(complaints_of, helpings) for text in texts]
    if not sources:
        complaints.append(f"no source found below {top}: is this the project?")
    project.finish(complaints, f"{len(sources)} files are formatted")


if __name__ == "__main__":
    main()
