#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `sluice exporter` costs: processor time a scrape, over processes that count and that others beside.

  bench/exporter_cost.py [--build build/release] [--processes 20] [--scrapes 40] [--interval 15]

The processes have read and written device memory (of the soft GPU, where no other driver is) in all ways that they can. Tells
the time of one scrape, and what part of one core scrapes each --interval seconds take.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.request

PROJECT = pathlib.Path(__file__).resolve().parent.parent


def processor_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def start(build, folder, number):
    file = folder / f"file{number}"
    file.write_bytes(os.urandom(65536))
    variables = {**os.environ, "SLUICE_STATS": "3", "LD_LIBRARY_PATH": f"{build}/lib:{build}/softgpu"}
    process = subprocess.Popen([sys.executable, "-B", PROJECT / "tests/system/stats_program.py", file, "device"], env=variables,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for line in ("open", "read 100", "write 20", "batch 16", "fail 2"):
        process.stdin.write(line + "\n")
        process.stdin.flush()
        if not process.stdout.readline():
            sys.exit(f"a process ended at {line}")
    return process


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=PROJECT / "build/release")
    parser.add_argument("--processes", type=int, default=20)
    parser.add_argument("--scrapes", type=int, default=40)
    parser.add_argument("--interval", type=float, default=15)
    options = parser.parse_args()
    build = options.build.resolve()
    processes = []
    with tempfile.TemporaryDirectory() as name:
        try:
            processes += [start(build, pathlib.Path(name), number) for number in range(options.processes)]
            exporter = subprocess.Popen([build / "bin/sluice", "exporter", "--listen", "127.0.0.1:0"], stderr=subprocess.PIPE,
                                        text=True)
            processes.append(exporter)
            url = re.search(r"http\S+", exporter.stderr.readline())[0]
            text = urllib.request.urlopen(url, timeout=60).read()
            before, begun = processor_seconds(exporter.pid), time.monotonic()
            for _ in range(options.scrapes):
                text = urllib.request.urlopen(url, timeout=60).read()
            took = (time.monotonic() - begun) / options.scrapes
            spent = (processor_seconds(exporter.pid) - before) / options.scrapes
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                process.wait()
    others = sum(each.isdigit() for each in os.listdir("/proc"))
    print(f"{options.processes} processes that count, {others} others: a scrape of {len(text) / 1024:.0f} KiB takes "
          f"{took * 1e3:.1f} ms, {spent * 1e3:.1f} ms of them of a processor: {100 * spent / options.interval:.3f} % of a core "
          f"at {options.interval:g} s")


if __name__ == "__main__":
    main()
