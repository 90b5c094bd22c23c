#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Looks at a built shared library from outside, with nm and readelf.

    check_library.py exports LIBRARY --list FACTS... --header sluice.h   what it shows is the public set, unversioned
    check_library.py needs LIBRARY [--soname NAME]                       what it asks of the machine that loads it

Prints what it found; each finding that breaks a promise is a line that begins with "wrong:", and the exit status is 1.
"""

import argparse
import pathlib
import re
import subprocess
import sys

# What may be needed at load time: glibc, libstdc++, libgcc.
ALLOWED_LIBRARIES = re.compile(
    r"(libc|libm|libpthread|librt|libdl)\.so\.6|libpthread\.so\.0|librt\.so\.1|libdl\.so\.2"
    r"|libstdc\+\+\.so\.6|libgcc_s\.so\.1|ld-linux-[\w-]+\.so\.\d")
# The newest symbol versions that may be needed: Debian 12 and Ubuntu 22.04 and all that came later have them.
NEWEST_VERSIONS = {"GLIBC": (2, 34), "GLIBCXX": (3, 4, 29), "CXXABI": (1, 3, 13), "GCC": (11,)}
MOST_COMPLAINTS = 20

wrong = []


def complain(sentence):
    wrong.append(sentence)


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def exported(nm, library):
    """The names of the dynamic symbol table that the library defines, with their versions where they have one."""
    lines = output_of(nm, "-D", "--defined-only", library).splitlines()
    return [line.split()[-1] for line in lines if line.strip()]


def symbols_of_lists(lists):
    return {line.split()[1] for path in lists for line in path.read_text().splitlines() if line.startswith("symbol ")}


def functions_of_header(header):
    code = re.sub(r"/\*.*?\*/|//[^\n]*", "", header.read_text(), flags=re.DOTALL)
    return set(re.findall(r"\b(sluice_\w+)\s*\(", code))


def check_exports(arguments):
    public = symbols_of_lists(arguments.list)
    own = functions_of_header(arguments.header)
    found = set()
    for name in exported(arguments.nm, arguments.library):
        bare, at, version = name.partition("@")
        found.add(bare)
        if at:
            complain(f"{bare} is exported with the version {version.lstrip('@')}; programs ask for it without one")
    for name in sorted(public - found):
        complain(f"{name} is public and not exported")
    for name in sorted(own - found):
        complain(f"{name} is declared in {arguments.header.name} and not exported")
    for name in sorted(found - public - own):
        complain(f"{name} is exported and declared nowhere; src/exports.map lets it through")
    print(f"{len(found & public)} of {len(public)} public functions and {len(found & own)} of {len(own)} sluice_ functions "
          f"exported, {len(found - public - own)} others")


def check_needs(arguments):
    dynamic = output_of(arguments.readelf, "-dW", arguments.library)
    for tag, name in re.findall(r"\((NEEDED|SONAME|RPATH|RUNPATH)\).*\[(.*)\]", dynamic):
        print(f"{tag} {name}")
        if tag == "NEEDED" and not ALLOWED_LIBRARIES.fullmatch(name):
            complain(f"{name} is needed at load time; only glibc, libstdc++ and libgcc may be")
        if tag in ("RPATH", "RUNPATH"):
            complain(f"{tag} {name}: the library must be found and find others in the usual places")
        if tag == "SONAME" and arguments.soname and name != arguments.soname:
            complain(f"SONAME is {name}, programs ask for {arguments.soname}")
    if arguments.soname and "(SONAME)" not in dynamic:
        complain(f"there is no SONAME; programs ask for {arguments.soname}")

    # "Name: GLIBC_2.34" stands in the section of needed versions alone; exported versions have other sections.
    versions = output_of(arguments.readelf, "-VW", arguments.library)
    needed = sorted(set(re.findall(r"Name: (\w+_[\w.]+)\s+Flags: .*Version: \d+", versions)))
    if not needed:
        complain("no needed symbol version could be read; is this a shared library of a glibc system?")
    for version in needed:
        family, _, number = version.rpartition("_")
        newest = NEWEST_VERSIONS.get(family)
        print(f"version {version}")
        if newest is None or not re.fullmatch(r"[\d.]+", number):
            complain(f"{version} is a symbol version of an unknown family")
        elif tuple(map(int, number.split("."))) > newest:
            complain(f"{version} is newer than {family}_{'.'.join(map(str, newest))}; find the symbol with "
                     f"`objdump -T {arguments.library.name} | grep {version}`")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("check", choices=["exports", "needs"])
    parser.add_argument("library", type=pathlib.Path)
    parser.add_argument("--list", type=pathlib.Path, nargs="+", default=[])
    parser.add_argument("--header", type=pathlib.Path)
    parser.add_argument("--soname")
    parser.add_argument("--nm", default="nm")
    parser.add_argument("--readelf", default="readelf")
    arguments = parser.parse_args()
    {"exports": check_exports, "needs": check_needs}[arguments.check](arguments)
    for sentence in wrong[:MOST_COMPLAINTS]:
        print(f"wrong: {sentence}")
    if len(wrong) > MOST_COMPLAINTS:
        print(f"and {len(wrong) - MOST_COMPLAINTS} more")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
