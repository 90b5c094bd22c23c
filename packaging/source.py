#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The sources as they are given away: which files, of which version, of which time; as a folder or as an archive.

    source.py --out dist            makes dist/sluice-VERSION.tar.gz, whose bytes depend on the sources alone

The version stands in CMakeLists.txt and nowhere else. What git calls the sources, and the time of their last change, go into
the archive as packaging/description, since it has no git.
"""

from __future__ import annotations

import argparse
import gzip
import io
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import time

TOP = pathlib.Path(__file__).resolve().parents[1]
DESCRIPTION = pathlib.Path("packaging/description")
LEFT_OUT = {".git", "build", "dist", "__pycache__"}


def git(*words: str) -> str:
    return subprocess.run(["git", "-C", str(TOP), *words], capture_output=True, text=True, check=True).stdout


def has_git() -> bool:
    return (TOP / ".git").exists()


def version() -> str:
    text = (TOP / "CMakeLists.txt").read_text(encoding="utf-8")
    return re.search(r"project\(Sluice VERSION ([\d.]+)", text)[1]


def description() -> str:
    """What git calls the sources; "unknown" where nothing tells."""
    if (TOP / DESCRIPTION).exists():
        return (TOP / DESCRIPTION).read_text(encoding="utf-8").splitlines()[0]
    if not has_git():
        return "unknown"
    return git("describe", "--tags", "--always", "--dirty", "--abbrev=12", "--match", "v[0-9]*").strip()


def epoch() -> int:
    """The time of the last change: SOURCE_DATE_EPOCH, what the archive says, the last commit."""
    if os.environ.get("SOURCE_DATE_EPOCH"):
        return int(os.environ["SOURCE_DATE_EPOCH"])
    if (TOP / DESCRIPTION).exists():
        return int((TOP / DESCRIPTION).read_text(encoding="utf-8").splitlines()[1])
    return int(git("log", "-1", "--format=%ct")) if has_git() else 0


def is_release() -> bool:
    return description() == f"v{version()}"


def full_version() -> str:
    """Of a released version its number; else one that sorts behind it and before the next, by time."""
    if is_release():
        return version()
    commit, _, dirty = re.sub(r"^v[\d.]+-\d+-g", "", description()).partition("-")
    moment = time.strftime("%Y%m%d%H%M", time.gmtime(epoch()))
    return f"{version()}+git{moment}.{commit[:8]}{'.dirty' if dirty else ''}"


def files() -> "list[pathlib.Path]":
    """What git keeps, as it lies in the folder; without git everything that no build has made."""
    if has_git() and not (TOP / DESCRIPTION).exists():
        named = [pathlib.Path(name) for name in git("ls-files", "-z").split("\0") if name]
        return sorted(path for path in named if (TOP / path).is_file())
    return sorted(path.relative_to(TOP) for path in TOP.rglob("*")
                  if path.is_file() and not LEFT_OUT & set(path.relative_to(TOP).parts) and path.relative_to(TOP) != DESCRIPTION)


def contents() -> "list[tuple[str, bytes, int]]":
    """(name, bytes, mode) of every file."""
    found = [(path.as_posix(), (TOP / path).read_bytes(), 0o755 if os.access(TOP / path, os.X_OK) else 0o644)
             for path in files()]
    return sorted(found + [(DESCRIPTION.as_posix(), f"{description()}\n{epoch()}\n".encode(), 0o644)])


def lay_out(folder: pathlib.Path) -> None:
    for name, data, mode in contents():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        path.chmod(mode)


def archive(path: pathlib.Path) -> None:
    """A tar archive whose bytes depend on the contents alone."""
    top, moment = path.name.removesuffix(".tar.gz"), epoch()
    with path.open("wb") as file, gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) as packed, \
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, data, mode in contents():
            about = tarfile.TarInfo(f"{top}/{name}")
            about.size, about.mode, about.mtime = len(data), mode, moment
            tar.addfile(about, io.BytesIO(data))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=TOP / "dist", help="where the archive goes")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / f"sluice-{full_version()}.tar.gz"
    archive(path)
    print(f"{path}: {path.stat().st_size / 1e6:.1f} MB, of {description()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
