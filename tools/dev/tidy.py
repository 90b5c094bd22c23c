#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs clang-tidy over the product's sources, where anything has changed since they were last found clean.

It reads what the compiler read: where the build compiles the sources of a folder as one file, so does this, and nearly
all of the work, which is in the system's headers, is done once a folder.

What was compiled is remembered as clean by a stamp in BUILD/tidy whose name is a hash over everything that the verdict
depends on: the rules, the tool, the command line, the sources and every header of ours that they include.

With --changed, only what a change touches is looked at (tools/dev/changed.py makes that list of files): the sources in it, and
for each other file in it one source that includes it, of its own folder if there is one. What a header does to everything
else that includes it is seen without --changed, as in `./run check --full`. A change of the rules touches all.
"""
import argparse
import concurrent.futures
import hashlib
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("src", "softgpu", "tools", "deploy/csi/core", "deploy/csi/server")
COMPILER_WARNINGS = ("-Wreserved-identifier", "-Wreserved-macro-identifier")
# The file that stands for a folder includes sources, as nothing else does.
ONE_FOR_ALL = "-bugprone-suspicious-include"


def is_ours(path):
    return any(path.is_relative_to(ROOT / folder) for folder in FOLDERS)


def included_headers(build):
    """Object file -> the files that it was made from, as ninja has recorded them."""
    listing = subprocess.run(["ninja", "-C", build, "-t", "deps"], capture_output=True, text=True, check=True).stdout
    headers, current = {}, None
    for line in listing.splitlines():
        if line.startswith("    "):
            current.append((build / line.strip()).resolve())
        elif ": #deps" in line:
            current = headers.setdefault(line.split(": #deps")[0], [])
    return headers


def sources_in(path):
    """The sources of ours that a compiled file stands for."""
    if is_ours(path):
        return [path] if path.suffix == ".cpp" else []
    if "Unity" not in path.parts:
        return []
    included = re.findall(r'^#include "(.+\.cpp)"$', path.read_text(), re.MULTILINE)
    return [source for source in map(pathlib.Path, included) if is_ours(source)]


def compiled_files(build):
    """Compiled file -> its entry in compile_commands.json, so that each source occurs in one of them."""
    compiled, seen = {}, set()
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = pathlib.Path(entry["file"])
        new = set(sources_in(path)) - seen
        if new:
            compiled[path] = entry
            seen |= new
    return compiled, seen


def object_of(entry):
    if "output" in entry:
        return entry["output"]
    words = entry["command"].split()
    return words[words.index("-o") + 1]


def key_of(rules, path, entry, headers):
    """None when ninja knows no headers for it: then it is checked every time."""
    files = headers.get(object_of(entry))
    if not files:
        return None
    digest = hashlib.sha256(rules + entry["command"].encode())
    for file in sorted({path, *(file for file in files if file.is_relative_to(ROOT))}):
        digest.update(str(file).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def touched(made_of, changed):
    """Of the compiled files those to look at for these changed ones. made_of: compiled file -> its sources and its headers."""
    if ROOT / ".clang-tidy" in changed:
        return set(made_of)
    found = {path for path, (sources, _) in made_of.items() if not changed.isdisjoint({path, *sources})}
    for file in sorted(changed):
        including = [path for path, (_, headers) in made_of.items() if file in headers]
        if including and found.isdisjoint(including):
            # Where no neighbour includes it, the one that is read fastest.
            found.add(min(including, key=lambda path: (
                file.parent not in {source.parent for source in made_of[path][0]}, len(made_of[path][1]), path)))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="a build folder that was built")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--tool", default="clang-tidy")
    parser.add_argument("--changed", type=pathlib.Path, help="a list of files, one a line; only what these touch is checked")
    options = parser.parse_args()
    build = options.build.resolve()
    stamps = build / "tidy"
    stamps.mkdir(exist_ok=True)

    version = subprocess.run([options.tool, "--version"], capture_output=True, check=True).stdout
    rules = version + (ROOT / ".clang-tidy").read_bytes() + pathlib.Path(__file__).read_bytes()
    headers = included_headers(build)
    compiled, sources = compiled_files(build)
    keys = {path: key_of(rules, path, entry, headers) for path, entry in compiled.items()}
    looked_at = set(compiled)
    if options.changed:
        changed = {ROOT / line for line in options.changed.read_text().splitlines()}
        looked_at = touched({path: (sources_in(path), set(headers.get(object_of(entry), []))) for path, entry in compiled.items()},
                            changed)
    # Those that take longest first.
    open_files = sorted((path for path in looked_at if keys[path] is None or not (stamps / keys[path]).exists()),
                        key=lambda path: -len(headers.get(object_of(compiled[path]), [])))

    def check(path):
        # By the full path: the checkout may itself lie below a folder that is called src.
        ours = f"^{re.escape(str(ROOT))}/({'|'.join(FOLDERS)})/"
        command = [options.tool, "-p", build, "--quiet", f"--config-file={ROOT}/.clang-tidy", f"--header-filter={ours}",
                   *(f"--extra-arg={warning}" for warning in COMPILER_WARNINGS)]
        if not is_ours(path):
            command.append(f"--checks={ONE_FOR_ALL}")
        return path, subprocess.run([*command, path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    failed = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for path, result in pool.map(check, open_files):
            if result.returncode == 0:
                if keys[path] is not None:
                    (stamps / keys[path]).touch()
                continue
            failed += 1
            names = ", ".join(str(source.relative_to(ROOT)) for source in sources_in(path))
            print(f"-- {names}\n{result.stdout}", flush=True)
    print(f"clang-tidy: {len(sources)} sources, compiled as {len(compiled)} files; {len(looked_at)} of these to be judged, "
          f"{len(open_files)} checked now, {failed} with findings")
    return 1 if failed or not sources else 0


if __name__ == "__main__":
    sys.exit(main())
