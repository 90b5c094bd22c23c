#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Works for hours and tells what grows: the model of tests/model, 10,000 handles, registrations, 1,000 threads, children
of fork, closes of the driver, round after round in one process.

  ./run soak                       half an hour
  ./run soak --hours 4             longer
  ./run soak --folder DIR          with its files there (build)

After each round it tells what the process holds: memory, what of it is allocated, descriptors, threads, pinned bytes; at
the end their slopes, where there were twenty rounds. Fails where something grows by more than chance, or where anything is
not as it has to be.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

import slopes

SOFT_GPU = "softgpu"


def parse_arguments():
    parser = argparse.ArgumentParser(prog="./run soak", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=0.5, help="how long (0.5)")
    parser.add_argument("--folder", type=pathlib.Path, help="for the files that are read and written (build)")
    parser.add_argument("--only", nargs="+", default=[], metavar="BURDEN",
                        help="to find out which makes it grow: model, handles, buffers, threads, children")
    parser.add_argument("--rounds", type=int, default=0, help="no more rounds than these")
    parser.add_argument("--small", action="store_true", help="little of everything, to see that it works")
    parser.add_argument("--json", action="store_true", help="a summary for machines, as the last line")
    parser.add_argument("--build", type=pathlib.Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def shown(sample):
    seconds, memory, allocated, descriptors, threads, pinned = sample
    return (f"{seconds:8.0f} s  memory {memory / slopes.MEBI:7.1f} MiB  allocated {allocated / slopes.MEBI:6.2f} MiB  "
            f"descriptors {descriptors:4.0f}  "
            f"threads {threads:3.0f}  pinned {pinned / slopes.MEBI:6.1f} MiB")


def main():
    asked = parse_arguments()
    build = asked.build.resolve()
    folder = (asked.folder or build).resolve()
    # The allocator gives large pieces back to the system when they are freed; as it is, what it keeps of them for later
    # grows for hours without being in use. What each thread's allocator keeps at hand would count as held, too.
    environment = dict(os.environ, LD_LIBRARY_PATH=str(build / SOFT_GPU), MALLOC_MMAP_THRESHOLD_="131072",
                       MALLOC_ARENA_MAX="2", GLIBC_TUNABLES="glibc.malloc.tcache_count=0")
    seconds = asked.hours * 3600
    command = [build / "test-bin/soak", folder, str(int(seconds)), str(asked.rounds), "small" if asked.small else "whole"]
    command += asked.only
    samples, last = [], time.monotonic()
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, cwd=folder) as process:
        for line in process.stdout:
            samples.append(tuple(float(word) for word in line.split()))
            if len(samples) == 1 or time.monotonic() - last > 60:
                print(shown(samples[-1]), flush=True)
                last = time.monotonic()
    told = slopes.judged(samples)
    for name, (by_hour, rise, allowed) in told.items():
        unit = slopes.MEBI if name in ("memory", "allocated", "pinned") else 1
        print(f"{name:12} {by_hour / unit:+9.2f} {'MiB ' if unit > 1 else ''}an hour, {rise / unit:+.2f} in all "
              f"({allowed / unit:g} allowed)")
    bad = slopes.grown(told)
    print(f"{len(samples)} rounds, {samples[-1][0] if samples else 0:.0f} s: " +
          (f"the program ended with {process.returncode}" if process.returncode else
           f"GROWS: {', '.join(bad)}" if bad else "nothing grows" if told else "too few rounds to tell what grows"))
    if asked.json:
        print(json.dumps({"rounds": len(samples), "status": process.returncode, "grows": bad,
                          "slopes": {name: by_hour for name, (by_hour, _, _) in told.items()}}))
    return 1 if process.returncode or bad or not samples else 0


if __name__ == "__main__":
    sys.exit(main())
