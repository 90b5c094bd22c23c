#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tells which files have changed since the main branch, committed or not: one path a line.

The check looks at these alone where looking at everything takes long. The main branch is origin/main, or main where there
is no remote; --since names another commit. Where the main branch has all that is here, as in a new clone of it, it does not
tell what it had before: what came in the half day up to its last commit counts, and what is not committed. Of commits that
are handed in together, --since names the one before them. The last line of stderr says what was compared with, and why. In
a shallow clone and outside of git there is nothing to compare with: then the exit status is 3, and that line says why.
"""
import argparse
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
UNKNOWN = 3
HALF_A_DAY = 12 * 60 * 60


class Unknown(Exception):
    """There is nothing to compare with."""


def git(*arguments):
    try:
        run = subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise Unknown("git is not installed") from error
    return run.stdout if run.returncode == 0 else None


def half_a_day_before(head):
    """The newest commit that is older than the last one by half a day."""
    commits = [line.split() for line in git("log", "--first-parent", "--format=%H %ct", head).splitlines()]
    newest = int(commits[0][1])
    for commit, time in commits:
        if newest - int(time) >= HALF_A_DAY:
            return commit
    raise Unknown("nothing in this clone is older than its last commit by half a day")


def base_of(since):
    """The commit that a change is held against, and why that one."""
    head = git("rev-parse", "--verify", "--quiet", "HEAD")
    if head is None:
        raise Unknown("this is no clone made by git")
    if since:
        base = git("rev-parse", "--verify", "--quiet", since + "^{commit}")
        if base is None:
            raise Unknown(f"there is no commit {since} in this clone")
        return base.strip(), "as --since says"
    for main in ("origin/main", "main"):
        if git("rev-parse", "--verify", "--quiet", main) is None:
            continue
        base = git("merge-base", main, "HEAD")
        if base is None:
            raise Unknown(f"this clone does not reach back to where the branch left {main}")
        if base == head:
            return half_a_day_before(head.strip()), f"{main} has all of this: the last commit that is older by half a day"
        return base.strip(), f"what {main} has of this"
    raise Unknown("there is no main branch in this clone")


def changed(since=None):
    base, why = base_of(since)
    # Renames count as two files: what has gone matters, too.
    tracked = git("diff", "--name-only", "--no-renames", base)
    untracked = git("ls-files", "--others", "--exclude-standard")
    if tracked is None or untracked is None:
        raise Unknown("git does not tell the differences")
    return base, why, sorted({*tracked.splitlines(), *untracked.splitlines()})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--since", help="a commit, tag or branch to compare with")
    try:
        base, why, paths = changed(parser.parse_args().since)
    except Unknown as reason:
        print(reason, file=sys.stderr)
        return UNKNOWN
    print(f"{len(paths)} files have changed since {base[:12]} ({why})", file=sys.stderr)
    print("\n".join(paths))
    return 0


if __name__ == "__main__":
    sys.exit(main())
