# SPDX-License-Identifier: Apache-2.0
"""What the style checks share: the project's files, and how a check ends."""

import argparse
import pathlib
import sys

SKIPPED = 77

# Never ours: what a build or a tool leaves behind.
GENERATED_FOLDERS = {".git", ".cache", "build", "__pycache__"}


def arguments(description, *more, flags=()):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--project", type=pathlib.Path, required=True, help="the top of the source tree")
    for name, help_text in flags:
        parser.add_argument(name, action="store_true", help=help_text)
    for name, help_text in more:
        parser.add_argument(name, required=True, help=help_text)
    return parser.parse_args()


def files(project, folders, suffixes):
    """All files below the given folders with one of the suffixes, sorted; paths relative to the project."""
    found = []
    for folder in folders:
        for path in sorted((project / folder).rglob("*")):
            relative = path.relative_to(project)
            if path.suffix in suffixes and path.is_file() and not GENERATED_FOLDERS & set(relative.parts):
                found.append(relative)
    return found


def finish(complaints, good):
    """Prints every complaint, or the good news, and leaves with the matching status."""
    for complaint in complaints:
        print(complaint)
    if complaints:
        print(f"{len(complaints)} violation(s)")
        sys.exit(1)
    print(good)
    sys.exit(0)


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)
