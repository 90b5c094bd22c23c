#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lays out the documentation as it is installed: every link of it leads somewhere.

  make_pages.py --source . --out DIR [--samples PATH]

README.md and its neighbours stand at the top, docs/ below. A link to a file that is not installed (a test, a source) becomes
its text, with the path where the text does not say it. --samples says where the samples are installed, seen from the top.
"""

import argparse
import os
import pathlib
import re
import shutil
import sys

TOP = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE"]
SUFFIXES = {".md", ".svg", ".json"}
LINK = re.compile(r"(?<!!)\[((?:[^\]\[]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
CODE = re.compile(r"^(?:```|~~~).*?^(?:```|~~~)\s*?$|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def chosen(source):
    """The files to install, relative to the top."""
    docs = sorted(path for path in (source / "docs").rglob("*") if path.suffix in SUFFIXES and path.is_file())
    return [pathlib.Path(name) for name in TOP] + [path.relative_to(source) for path in docs]


def with_live_links(page, text, installed, samples):
    """The text of a page whose links to what is not installed have become words."""
    def live(match):
        words, target = match.groups()
        name, _, anchor = target.partition("#")
        if re.match(r"[a-z][a-z0-9+.-]*:", target) or not name:
            return match[0]
        named = pathlib.Path(os.path.normpath(page.parent / name))
        if named in installed or any(named in path.parents for path in installed):
            return match[0]
        if samples and named.parts[0] == "samples":
            there = pathlib.Path(samples, *named.parts[1:])
            return f"[{words}]({os.path.relpath(there, page.parent)}{'#' + anchor if anchor else ''})"
        return words if named.as_posix() in words else f"{words} (`{named.as_posix()}` in the source)"

    # Links inside of code are code.
    kept, end = [], 0
    for code in CODE.finditer(text):
        before = text[end:code.start()]
        if "[" in before and "](" not in before and before.rfind("[") > before.rfind("]"):
            continue  # code within the words of a link
        kept += [LINK.sub(live, before), code[0]]
        end = code.end()
    return "".join(kept + [LINK.sub(live, text[end:])])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--samples", help="where the samples are installed, relative to the top of the pages")
    options = parser.parse_args()
    installed = set(chosen(options.source))
    for path in sorted(installed):
        target = options.out / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":
            text = (options.source / path).read_text(encoding="utf-8")
            target.write_text(with_live_links(path, text, installed, options.samples), encoding="utf-8")
        else:
            shutil.copyfile(options.source / path, target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
