#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every source file is named in a CMakeLists.txt: a test that is not built would pass for ever.

A file counts as named when its name, or its name without the ending, stands in the CMakeLists.txt of its own folder
or of a folder above it, or when its folder and name ("support/main.cpp") stand in any.
"""

import re

import project

FOLDERS = ["bench", "deploy", "examples", "samples", "softgpu", "src", "tests", "tools"]


def is_named(source, lists):
    """`lists` maps each folder with a CMakeLists.txt to its text."""
    word = re.compile(rf"(?<![\w.-]){re.escape(source.stem)}(?![\w-])")
    if any(word.search(lists.get(folder, "")) for folder in source.parents):
        return True
    return any("/".join(source.parts[-2:]) in text for text in lists.values())


def main():
    top = project.arguments(__doc__).project.resolve()
    lists = {path.parent: (top / path).read_text(encoding="utf-8")
             for path in project.files(top, ["."], {".txt"}) if path.name == "CMakeLists.txt"}
    sources = project.files(top, [folder for folder in FOLDERS if (top / folder).is_dir()], {".c", ".cpp"})
    complaints = [f"{source}: no CMakeLists.txt names it" for source in sources if not is_named(source, lists)]
    if not sources:
        complaints.append(f"no source found below {top}: is this the project?")
    project.finish(complaints, f"{len(sources)} sources are built")


if __name__ == "__main__":
    main()
