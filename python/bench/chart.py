#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the loaders beside one another, from stored results of models.py alone.

    chart.py              draws docs/images/loaders.svg from the newest bench/results/models-*.json, and of its first table
                          README.md's picture and sentence
    chart.py --check      says whether these are what the results give, and fails where they are not
    chart.py --results FILE --out SVG

A bar is the median of a loader's loads, its line reaches from the slowest to the quickest. What was not installed has no bar
and says so.
"""

from __future__ import annotations

import argparse
import html
import json
import pathlib
import statistics
import sys

import models

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "docs/images/loaders.svg"
SHORT = ROOT / "docs/images/loaders-short.svg"
README = ROOT / "README.md"
BEGIN, END = "<!-- loaders -->\n", "<!-- /loaders -->\n"
NAMES = {"safetensors": "safetensors", "safetensors_pread": "safetensors, pread", "threads_of_pread": "threads, pread, pinned copies",
         "plain_cufile": "one cuFileRead a file", "fastsafetensors_gds": "fastsafetensors, cuFile",
         "fastsafetensors_nogds": "fastsafetensors", "instanttensor": "InstantTensor", "runai_streamer": "Run:ai streamer"}
CARRIERS = {"cufile": "cuFileRead", "staged": "pinned windows", "plan": "plans"}
CALLS = {"sluice_into": "load_into", "sluice_iterate": "iterate"}
STYLE = """
text { font: 13px system-ui, -apple-system, 'Segoe UI', sans-serif; fill: #1f2328 }
.head { font-weight: 600 } .small { font-size: 11px; fill: #59636e }
.ours { fill: #1a7f37 } .theirs { fill: #8c959f } .range, .link { stroke: #1f2328 } .link { stroke-dasharray: 3 3 }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .small { fill: #9198a1 } .ours { fill: #3fb950 }
  .theirs { fill: #6e7681 } .range, .link { stroke: #e6edf3 } }
"""
LEFT, WIDTH, ROW = 270, 760, 24


def newest() -> pathlib.Path:
    return max((ROOT / "bench/results").glob("models-*.json"), key=lambda path: path.name.split("models-")[1][:10])


def name_of(loader: str, loads: "list[dict]") -> str:
    """What a reader calls it; of ours, the call and what carried its bytes, as the reports tell."""
    if not loader.startswith("sluice"):
        return NAMES.get(loader, loader)
    carriers = {load["report"]["carrier"] for load in loads if load.get("report")}
    carried = ", ".join(CARRIERS.get(one, one) for one in sorted(carriers))
    return f"{CALLS.get(loader, 'load_files')}{', ' + carried if carried else ''}"


def rows_of(told: dict, short: bool) -> "list[tuple[str, bool, list[float], str]]":
    """(name, ours, speeds, why none), the quickest first. Short: of ours only what load_files does unasked, and no row without
    a load."""
    rows = []
    for loader, result in told["results"].items():
        if loader == "sluice_tuned":  # of a sweep
            continue
        if short and (not result["loads"] or loader.startswith("sluice_") or loader == "plain_cufile"):
            continue
        speeds = [load["gb_per_second"] for load in result["loads"]]
        why = "" if speeds else "not installed" if "missing" in result else "no load"
        ours = loader.startswith("sluice") or loader == "plain_cufile"  # our calls, by a few lines of ctypes
        rows.append((name_of(loader, result["loads"]), ours, speeds, why))
    return sorted(rows, key=lambda row: -statistics.median(row[2]) if row[2] else 1.0)


def comparisons_of(results: dict) -> "list[dict]":
    """In the order of models.ROWS."""
    return [results[key] for key in (f"compare-{row.name}" for row in models.ROWS) if key in results]


def draw(results: dict, source: str, short: bool = False) -> str:
    comparisons = comparisons_of(results)[:1] if short else comparisons_of(results)
    top = max([told["link_gb_per_second"] for told in comparisons] +
              [speed for told in comparisons for _, _, speeds, _ in rows_of(told, short) for speed in speeds])
    scale = (WIDTH - LEFT - 70) / top
    parts, y = [], 20
    for told in comparisons:
        parts.append(f'<text class="head" x="10" y="{y}">{html.escape(told["label"])}</text>')
        begin = y = y + 10
        for name, ours, speeds, why in rows_of(told, short):
            middle = y + ROW / 2
            parts.append(f'<text x="{LEFT - 8}" y="{middle + 4:.0f}" text-anchor="end">{html.escape(name)}</text>')
            if speeds:
                median = statistics.median(speeds)
                parts.append(f'<rect class="{"ours" if ours else "theirs"}" x="{LEFT}" y="{y + 4}" width="{median * scale:.1f}" '
                             f'height="{ROW - 8}"/><line class="range" x1="{LEFT + min(speeds) * scale:.1f}" y1="{middle:.0f}" '
                             f'x2="{LEFT + max(speeds) * scale:.1f}" y2="{middle:.0f}"/>'
                             f'<text x="{LEFT + max(speeds) * scale + 6:.1f}" y="{middle + 4:.0f}">{median:.1f}</text>')
            else:
                parts.append(f'<text class="small" x="{LEFT}" y="{middle + 4:.0f}">{why}</text>')
            y += ROW
        link = LEFT + told["link_gb_per_second"] * scale
        parts.append(f'<line class="link" x1="{link:.1f}" y1="{begin}" x2="{link:.1f}" y2="{y}"/>')
        y += 26
    for words in ("GB/s into GPU memory, median and range; dashed: the link by pinned copies.",
                  f"{results.get('device', '')}. {source}"):
        parts.append(f'<text class="small" x="10" y="{y}">{html.escape(words)}</text>')
        y += 16
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 12}" width="{WIDTH}" height="{y + 12}">'
            f'<style>{STYLE}</style>\n' + "\n".join(parts) + "\n</svg>\n")


def sentence(results: dict) -> str:
    """Of the first comparison, for README.md."""
    told = comparisons_of(results)[0]
    ours, package = (told["results"][loader]["loads"] for loader in (models.OURS, "safetensors"))
    speed = statistics.median(load["gb_per_second"] for load in ours)
    faster = models.how_much_faster([load["seconds"] for load in ours], [load["seconds"] for load in package])
    return (f"Models in Python: **{speed:.1f} GB/s** into the GPU ({told['label']}), {speed / told['link_gb_per_second']:.2f} of "
            f"the link, {faster:.1f}× the package\nsafetensors; in one line, "
            "`sluice.safetensors.load_files(folder, device=\"cuda\")`.\n")


def readme_with(readme: str, words: str) -> str:
    before, rest = readme.split(BEGIN)
    return before + BEGIN + words + END + rest.split(END)[1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--project", type=pathlib.Path, help="for the check: this repository")
    parser.add_argument("--results", type=pathlib.Path, help="a file that models.py has written")
    parser.add_argument("--out", type=pathlib.Path, default=OUT)
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    options = parser.parse_args()
    source = options.results or newest()
    results = json.loads(source.read_text(encoding="utf-8"))
    wanted = {options.out: draw(results, source.name)}
    if options.out == OUT:
        wanted[SHORT] = draw(results, source.name, short=True)
        wanted[README] = readme_with(README.read_text(encoding="utf-8"), sentence(results))
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if options.check:
        for path in stale:
            print(f"{path} is not what {source} gives: run python/bench/chart.py")
        print(f"{len(wanted) - len(stale)} of {len(wanted)} are what {source.name} gives")
        return 1 if stale else 0
    for path in stale:
        path.write_text(wanted[path], encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
