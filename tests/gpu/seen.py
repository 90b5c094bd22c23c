#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What there is to watch with, against runs of gdsio on this machine's GPU: `sluice report`, `trace`, `top`, `stats`,
`exporter` and `profile`. What each says is held against the GPU's name and UUID, the path and the bytes; a line each.

  seen.py PACK      a folder made by tests/gpu/pack.sh, or a build folder

Ends with 77 and the reason where there is no GPU; over the soft GPU with SLUICE_SOFTGPU=1.
"""
import contextlib
import html
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "system"))
from perfetto_reader import Trace  # noqa: E402 (its folder is told just above)

PACK = pathlib.Path(sys.argv[1]).resolve()
SLUICE, GDSIO = PACK / "bin/sluice", PACK / "bin/gdsio"
SIZE, PIECE = 128 << 20, 16 << 20
SOFT = os.environ.get("SLUICE_SOFTGPU") == "1"


def run(*words, **variables):
    done = subprocess.run([str(word) for word in words], env=os.environ | variables, capture_output=True, text=True, timeout=100,
                          check=False)
    if done.returncode != 0:
        sys.exit(f"Error: {words} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done


def want(holds, what, shown=""):
    if not holds:
        sys.exit(f"Error: {what}\n{str(shown)[-4000:]}")


def object_in(text):
    """The JSON object that a tool has written behind what a program wrote."""
    return json.loads(text[text.index("{"):])


def gpu():
    """Name and UUID of the first."""
    if SOFT:
        return "Sluice soft GPU", None
    try:
        told = subprocess.run(["nvidia-smi", "--query-gpu=name,uuid", "--format=csv,noheader"], capture_output=True, text=True,
                              timeout=60, check=True).stdout.splitlines()
        return tuple(told[0].split(", "))
    except (OSError, subprocess.SubprocessError, IndexError):
        print("skipped: no GPU is here")
        sys.exit(77)


def job(file, *words, piece="16M"):
    return (GDSIO, "-f", file, "-d", "0", "-w", "1", "-s", "128M", "-i", piece, "-x", "0", "-O", "1", *words)


def check_report(folder):
    page = folder / "page.html"
    run(SLUICE, "report", "-o", page, "--", *job(folder / "file", "-I", "0"))
    source = page.read_text(encoding="utf-8")
    text = re.sub(r"\s+", " ", html.unescape(re.sub(r"<style.*?</style>|<[^>]*>", " ", source, flags=re.S)))
    want("<script" not in source, "the page has a script")
    for part in ("8 transfers", "128.0 MiB moved", str(folder / "file"), "What stands out", "The slowest"):
        want(part in text, f"the page does not say '{part}'", text)
    way = re.search(r"posix \([a-z0-9_]+\)", text)
    want(way, "the page names no way", text)
    want(source.count("<svg") >= 3 and source.count("<rect") > 20, "the page has no pictures")
    print(f"report    a page of {len(source) >> 10} KiB: 8 transfers, 128.0 MiB, {way[0]}, {source.count('<svg')} pictures")


def check_trace(folder):
    told = object_in(run(SLUICE, "trace", "--json", "-o", folder / "t.pftrace", "--", *job(folder / "file", "-I", "0")).stderr)
    trace = Trace(folder / "t.pftrace")
    requests = trace.requests()
    want((len(requests), told["lost"]) == (8, 0), "not 8 transfers, or events were lost", told)
    want(all(each.arguments["result"] == PIECE and each.arguments["GPU"] == 0 for each in requests), "sizes or GPU are wrong")
    read = sum(each.arguments["result"] for each in trace.slices("read from file"))
    phases = {name: len(trace.slices(name)) for name in ("read from file", "launch kernel", "copy", "wait for device",
                                                         "first byte", "last byte", "help")}
    want(phases["first byte"] == phases["last byte"] == 8, "a transfer lacks its first or last byte", phases)
    want(phases["launch kernel"] + phases["copy"] > 0, "no kernel and no copy carried the bytes", phases)
    want(phases["read from file"] > 0 and read == SIZE, f"{read} bytes were read from the file", phases)
    took = sorted((each.end - each.begin) / 1e6 for each in requests)
    want(took[0] > 0, "a transfer took no time")
    print(f"trace     {told['events']} events, none lost: 8 transfers of 16 MiB, {requests[0].arguments['way']}, "
          f"{took[0]:.2f} to {took[-1]:.2f} ms each; {', '.join(f'{name} x{count}' for name, count in phases.items())}")


@contextlib.contextmanager
def busy(file):
    """A process that moves bytes until it is no longer wanted."""
    with subprocess.Popen([str(word) for word in job(file, "-I", "0", "-T", "60", piece="1M")], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, env=os.environ | {"SLUICE_STATS": "3"}) as process:
        try:
            yield process
        finally:
            process.terminate()


def moved(pid):
    """Bytes so far, as `sluice stats PID` has them; 0 before it can be seen."""
    told = subprocess.run([SLUICE, "stats", str(pid), "--json"], capture_output=True, text=True, timeout=60, check=False)
    if told.returncode != 0:
        return 0, {}
    metrics = json.loads(told.stdout)["metrics"]
    return sum(each["value"] for each in metrics.get("sluice_transferred_bytes_total", [])), metrics


def check_stats(pid):
    deadline = time.monotonic() + 60
    while moved(pid)[0] < SIZE:
        want(time.monotonic() < deadline, "no bytes were counted for a minute")
    _, metrics = moved(pid)
    (way,) = metrics["sluice_transferred_bytes_total"]
    want((way["direction"], way["path"]) == ("read", "posix") and way["value"] % (1 << 20) == 0, "the way is wrong", way)
    print(f"stats     {way['value'] / (1 << 30):.2f} GiB so far by {way['path']} ({way['reason']})")


def check_top(pid, uuid):
    (line,) = [each for each in json.loads(run(SLUICE, "top", "--once", "--json").stdout)["processes"] if each["pid"] == pid]
    want(line["read_bytes_per_second"] > 0 and line["written_bytes_per_second"] == 0, "no speed, or one of writes", line)
    want(0 < line["p50_seconds"] <= line["p99_seconds"] < 60, "percentiles are wrong", line)
    (device,) = line["gpus"]
    want(device["gpu"] == 0 and (uuid is None or device["UUID"] == uuid), f"the GPU is not {uuid}", line)
    share = device["link_share"]
    want(SOFT or 0 < share < 1.2, "the share of the link is wrong", line)
    print(f"top       {line['program']}: {line['read_bytes_per_second'] / (1 << 30):.2f} GiB/s in, p50 "
          f"{line['p50_seconds'] * 1e6:.0f} us, p99 {line['p99_seconds'] * 1e6:.0f} us, {line['path']} ({line['reason']}), "
          f"GPU {device['UUID']}, link {'unknown' if share is None else f'{100 * share:.0f} %'}")


def check_exporter(pid, uuid):
    with subprocess.Popen([SLUICE, "exporter", "--listen", "127.0.0.1:0"], stderr=subprocess.PIPE, text=True) as exporter:
        try:
            url = re.search(r"http://\S+", exporter.stderr.readline())[0]
            with urllib.request.urlopen(url, timeout=60) as answer:
                lines = [line for line in answer.read().decode().splitlines() if f'pid="{pid}"' in line]
        finally:
            exporter.terminate()
    values = {}
    for line in lines:
        name, value = re.match(r"(\w+)\{.*\} (\S+)$", line).groups()
        values.setdefault(name, []).append((line, float(value)))
    buckets = [value for line, value in values["sluice_transfer_seconds_bucket"] if 'size="1-4MiB"' in line and "+Inf" not in line]
    (_, count), = values["sluice_transfer_seconds_count"]
    want(buckets == sorted(buckets) and 0 < buckets[-1] <= count, "the histogram is empty or falls", buckets)
    device = [(line, value) for line, value in values["sluice_device_bytes_total"] if 'direction="read"' in line]
    want(sum(value for _, value in device) > 0 and all(uuid is None or uuid in line for line, _ in device),
         f"bytes are not those of {uuid}", device)
    print(f"exporter  {len(lines)} series of the process, {count:.0f} transfers in {len(set(buckets))} filled buckets, "
          f"{sum(value for _, value in device) / (1 << 30):.2f} GiB of the GPU")


def check_profile(folder, name):
    kept = folder / "profile.json"
    run(SLUICE, "profile", "--seconds", "0.1", "--size", "64M", "-o", kept, folder)
    profile = json.loads(kept.read_text(encoding="utf-8"))
    want((profile["device"], profile["soft"]) == (name, SOFT), f"the device is not {name}", profile)
    link = profile["link"]["to_device_gib_per_s"], profile["link"]["from_device_gib_per_s"]
    want(min(link) > 0 and profile["folders"][0]["cached_read_gib_per_s"]["auto"] > 0, "a speed is missing", profile)
    run(SLUICE, "report", "--machine", "--profile", kept, "-o", folder / "machine.html")
    want(name in (folder / "machine.html").read_text(encoding="utf-8"), "the machine's page does not name its GPU")
    counted = object_in(run(SLUICE, "stats", "--json", "--", *job(folder / "file", "-I", "0"), SLUICE_PROFILE=str(kept)).stderr)
    bytes_read = sum(each["value"] for each in counted["metrics"]["sluice_transferred_bytes_total"])
    want(bytes_read == SIZE, f"a run with the profile moved {bytes_read} bytes", counted)
    print(f"profile   {name}: {link[0]:.1f} GiB/s to it, {link[1]:.1f} from it; best {profile['best'] or 'nothing for all folders'}")


def main():
    name, uuid = gpu()
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        (folder / "file").write_bytes(os.urandom(SIZE))
        check_report(folder)
        check_trace(folder)
        with busy(folder / "file") as process:
            check_stats(process.pid)
            check_top(process.pid, uuid)
            check_exporter(process.pid, uuid)
        check_profile(folder, name)
    print(f"cases 6: what can be watched with, on {name} {uuid or ''}")


main()
