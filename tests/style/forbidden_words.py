#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No word that marks unfinished work, and no path that exists on one machine only, in anything we write."""

import re

import project

FORBIDDEN = [
    (re.compile(r"\b(TODO|FIXME|XXX|HACK|WIP)\b"), "marks unfinished work: finish it, or open an issue"),
    (re.compile(r"\b(for now|not (yet )?implemented|unimplemented|placeholder|lorem ipsum)\b", re.IGNORECASE),
     "speaks of unfinished work: finish it, or say what is so"),
    (re.compile(r"(?<![\w.$})-])/(root|home|Users)/[\w.-]"), "is a path of one machine"),
    (re.compile(r'"library": "/(?!usr/|opt/|lib/|lib64/)[^"]*"'), "is a path of one machine"),
    (re.compile(r"(?<![\w.])[A-Z]:\\\\?Users\b"), "is a path of one machine"),
]

FOLDERS = [".ci", ".github", "bench", "cmake", "deploy", "docs", "examples", "include", "packaging", "python", "samples",
           "softgpu", "src", "tests", "tools"]
SUFFIXES = {"", ".c", ".cmake", ".cpp", ".h", ".in", ".inc", ".json", ".map", ".md", ".py", ".sh", ".txt", ".yml"}
TOP = ["CHANGELOG.md", "CMakeLists.txt", "CMakePresets.json", "CONTRIBUTING.md", "README.md", "run"]

# This folder has to spell out what it forbids.
OWN_FOLDER = "tests/style/"


def complaints_about(path, text):
    for line, content in enumerate(text.splitlines(), start=1):
        for pattern, why in FORBIDDEN:
            match = pattern.search(content)
            if match:
                yield f"{path}:{line}: \"{match.group(0)}\" {why}"


def main():
    top = project.arguments(__doc__).project.resolve()
    paths = project.files(top, [folder for folder in FOLDERS if (top / folder).is_dir()], SUFFIXES)
    paths += [path.relative_to(top) for path in (top / name for name in TOP) if path.is_file()]
    complaints = []
    for path in paths:
        if not path.as_posix().startswith(OWN_FOLDER):
            text = (top / path).read_text(encoding="utf-8", errors="replace")
            complaints.extend(complaints_about(path, text))
    if not paths:
        complaints.append(f"no file found below {top}: is this the project?")
    project.finish(complaints, f"{len(paths)} files are free of forbidden words")


if __name__ == "__main__":
    main()
