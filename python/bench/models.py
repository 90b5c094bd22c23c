#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares loaders of model files, in turns, and finds out what ours should do.

  models.py make KIND FOLDER [--layers N] [--files N]    writes a model: dense (16 GB, 4 files), experts (61 GB, 16 files,
                                                         18,867 tensors), one (15 GB, 1 file), small (8,000 tensors)
  models.py compare FOLDER [--pairs 10] [--json FILE]    every loader that is installed, each in a process of its own;
                                                         a turn loads once by each, every second turn in reverse order
  models.py all FOLDER --disk FOLDER --out FILE          all rows with one command: 16 GB, 61 GB, one file, small tensors
                                                         in FOLDER (tmpfs), and 16 GB on the disk, in the page cache and
                                                         not; needs 64 GB in FOLDER and 16 GB on the disk, made and
                                                         removed row by row; --rows takes some, and FILE keeps the
                                                         others that it has; chart.py draws the file
  models.py explore FOLDER [--seconds 120]               which engine, slices, threads, ways of making tensors
  models.py report FILE                                  the tables of what compare or all has written

The first load of each process is told apart. Memory is given back between loads. Every byte on the device is compared
with the file once for each loader, outside the time. A real GPU and PyTorch are needed. The package is the one that is
installed, or else the one of this repository, which has no extension: install the wheel for numbers that count.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import datetime
import importlib.util
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time
import typing

HERE = pathlib.Path(__file__).resolve().parent
if importlib.util.find_spec("sluice") is None:  # not installed: the package of this repository
    sys.path.append(str(HERE.parent))
OURS = "sluice"
STANDARD = ("sluice", "sluice_cufile", "sluice_staged", "sluice_into", "sluice_iterate", "safetensors", "safetensors_pread", "threads_of_pread",
            "plain_cufile", "fastsafetensors_gds", "fastsafetensors_nogds", "instanttensor", "runai_streamer")


# Of the loaders that are others' packages: what to import.
PACKAGES = {"safetensors": "safetensors", "safetensors_pread": "safetensors", "fastsafetensors_gds": "fastsafetensors",
            "fastsafetensors_nogds": "fastsafetensors", "instanttensor": "instanttensor",
            "runai_streamer": "runai_model_streamer"}


class Row(typing.NamedTuple):
    name: str
    kind: str  # of model_files.py
    label: str
    on_disk: bool = False
    cold: bool = False  # nothing of the files is in the page cache when a load begins
    loaders: "tuple[str, ...]" = STANDARD


ROWS = (Row("dense", "dense", "16 GB, 4 files, 291 tensors, tmpfs"),
        Row("experts", "experts", "61 GB, 16 files, 18,867 tensors, tmpfs"),
        Row("one", "one", "15 GB, 1 file, tmpfs"),
        Row("small", "small", "8,000 tensors of 4 to 64 KiB, tmpfs"),
        Row("cached", "dense", "16 GB, 4 files, page cache", on_disk=True),
        Row("direct", "dense", "16 GB, 4 files, on the disk, not in the page cache", on_disk=True, cold=True,
            loaders=("sluice", "sluice_direct", "sluice_plan_direct", "safetensors", "threads_of_pread", "fastsafetensors_gds",
                     "fastsafetensors_nogds", "instanttensor", "runai_streamer")))


def is_installed(name: str) -> bool:
    return name not in PACKAGES or importlib.util.find_spec(PACKAGES[name]) is not None


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    made = verbs.add_parser("make", help="write a model")
    made.add_argument("kind", choices=["dense", "experts", "one", "small"])
    made.add_argument("folder")
    made.add_argument("--layers", type=int, help="fewer layers: a smaller model")
    made.add_argument("--files", type=int, help="in how many files")
    compared = verbs.add_parser("compare", help="compare the loaders")
    compared.add_argument("folder", type=pathlib.Path)
    compared.add_argument("--pairs", type=int, default=10)
    compared.add_argument("--loaders", default=",".join(STANDARD), help="which, separated by commas")
    compared.add_argument("--device", type=int, default=0)
    compared.add_argument("--seconds", type=float, default=1e9, help="no load begins after that many, first ones apart")
    compared.add_argument("--label", default="", help="kept with the results")
    compared.add_argument("--cold", action="store_true", help="before each load the page cache forgets the files")
    compared.add_argument("--json", type=pathlib.Path, help="where the results go")
    everything = verbs.add_parser("all", help="every row of the table, with one command")
    everything.add_argument("folder", type=pathlib.Path, help="in memory: /dev/shm/models")
    everything.add_argument("--disk", type=pathlib.Path, help="on a file system that takes O_DIRECT")
    everything.add_argument("--rows", default=",".join(row.name for row in ROWS), help="which (default: %(default)s)")
    everything.add_argument("--out", type=pathlib.Path, required=True, help="where the results go, as JSON")
    everything.add_argument("--pairs", type=int, default=10)
    everything.add_argument("--seconds", type=float, default=600, help="of a row, at most")
    everything.add_argument("--device", type=int, default=0)
    everything.add_argument("--layers", type=int, help="fewer layers: a trial of the command")
    everything.add_argument("--loaders", default="", help="which, instead of the usual ones")
    explored = verbs.add_parser("explore", help="measure what decides how ours works")
    explored.add_argument("folder", type=pathlib.Path)
    explored.add_argument("--seconds", type=float, default=120)
    explored.add_argument("--repeats", type=int, default=3)
    explored.add_argument("--device", type=int, default=0)
    explored.add_argument("--only", default="", help="link, allocation, views, engines, loads, walks; separated by commas")
    explored.add_argument("--quick", action="store_true", help="fewer rows")
    explored.add_argument("--json", type=pathlib.Path)
    reported = verbs.add_parser("report", help="print the tables of a file that compare or all has written")
    reported.add_argument("file", type=pathlib.Path)
    return parser.parse_args()


