#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws one request of a trace (`sluice trace -o FILE.json`) as an SVG: what each thread did for it, and when.

    sluice trace -o run.json --soft-gpu -- gdsio -f FILE -d 0 -w 1 -s 64M -i 16M -x 0 -I 0 -O 1
    tools/dev/trace_picture.py run.json docs/internals/read-16M.svg         the quickest request

The picture in docs/internals/observe.md is made so. On the soft GPU the device's part is the CPU's: shapes are right, and
times say nothing about a GPU.
"""
import argparse
import html
import json
import pathlib

WIDTH, LEFT, TOP, BAR = 960, 120, 40, 16
COLOURS = {"request": "a", "device": "b", "file": "c", "worker": "d", "queue": "a"}
STYLE = """<style>
svg{--text:#1f2328;--quiet:#59636e;--line:#d1d9e0;--paper:#fff;--a:#1f6feb;--b:#bf5b04;--c:#1a7f37;--d:#8250df;--bad:#cf222e}
@media (prefers-color-scheme:dark){svg{--text:#e6edf3;--quiet:#9198a1;--line:#3d444d;--paper:#0d1117;--a:#58a6ff;--b:#f0883e;
--c:#3fb950;--d:#bc8cff;--bad:#ff7b72}}
text{font:12px system-ui,"DejaVu Sans",sans-serif;fill:var(--text)}.q{fill:var(--quiet)}.i{fill:var(--paper);font-size:11px}
</style>"""


def slices_of(events):
    """(thread, begin event, end time, depth) of each slice, and (thread, event) of each moment."""
    stacks, found, moments = {}, [], []
    for event in events:
        thread = (event["pid"], event["tid"])
        stack = stacks.setdefault(thread, [])
        if event["ph"] == "B":
            stack.append((event, len(stack)))
        elif event["ph"] == "E" and stack:
            begun, depth = stack.pop()
            found.append((thread, begun, event["ts"], depth))
        elif event["ph"] == "i":
            moments.append((thread, event))
    return found, moments


def text(x, y, anchor, words, kind=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{kind and f" class={kind!r}"}>{html.escape(words)}</text>'


def draw(trace):
    names = {(event["pid"], event["tid"]): event["args"]["name"] for event in trace if event["ph"] == "M"}
    slices, moments = slices_of(trace)
    requests = [each for each in slices if each[1]["cat"] == "request"]
    caller, request, end, _ = min(requests, key=lambda each: each[2] - each[1]["ts"])
    number, begin = request["args"]["request"], request["ts"]
    mine = [each for each in slices if each[1]["args"]["request"] == number]
    threads = [caller, *sorted({thread for thread, *_ in mine if thread != caller})]
    scale = (WIDTH - LEFT - 8) / (end - begin)
    out, y = [], TOP
    for thread in threads:
        of_thread = [each for each in mine if each[0] == thread]
        lowest = min(depth for *_, depth in of_thread)
        out.append(text(LEFT - 10, y + 12, "end", "caller" if thread == caller else names.get(thread, "worker")))
        for _, begun, until, depth in sorted(of_thread, key=lambda each: each[1]["ts"]):
            x, wide = LEFT + (begun["ts"] - begin) * scale, max(0.4, (until - begun["ts"]) * scale - 0.3)
            top = y + (depth - lowest) * (BAR + 2)
            out.append(f'<rect x="{x:.2f}" y="{top}" width="{wide:.2f}" height="{BAR}" fill="var(--{COLOURS[begun["cat"]]})">'
                       f'<title>{html.escape(begun["name"])}: {until - begun["ts"]:.0f} us</title></rect>')
            if wide > 6.4 * len(begun["name"]) + 6:
                out.append(text(x + 4, top + 12, "start", begun["name"], "i"))
        y += (max(depth for *_, depth in of_thread) - lowest + 1) * (BAR + 2) + 12
    step = next(s * 10 ** p for p in range(9) for s in (1, 2, 5) if (end - begin) / (s * 10 ** p) <= 10)
    at = 0.0
    while at <= end - begin:
        x = LEFT + at * scale
        out.insert(0, f'<line x1="{x:.1f}" y1="{TOP - 6}" x2="{x:.1f}" y2="{y}" stroke="var(--line)"/>')
        out.append(text(x, y + 16, "middle", f"{at:g}", "q"))
        at += step
    out.append(text(LEFT - 10, y + 16, "end", "us", "q"))
    free = 0
    for _, moment in moments:
        if moment["args"]["request"] != number or moment["name"] not in ("first byte", "last byte"):
            continue
        x = LEFT + (moment["ts"] - begin) * scale
        label = 14 if x >= free else 28
        at_right = x > WIDTH - 70
        out.append(f'<line x1="{x:.1f}" y1="{label}" x2="{x:.1f}" y2="{y}" stroke="var(--bad)"/>')
        out.append(text(x + (-4 if at_right else 4), label, "end" if at_right else "start", moment["name"]))
        free = x + 80
    title = html.escape(f'{request["name"]} in time')
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 26}" role="img" aria-label="{title}">\n{STYLE}\n'
            + "\n".join(out) + "\n</svg>\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=pathlib.Path)
    parser.add_argument("picture", type=pathlib.Path)
    given = parser.parse_args()
    given.picture.write_text(draw(json.loads(given.trace.read_text(encoding="utf-8"))["traceEvents"]), encoding="utf-8")


main()
