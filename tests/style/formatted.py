#!/usr/bin/env python3
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
FOLDERS = ["bench", "examples", "include", "samples", "softgpu", "src", "tests", "tools"]


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

    def complaint(source):
        run = subprocess.run([tool, *manner, "--style=file", top / source], text=True, capture_output=True, check=False)
        first = run.stderr.splitlines()[0].removeprefix(f"{top}/") if run.stderr else ""
        return f"{first} (clang-format -i {source})" if run.returncode else None

    with concurrent.futures.ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0))) as pool:
        complaints = [text for text in pool.map(complaint, sources) if text]
    if not sources:
        complaints.append(f"no source found below {top}: is this the project?")
    project.finish(complaints, f"{len(sources)} files are formatted")


if __name__ == "__main__":
    main()