class Process:
    """A loader in a process of its own."""

    def __init__(self, name: str, device: int) -> None:
        self.name = name
        self.child = subprocess.Popen([sys.executable, "-B", str(HERE / "worker.py"), name, f"cuda:{device}"],
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                      env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path[1:])})

    def ready(self) -> dict:
        """Its first answer, once it has imported what it needs."""
        return self._answer()

    def _answer(self) -> dict:
        line = self.child.stdout.readline()
        return json.loads(line) if line else {"error": f"the process ended with {self.child.wait()}"}

    def ask(self, *words: str) -> dict:
        try:
            self.child.stdin.write("\t".join(words) + "\n")
            self.child.stdin.flush()
        except BrokenPipeError:
            pass
        return self._answer()

    def close(self) -> None:
        try:
            self.child.communicate("quit\n", timeout=60)
        except (subprocess.TimeoutExpired, ValueError, BrokenPipeError):
            self.child.kill()
            self.child.wait()


def link(device: int) -> float:
    from sluice._report import link_speed

    return link_speed(device) / 1e9


def compare(options: argparse.Namespace) -> dict:
    paths = sorted(str(path) for path in options.folder.glob("*.safetensors"))
    if not paths:
        sys.exit(f"models.py: there is no model in {options.folder}: make one first")
    results: "dict[str, dict]" = {}
    running: "dict[str, Process]" = {}
    names = options.loaders.split(",")
    started = {name: Process(name, options.device) for name in names if is_installed(name)}  # they import side by side
    load = "load_cold" if options.cold else "load"
    if not options.cold:
        read_once(paths)  # pages that were just written are slow for the first loader, whichever it is
    for name in names:
        result = results[name] = {"loads": []}
        if name not in started:
            result["missing"] = f"the package {PACKAGES[name]} is not installed"
            print(name, result["missing"], flush=True)
            continue
        process = started[name]
        first = process.ready()
        if "error" not in first:
            first = process.ask(load, *paths)
        if "missing" in first or "error" in first:
            result.update(first)
            process.close()
        else:
            result["first"] = first
            result["verified"] = process.ask("verify")
            process.ask("free")
            running[name] = process
        print(name, json.dumps(first)[:300], json.dumps(result.get("verified", "")), flush=True)
    began = time.monotonic()  # the first loads, and the comparison of bytes, are apart
    try:
        for turn in range(options.pairs):
            for name in list(running) if turn % 2 == 0 else list(reversed(running)):
                if time.monotonic() - began > options.seconds:
                    break
                answer = running[name].ask(load, *paths)
                if "seconds" in answer:
                    results[name]["loads"].append(answer)
                else:
                    results[name].update(answer)
                    running.pop(name).close()
                    continue
                running[name].ask("free")
    finally:
        for process in running.values():
            process.close()
    return {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "label": options.label,
            "cold": options.cold, "files": len(paths), "link_gb_per_second": link(options.device), "results": results}


def compare_all(options: argparse.Namespace) -> dict:
    """Row by row; what was measured is written after each."""
    import model_files

    unknown = set(options.rows.split(",")) - {row.name for row in ROWS}
    if unknown:
        sys.exit(f"models.py: there is no row {', '.join(sorted(unknown))}; there are {', '.join(row.name for row in ROWS)}")
    device = device_words(options.device)
    results: dict = json.loads(options.out.read_text(encoding="utf-8")) if options.out.exists() else {"device": device}
    if results.get("device") != device:
        sys.exit(f"models.py: {options.out} has no rows of {device}, but of {results.get('device')}: name another file")
    for row in (row for row in ROWS if row.name in options.rows.split(",")):
        folder = options.disk if row.on_disk else options.folder
        if folder is None:
            print(f"{row.name}: left out, since no --disk was named", flush=True)
            continue
        folder = folder / f"sluice-{row.name}"
        folder.mkdir(parents=True)
        try:
            model_files.make(row.kind, str(folder), options.layers, None)
            results[f"compare-{row.name}"] = told = compare(argparse.Namespace(
                folder=folder, pairs=options.pairs, loaders=options.loaders or ",".join(row.loaders), device=options.device,
                seconds=options.seconds, label=row.label, cold=row.cold))
            print(table(told), flush=True)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        keys = ["device", *(f"compare-{row.name}" for row in ROWS)]
        options.out.write_text(json.dumps({key: results[key] for key in keys if key in results}), encoding="utf-8")
    return results


