#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tells which files have changed since the main branch, committed or not: one path a line.

The check looks at these alone where looking at everything takes long. The main branch is origin/main, or main where there
is no remote; --since names another commit. On the main branch itself it is the last commit that counts, and what is not
committed. In a shallow clone and outside of git there is nothing to compare with: then the exit status is 3, and the last
line of stderr says why.
"""
import argparse
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
UNKNOWN = 3


class Unknown(Exception):
    """There is nothing to compare with."""


def git(*arguments):
    try:
        run = subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise Unknown("git is not installed") from error
    return run.stdout if run.returncode == 0 else None


def base_of(since):
    """The commit that a change is held against."""
    head = git("rev-parse", "--verify", "--quiet", "HEAD")
    if head is None:
        raise Unknown("this is no clone made by git")
    if since:
        base = git("rev-parse", "--verify", "--quiet", since + "^{commit}")
        if base is None:
            raise Unknown(f"there is no commit {since} in this clone")
        return base.strip()
    for main in ("origin/main", "main"):
        if git("rev-parse", "--verify", "--quiet", main) is None:
            continue
        base = git("merge-base", main, "HEAD")
        if base is None:
            raise Unknown(f"this clone does not reach back to where the branch left {main}")
        if base == head:
            base = git("rev-parse", "--verify", "--quiet", "HEAD^")
            if base is None:
                raise Unknown(f"this clone holds one commit of {main}")
        return base.strip()
    raise Unknown("there is no main branch in this clone")


def changed(since=None):
    base = base_of(since)
    # Renames count as two files: what has gone matters, too.
    tracked = git("diff", "--name-only", "--no-renames", base)
    untracked = git("ls-files", "--others", "--exclude-standard")
    if tracked is None or untracked is None:
        raise Unknown("git does not tell the differences")
    return base, sorted({*tracked.splitlines(), *untracked.splitlines()})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--since", help="a commit, tag or branch to compare with")
    try:
        base, paths = changed(parser.parse_args().since)
    except Unknown as why:
        print(why, file=sys.stderr)
        return UNKNOWN
    print(f"{len(paths)} files have changed since {base[:12]}", file=sys.stderr)
    print("\n".join(paths))
    return 0


if __name__ == "__main__":
    sys.exit(main())
