#!/usr/bin/env python3
"""Runs clang-tidy over the product's sources, those alone that have changed since they were last found clean.

A file is remembered as clean by a stamp in BUILD/tidy whose name is a hash over everything that the verdict depends
on: the rules, the tool, the command line, the source and every header of ours that it includes.
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
FOLDERS = ("src", "softgpu", "tools")


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


def our_sources(build):
    """Source -> its entry in compile_commands.json; one is enough when several targets compile it."""
    sources = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = pathlib.Path(entry["file"])
        if path.suffix == ".cpp" and path.is_relative_to(ROOT) and path.relative_to(ROOT).parts[0] in FOLDERS:
            sources.setdefault(path, entry)
    return sources


def object_of(entry):
    if "output" in entry:
        return entry["output"]
    words = entry["command"].split()
    return words[words.index("-o") + 1]


def key_of(rules, source, entry, headers):
    """None when ninja knows no headers for it: then it is checked every time."""
    files = headers.get(object_of(entry))
    if not files:
        return None
    digest = hashlib.sha256(rules + entry["command"].encode())
    for path in sorted({source, *(file for file in files if file.is_relative_to(ROOT))}):
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="a build folder that was built")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--tool", default="clang-tidy")
    options = parser.parse_args()
    build = options.build.resolve()
    stamps = build / "tidy"
    stamps.mkdir(exist_ok=True)

    version = subprocess.run([options.tool, "--version"], capture_output=True, check=True).stdout
    rules = version + (ROOT / ".clang-tidy").read_bytes()
    headers = included_headers(build)
    keys = {source: key_of(rules, source, entry, headers) for source, entry in our_sources(build).items()}
    open_files = sorted(source for source, key in keys.items() if key is None or not (stamps / key).exists())

    def check(source):
        # By the full path: the checkout may itself lie below a folder that is called src.
        ours = f"^{re.escape(str(ROOT))}/({'|'.join(FOLDERS)})/"
        command = [options.tool, "-p", build, "--quiet", f"--header-filter={ours}", source]
        return source, subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    failed = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for source, result in pool.map(check, open_files):
            if result.returncode == 0:
                if keys[source] is not None:
                    (stamps / keys[source]).touch()
                continue
            failed += 1
            print(f"-- {source.relative_to(ROOT)}\n{result.stdout}", flush=True)
    print(f"clang-tidy: {len(keys)} files, {len(open_files)} checked now, {failed} with findings")
    return 1 if failed or not keys else 0


if __name__ == "__main__":
    sys.exit(main())