def read_once(paths: "list[str]") -> None:
    def read(path: str) -> None:
        with open(path, "rb", buffering=0) as file:
            piece = bytearray(16 << 20)
            while file.readinto(piece):
                pass

    with concurrent.futures.ThreadPoolExecutor(8) as readers:
        list(readers.map(read, paths))


def device_words(device: int) -> str:
    import torch

    return f"{torch.cuda.get_device_name(device)}, {os.cpu_count()} processors, kernel {os.uname().release}"


def _of_reports(loads: "list[dict]", name: str, form: str) -> str:
    """The median of a number of our own reports; others have none."""
    found = [load["report"][name] for load in loads if load.get("report") and load["report"].get(name) is not None]
    return format(statistics.median(found), form) if found else ""


def how_much_faster(ours: "list[float]", theirs: "list[float]") -> float:
    """By the median of loads that came in turns."""
    return statistics.median(other / mine for other, mine in zip(theirs, ours))


def table(told: dict) -> str:
    """Markdown: a line per loader."""
    lines = [f"{told['label'] or 'comparison'}: {told['files']} files, link {told['link_gb_per_second']:.1f} GB/s by pinned "
             "copies", "",
             "| loader | GB/s (median) | lowest to highest | of the link | ours is faster by | first load s | first tensor s "
             "| us a tensor | CPU s/GiB | device memory beyond the model, GB | peak host GB |",
             "|---|---|---|---|---|---|---|---|---|---|---|"]
    ours = [load["seconds"] for load in told["results"].get(OURS, {}).get("loads", [])]
    for name, result in told["results"].items():
        loads = result["loads"]
        if not loads:
            why = "not installed" if "missing" in result else result.get("error", "no load")
            lines.append(f"| {name} | {why} | | | | | | | | | |")
            continue
        speeds = [load["gb_per_second"] for load in loads]
        ratio = ""
        if ours and name != OURS:
            ratio = f"{how_much_faster(ours, [load['seconds'] for load in loads]):.2f} x"
        size = loads[0]["bytes"]
        lines.append(
            f"| {name} | {statistics.median(speeds):.1f} | {min(speeds):.1f} to {max(speeds):.1f} | "
            f"{statistics.median(speeds) / told['link_gb_per_second']:.3f} | {ratio} | {result['first']['seconds']:.2f} | "
            f"{_of_reports(loads, 'first_tensor_seconds', '.3f')} | {_of_reports(loads, 'microseconds_per_tensor', '.1f')} | "
            f"{statistics.median(load['processor_seconds'] for load in loads) / (size / (1 << 30)):.3f} | "
            f"{max(load['peak_device_bytes'] - size for load in loads) / 1e9:.2f} | "
            # Of the first load: the comparison of bytes, which maps the files, counts in later ones.
            f"{result['first']['peak_host_bytes'] / 1e9:.1f} |")
    if any(load.get("by") == "ctypes" for result in told["results"].values() for load in result["loads"]):
        lines.append("\nOurs went without the extension of the wheel, which costs 3 to 4 us a tensor: install dist/*.whl.")
    for name, result in told["results"].items():
        verified = result.get("verified", {})
        if "error" in verified:
            lines.append(f"\n**{name}: {verified['error']}**")
    return "\n".join(lines)


def main() -> int:
    options = arguments()
    if options.verb == "make":
        sys.path.insert(0, str(HERE))
        import model_files

        began = time.monotonic()
        paths = model_files.make(options.kind, options.folder, options.layers, options.files)
        size = sum(pathlib.Path(path).stat().st_size for path in paths)
        print(f"{len(paths)} files, {size / 1e9:.2f} GB, {time.monotonic() - began:.1f} s")
    elif options.verb == "compare":
        told = compare(options)
        if options.json:
            options.json.write_text(json.dumps(told), encoding="utf-8")
        print(table(told))
    elif options.verb == "all":
        sys.path.insert(0, str(HERE))
        compare_all(options)
    elif options.verb == "explore":
        sys.path.insert(0, str(HERE))
        from explore import explore

        rows = explore(sorted(str(path) for path in options.folder.glob("*.safetensors")), options.device,
                       options.seconds, options.repeats, [part for part in options.only.split(",") if part],
                       options.quick)
        if options.json:
            options.json.write_text(json.dumps(rows), encoding="utf-8")
    else:
        told = json.loads(options.file.read_text(encoding="utf-8"))
        rows = [told] if "results" in told else [row for key, row in {**told, **told.get("rows", {})}.items()
                                                 if isinstance(row, dict) and "results" in row]
        if not rows:
            sys.exit(f"models.py: {options.file} has no comparison of loaders")
        print("\n\n".join(table(row) for row in rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
