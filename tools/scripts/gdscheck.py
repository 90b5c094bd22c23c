#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gdscheck.py: gdscheck under the name that scripts call. All options are gdscheck's; `gdscheck.py -h` tells them."""

import os
import pathlib
import shutil
import sys


def main():
    beside = pathlib.Path(__file__).resolve().parent / "gdscheck"
    program = str(beside) if os.access(beside, os.X_OK) else shutil.which("gdscheck")
    if program is None:
        print("gdscheck.py: gdscheck is neither beside this file nor on PATH.\n"
              "             Install Sluice again: its bin folder is incomplete.", file=sys.stderr)
        return 1
    # Combined letters, as in -pvV, are the same to gdscheck as apart.
    os.execv(program, [program, *sys.argv[1:]])
    return 1


if __name__ == "__main__":
    sys.exit(main())
