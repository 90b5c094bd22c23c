#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the Debian packages, from a copy of the sources in a folder of its own.

    package.py --out dist                         packages for this machine
    package.py --arch arm64 --without-csi         for another architecture, by its cross compiler
    package.py --lintian                          and lets lintian look at them

Their bytes depend on the sources and on the compiler alone. debhelper does the work: packaging/debian says what goes where.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import textwrap
import time

import source

DEBIAN = source.TOP / "packaging/debian"
# What a package is built with, to be named where it is missing; debian/control has the exact list.
TOOLS = {"dpkg-buildpackage": "dpkg-dev", "dh": "debhelper", "cmake": "cmake", "ninja": "ninja-build"}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./run package", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=source.TOP / "dist", help="where the packages go")
    parser.add_argument("--work", type=pathlib.Path, default=source.TOP / "build/package", help="where they are built")
    parser.add_argument("--arch", help="Debian's name of the architecture (default: this machine's)")
    parser.add_argument("--without-csi", action="store_true", help="leave out sluice-csi, which needs gRPC")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="compilations at a time")
    parser.add_argument("--lintian", action="store_true", help="let lintian look at them; what it finds is an error")
    parser.add_argument("--maintainer", metavar="'NAME <MAIL>'", help="who answers for these packages (default: debian/control's)")
    parser.add_argument("--cmake", action="append", default=[], metavar="OPTION", help="one more option of CMake")
    return parser.parse_args()


def native_arch() -> str:
    return subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True, check=True).stdout.strip()


def is_installed(package: str) -> bool:
    found = subprocess.run(["dpkg-query", "-Wf", "${db:Status-Status}", package], capture_output=True, text=True, check=False)
    return found.stdout == "installed"


def points(text: str, heading: str) -> "list[str]":
    """The points below one heading of CHANGELOG.md, each as one line; none where it has no such heading."""
    section = re.search(rf"^## {re.escape(heading)}\b[^\n]*\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return [] if section is None else [re.sub(r"\s+", " ", point).strip() for point in re.findall(r"^- (.*?)(?=^- |\Z)", section[1], re.MULTILINE | re.DOTALL)]


MAINTAINER = re.compile(r"(?<=^Maintainer: ).*$", re.MULTILINE)


def changelog(maintainer: str) -> str:
    """debian/changelog: one entry, made of CHANGELOG.md's newest section."""
    text = (source.TOP / "CHANGELOG.md").read_text(encoding="utf-8")
    found = (not source.is_release() and points(text, "Unreleased")) or points(text, source.version())
    lines = [textwrap.fill(point, 76, initial_indent="  * ", subsequent_indent="    ", break_long_words=False,
                           break_on_hyphens=False) for point in found or ["Nothing that users notice."]]
    date = time.strftime("%a, %d %b %Y %H:%M:%S +0000", time.gmtime(source.epoch()))
    return f"sluice ({source.full_version()}-1) unstable; urgency=medium\n\n" + "\n".join(lines) + f"\n\n -- {maintainer}  {date}\n"


def environment(tree: pathlib.Path, options: argparse.Namespace) -> "dict[str, str]":
    """What a build sees: nothing of the caller's own, but for the compiler's cache."""
    env = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "CCACHE_DISABLE") if name in os.environ}
    env |= {"LC_ALL": "C.UTF-8", "TZ": "UTC", "DEB_BUILD_OPTIONS": f"parallel={options.jobs}",
            "SLUICE_CMAKE_OPTIONS": " ".join(options.cmake)}
    if shutil.which("ccache"):
        place = subprocess.run(["ccache", "-k", "cache_dir"], capture_output=True, text=True, check=True).stdout.strip()
        # Whatever the caller's settings for it say, it rewrites no paths, and takes nothing that was compiled in another
        # folder: these are other bytes.
        env |= {"CCACHE_DIR": place, "CCACHE_BASEDIR": "", "CCACHE_HASHDIR": "true", "CMAKE_C_COMPILER_LAUNCHER": "ccache",
                "CMAKE_CXX_COMPILER_LAUNCHER": "ccache"}
    return env


def lay_out(tree: pathlib.Path, named: "str | None" = None) -> None:
    """The sources with debian/ in them, as dpkg-buildpackage takes them."""
    source.lay_out(tree)
    # Without the times of files, of which a package shows those that are older than its sources' last change.
    shutil.copytree(DEBIAN, tree / "debian", copy_function=shutil.copy)
    control = (DEBIAN / "control").read_text(encoding="utf-8")
    maintainer = named or MAINTAINER.search(control)[0]
    (tree / "debian/control").write_text(MAINTAINER.sub(lambda _: maintainer, control), encoding="utf-8")
    (tree / "debian/changelog").write_text(changelog(maintainer), encoding="utf-8")


def build(options: argparse.Namespace) -> "list[pathlib.Path]":
    """The packages, with debug symbols apart, and what dpkg says of the build."""
    arch = options.arch or native_arch()
    place = options.work.resolve() / arch
    shutil.rmtree(place, ignore_errors=True)
    tree = place / f"sluice-{source.version()}"
    lay_out(tree, options.maintainer)

    profiles, env = [], environment(tree, options)
    if not options.without_csi and arch != native_arch() and not is_installed(f"libgrpc++-dev:{arch}"):
        print(f"package.py: without sluice-csi, since libgrpc++-dev:{arch} is not installed", file=sys.stderr)
        options.without_csi = True
    if options.without_csi:
        profiles.append("pkg.sluice.nocsi")
    if arch != native_arch():
        profiles += ["cross", "nocheck"]
        env["DEB_BUILD_OPTIONS"] += " nocheck"
    command = ["dpkg-buildpackage", "--build=binary", "--no-sign", f"--host-arch={arch}"]
    command += [f"--build-profiles={','.join(profiles)}"] if profiles else []
    # Cross compilers' packages and build profiles of other architectures are the caller's affair.
    command += ["--no-check-builddeps"] if arch != native_arch() else []
    log = place / "build.log"
    os.umask(0o022)
    with log.open("wb") as out:
        status = subprocess.run(command, cwd=tree, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out, check=False).returncode
    if status != 0:
        print(*log.read_text(encoding="utf-8", errors="replace").splitlines()[-40:], sep="\n", file=sys.stderr)
        sys.exit(f"package.py: dpkg-buildpackage returned {status}; the whole log is {log}")
    return sorted([*place.glob("*.deb"), *place.glob("*.ddeb"), *place.glob("*.buildinfo"), *place.glob("*.changes")])


def main() -> int:
    options = arguments()
    missing = [f"{tool} ({package})" for tool, package in TOOLS.items() if shutil.which(tool) is None]
    if missing:
        sys.exit(f"package.py: these programs are missing: {', '.join(missing)}; ./run package installs them")
    made = build(options)
    options.out.mkdir(parents=True, exist_ok=True)
    for path in made:
        shutil.copyfile(path, options.out / path.name)
        if path.suffix in (".deb", ".ddeb"):
            print(f"{options.out / path.name}: {path.stat().st_size / 1e6:.1f} MB")
    if options.lintian:
        changes = next(path for path in made if path.suffix == ".changes")
        return subprocess.run(["lintian", "--no-cfg", "--display-info", "--fail-on", "error,warning,info", "--allow-root", str(changes)], check=False).returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
