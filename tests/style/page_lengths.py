#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pages stay short enough to be read: one of docs/internals has 120 lines at most, and docs/performance.md 150."""

import project

PAGES = {"docs/internals/*.md": 120, "docs/performance.md": 150}


def main():
    top = project.arguments(__doc__).project.resolve()
    complaints, count = [], 0
    for pattern, most in PAGES.items():
        for page in sorted(top.glob(pattern)):
            count += 1
            lines = page.read_text(encoding="utf-8").count("\n")
            if lines > most:
                complaints.append(f"{page.relative_to(top)}: has {lines} lines, and {most} are the most")
    if not count:
        complaints.append(f"no page found below {top}: is this the project?")
    project.finish(complaints, f"{count} pages are short enough")


main()
