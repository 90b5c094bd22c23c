#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The CPU side, which needs no GPU: what loading, registering, looking up, deciding and small transfers cost.

Prints load times, nanoseconds and heap allocations a call for one thread and for several, and instructions a call.
On the soft GPU, device memory is memory of the host and a copy is a memcpy: such rows show what the library adds, and
nothing of a GPU. `./run bench` runs this.
"""

import argparse
import datetime
import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


def output(command, environment, accepted=(0,)):
    run = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if run.returncode not in accepted:
        sys.exit(f"cpu_suite.py: {command[0]} ended with status {run.returncode}")
    return run.stdout if run.returncode == 0 else ""


def load_times(build, environment):
    lines = output([build / "bin" / "load_times", "--library", build / "lib" / "libcufile.so.0", "--json"], environment)
    return [json.loads(line) for line in lines.splitlines()]


def calls(build, environment, seconds):
    text = output([build / "bin" / "cpu_side", "--benchmark_format=json", f"--benchmark_min_time={seconds}"],
                  environment)
    found = []
    for entry in json.loads(text)["benchmarks"]:
        # "read 4K, host memory/real_time/threads:2"
        name, *_ = entry["name"].split("/")
        row = {"call": name, "threads": entry["threads"]}
        if entry.get("error_occurred"):
            row["error"] = entry["error_message"]
        else:
            row.update(ns=entry["ns"], calls_per_s=1e9 * entry["threads"] / entry["ns"],
                       allocations=entry["allocations"])
        found.append(row)
    return found


def text_of(results):
    lines = [f"{key}: {results[key]}" for key in ("date", "device", "library", "kernel", "processors")]
    if results["soft"]:
        lines.append("No GPU took part: device memory is the soft GPU's, and these rows say nothing about a real one.")
    lines.append("")
    for row in results["load_times"]:
        lines.append(f"{row['row']:<34} load {row['load_us']:8.1f} us, open {row['open_us']:8.1f} us, first "
                     f"registration {row['register_us']:8.1f} us")
    lines.append("")
    for row in results["calls"]:
        head = f"{row['call']:<34} {row['threads']} thread{'s' if row['threads'] > 1 else ' '}"
        lines.append(f"{head} {row['error']}" if "error" in row else
                     f"{head} {row['ns']:10.1f} ns a call {row['calls_per_s'] / 1e6:9.3f} M calls/s "
                     f"{row['allocations']:8.2f} allocations a call")
    lines.append("")
    for call, instructions in results["instructions"].items():
        lines.append(f"{call:<34} {instructions:10.1f} instructions a call")
    if not results["instructions"]:
        lines.append("Instructions were not counted: valgrind is missing.")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="a build folder")
    parser.add_argument("--seconds", type=float, default=0.2, help="of each call (default 0.2)")
    parser.add_argument("--save", nargs="?", type=pathlib.Path, const=HERE / "results", metavar="FOLDER",
                        help="write cpu-DATE.json and cpu-DATE.txt there (default: bench/results)")
    options = parser.parse_args()
    build = options.build.resolve()
    environment = {**os.environ, "LC_ALL": "C"}
    about = json.loads(output([build / "bin" / "cufile_bench", "--about"], environment))
    results = {
        "date": datetime.date.today().isoformat(),
        "device": about["device"],
        "soft": about.get("soft", True),
        "library": about["api"],
        "kernel": about["kernel"],
        "processors": len(os.sched_getaffinity(0)),
        "load_times": load_times(build, environment),
        "calls": calls(build, environment, options.seconds),
        "instructions": json.loads(output([sys.executable, "-B", HERE / "instructions.py", "--json", "--program",
                                           build / "bin" / "fixed_calls"], environment, (0, 77)) or "{}"),
    }
    text = text_of(results)
    print(text, end="")
    if options.save:
        options.save.mkdir(parents=True, exist_ok=True)
        for ending, content in (("json", json.dumps(results, indent=1) + "\n"), ("txt", text)):
            (options.save / f"cpu-{results['date']}.{ending}").write_text(content, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
