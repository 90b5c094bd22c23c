#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pages stay short enough to be read: one of docs/internals has 120 lines at most, and docs/performance.md 150. So that
lines stay lines, none of their text is wider than 140 columns, tables and what is fenced apart."""

import project

PAGES = {"docs/internals/*.md": 120, "docs/performance.md": 150}
WIDEST = 140


def too_wide(text):
    """Numbers of lines of prose that are."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            fenced = not fenced
        if len(line) > WIDEST and not fenced and not line.startswith(("|", "#", "!", "<")):
            yield number


def main():
    top = project.arguments(__doc__).project.resolve()
    complaints, count = [], 0
    for pattern, most in PAGES.items():
        pages = sorted(top.glob(pattern))
        count += len(pages)
        if not pages:
            complaints.append(f"there is no {pattern} below {top}: is this the project?")
        for page in pages:
            text = page.read_text(encoding="utf-8")
            lines = text.count("\n")
            if lines > most:
                complaints.append(f"{page.relative_to(top)}: has {lines} lines, and {most} are the most")
            complaints += [f"{page.relative_to(top)}:{number}: is wider than {WIDEST} columns" for number in too_wide(text)]
    project.finish(complaints, f"{count} pages are short enough")


main()
