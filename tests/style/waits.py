#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A loop that yields is not a wait: in src nothing calls sched_yield or std::this_thread::yield but base/spin_backoff.h,
whose yields are over after a fraction of a millisecond and sleep from then on."""

import re

from project import arguments, files, finish

ALLOWED = "src/base/spin_backoff.h"
YIELDS = re.compile(r"\bsched_yield\s*\(|this_thread::yield\s*\(")


def main():
    top = arguments(__doc__).project
    complaints = []
    sources = files(top, ["src"], {".h", ".cpp"})
    for path in sources:
        if path.as_posix() == ALLOWED:
            continue
        for number, line in enumerate((top / path).read_text(encoding="utf-8").splitlines(), 1):
            if YIELDS.search(line):
                complaints.append(f"{path}:{number}: yields as a wait; sleep on what is waited for, or base::Backoff")
    finish(complaints, f"none of {len(sources)} sources waits by yielding")


main()
