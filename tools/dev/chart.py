#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the README's chart, and writes the tables of measured speed, from one comparison in bench/results.

    tools/dev/chart.py              draws docs/images/speed-light.svg and speed-dark.svg, and writes the tables into the
                                    pages, between the lines <!-- chart.py: NAME --> and <!-- /chart.py -->
    tools/dev/chart.py --check      says which of them are not what the results give, and fails

The comparison is the newest of all rows, unless --results names another one. A speed is the median of its slices; a ratio
is the geometric mean over all pairs of slices that were measured in turns (bench/paired.py).
"""
import argparse
import dataclasses
import html
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "bench"))
import paired  # noqa: E402 (it lies in bench)

KINDS = {"cached": "page cache", "tmpfs": "tmpfs", "loop": "O_DIRECT, loop device", "virtio": "O_DIRECT, virtio disk"}

# What the README shows: (kind, row, what a reader calls it).
SHOWN = [
    ("cached", "read-4K", "one read of 4 KiB"),
    ("cached", "read-1M", "one read of 1 MiB"),
    ("cached", "read-64M", "one read of 64 MiB"),
    ("cached", "write-64M", "one write of 64 MiB"),
    ("cached", "batch-4K-x128", "batch of 128 × 4 KiB"),
    ("cached", "batch-1M-x32", "batch of 32 × 1 MiB"),
    ("cached", "async-1M-x8-fixed", "8 streams, 1 MiB each"),
    ("loop", "read-16M", "O_DIRECT, one read of 16 MiB"),
]

FONT = "system-ui, -apple-system, 'Segoe UI', sans-serif"
THEMES = {
    "light": {"text": "#1f2328", "quiet": "#59636e", "bar": "#1f6feb", "line": "#8c959f"},
    "dark": {"text": "#f0f6fc", "quiet": "#9198a1", "bar": "#58a6ff", "line": "#6e7681"},
}
WIDTH, LEFT, RIGHT, TOP, ROW = 840, 240, 190, 58, 34


@dataclasses.dataclass(frozen=True)
class Speed:
    ours: float  # GiB/s
    theirs: float
    ratio: float
    bound: float  # the true ratio is above it with 95 % certainty
    pairs: int


def newest():
    found = sorted((ROOT / "bench/results").glob("comparison-all-*.json"))
    if not found:
        sys.exit("chart.py: bench/results holds no comparison-all-DATE.json; name another one by --results")
    return found[-1]


def speed_of(result, row):
    rates = [(pair[f"ours:{row}"]["gib_per_s"], pair[f"theirs:{row}"]["gib_per_s"]) for pair in result["pairs"]
             if f"ours:{row}" in pair and f"theirs:{row}" in pair]
    rates = [rate for rate in rates if min(rate) > 0]
    if len(rates) < 5:
        return None
    ratio, bound = paired.ratio(rates)
    return Speed(paired.median([ours for ours, _ in rates]), paired.median([theirs for _, theirs in rates]), ratio, bound,
                 len(rates))


def speeds_of(data):
    """{(kind, row): Speed} in the order of the file."""
    found = {(kind, row): speed_of(result, row) for kind, rows in data["results"].items() for row, result in rows.items()}
    return {key: speed for key, speed in found.items() if speed is not None}


def short(number):
    """Three digits, as people write them."""
    return f"{number:.2f}" if number < 10 else f"{number:.1f}"


def run_of(data):
    run = data["runs"][-1]
    return f"{run['gpu']}, driver {run['driver']}, {run['date'][:10]}, Sluice {run['sluice']} beside {run['incumbent']}"


def draw(data, speeds, theme):
    colour = THEMES[theme]
    rows = [(label, speeds[kind, row]) for kind, row, label in SHOWN]
    scale = (WIDTH - LEFT - RIGHT) / max(speed.ratio for _, speed in rows)
    height = TOP + ROW * len(rows) + 40
    title = "Speed of Sluice as a multiple of the incumbent's"

    def text(x, y, words, size=14, fill=colour["text"], anchor="start", weight="normal"):
        return (f'<text x="{x:.1f}" y="{y:.1f}" font-family="{FONT}" font-size="{size}" fill="{fill}" '
                f'text-anchor="{anchor}" font-weight="{weight}">{html.escape(words)}</text>')

    told = "; ".join(f"{label}: {speed.ratio:.1f}" for label, speed in rows)
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
             f'role="img">', f"<title>{html.escape(title)}</title>", f"<desc>{html.escape(told)}</desc>",
             text(0, 20, title, size=16, weight="600"),
             text(0, 40, "files in the page cache unless it says otherwise; right: GiB/s, Sluice | incumbent", size=12,
                  fill=colour["quiet"])]
    for index, (label, speed) in enumerate(rows):
        middle = TOP + ROW * index + ROW / 2
        lines.append(text(LEFT - 12, middle + 5, label, anchor="end"))
        lines.append(f'<rect x="{LEFT}" y="{middle - 10:.1f}" width="{speed.ratio * scale:.1f}" height="20" rx="3" '
                     f'fill="{colour["bar"]}"/>')
        lines.append(text(LEFT + speed.ratio * scale + 8, middle + 5, f"{speed.ratio:.1f}×", weight="600"))
        lines.append(text(WIDTH, middle + 5, f"{short(speed.ours)} | {short(speed.theirs)}", size=13, fill=colour["quiet"],
                          anchor="end"))
    lines.append(f'<line x1="{LEFT + scale:.1f}" y1="{TOP}" x2="{LEFT + scale:.1f}" y2="{TOP + ROW * len(rows)}" '
                 f'stroke="{colour["line"]}" stroke-width="1.5" stroke-dasharray="4 3"/>')
    lines.append(text(LEFT + scale, TOP + ROW * len(rows) + 15, "as fast as the incumbent", size=12, fill=colour["quiet"]))
    lines.append(text(WIDTH, height - 5, run_of(data), size=11, fill=colour["quiet"], anchor="end"))
    return "\n".join([*lines, "</svg>", ""])


def readme_table(speeds):
    lines = ["| | Sluice | incumbent | |", "|---|---|---|---|"]
    for kind, row, label in SHOWN:
        speed = speeds[kind, row]
        lines.append(f"| {label} | {short(speed.ours)} GiB/s | {short(speed.theirs)} GiB/s | **{speed.ratio:.1f}×** |")
    return lines


def whole_table(data, speeds):
    """A line a row; the kinds of file side by side, each with its speed, the ratio and the bound that it lies above."""
    kinds = [kind for kind in KINDS if any(key[0] == kind for key in speeds)]
    names = list(dict.fromkeys(row for kind in kinds for other, row in speeds if other == kind))
    lines = [f"{run_of(data)}.",
             "GiB/s, then the multiple of the incumbent's speed on the same kind of file (for tmpfs: in the page cache), and in brackets",
             "what that multiple lies above with 95 % certainty.", "",
             "| row | " + " | ".join(KINDS[kind] for kind in kinds) + " |", "|---" * (len(kinds) + 1) + "|"]
    for row in names:
        cells = []
        for kind in kinds:
            speed = speeds.get((kind, row))
            cells.append(f"{short(speed.ours)} · {speed.ratio:.2f} ({speed.bound:.2f})" if speed else "")
        lines.append(f"| `{row}` | " + " | ".join(cells) + " |")
    return lines


def put(page, name, lines):
    """The page with these lines between the marks of that name."""
    pattern = re.compile(rf"(<!-- chart\.py: {name} -->\n).*?(<!-- /chart\.py -->)", re.DOTALL)
    if len(pattern.findall(page)) != 1:
        sys.exit(f"chart.py: the marks of \"{name}\" are not there once")
    return pattern.sub(lambda match: match[1] + "\n".join(lines) + "\n" + match[2], page)


def outputs(results):
    """{file: what it should hold}"""
    data = json.loads(results.read_text(encoding="utf-8"))
    speeds = speeds_of(data)
    missing = [f"{kind}/{row}" for kind, row, _ in SHOWN if (kind, row) not in speeds]
    if missing:
        sys.exit(f"chart.py: {results} has too few pairs of {', '.join(missing)}")
    made = {ROOT / f"docs/images/speed-{theme}.svg": draw(data, speeds, theme) for theme in THEMES}
    for page, name, lines in (("README.md", "numbers", readme_table(speeds)),
                              ("docs/performance.md", "table", whole_table(data, speeds))):
        made[ROOT / page] = put((ROOT / page).read_text(encoding="utf-8"), name, lines)
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=pathlib.Path, help="the comparison (bench/results/comparison-all-*.json, the newest)")
    parser.add_argument("--check", action="store_true", help="write nothing, and fail where something is out of date")
    parser.add_argument("--project", type=pathlib.Path, help=argparse.SUPPRESS)  # as style checks are called
    options = parser.parse_args()
    stale = []
    for path, text in outputs(options.results or newest()).items():
        if options.check and (not path.exists() or path.read_text(encoding="utf-8") != text):
            stale.append(path)
        elif not options.check:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
    for path in stale:
        print(f"{path.relative_to(ROOT)} is not what bench/results gives: run tools/dev/chart.py")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
