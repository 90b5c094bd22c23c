#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Boots a real kernel with emulated drives, and shows what it does with device memory, and what we do on it.

Every case is one boot (cases.py). Rows come from the guest's output and, for the transfers that the guest made promises
about, from QEMU's trace of what the drives did. Ends with what the guests counted (runs that ended by polling) and the
number of DMA segments that one drive had in the memory of another: device to device, past the CPU. docs/internals/lab.md tells
more.
"""

import argparse
import concurrent.futures
import pathlib
import random
import re
import shutil
import subprocess
import sys
import time

import cases
import dma
import machine
import power
import rows

HERE = pathlib.Path(__file__).resolve().parent
SKIPPED = 77
NEEDED = {"qemu-system-x86_64": "qemu-system-x86", "busybox": "busybox-static", "modprobe": "kmod", "cpio": "cpio",
          "xz": "xz-utils"}
ALARMS = re.compile(r"\bBUG:|\bOops\b|\bWARNING:|general protection|Call Trace|blocked for more than")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="the build whose programs the guests run")
    parser.add_argument("--work", type=pathlib.Path, required=True, help="keeps the kernel, and what the guests leave")
    parser.add_argument("--junit", type=pathlib.Path, help="also write the rows to this file, as test reports are")
    parser.add_argument("--jobs", type=int, default=2, help="guests at a time (2)")
    parser.add_argument("--fetch", action="store_true", help="only fetch the kernel, where there is none yet")
    parser.add_argument("--changed", type=pathlib.Path,
                        help="a list of files, one a line: the core, and the cases that a change of these can touch")
    parser.add_argument("--for-check", action="store_true",
                        help="of the cases that a change can touch only those that ./run check has time for; all of these where "
                             "--changed does not say what has changed")
    parser.add_argument("--cuts", type=int, default=8, help="power cuts that are looked at in each of their cases (8)")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32), help="of the power cuts; a new one each time")
    parser.add_argument("--list", action="store_true", help="tell the cases and boot none")
    parser.add_argument("--verbose", action="store_true", help="print rows that passed, too")
    parser.add_argument("case", nargs="*", help="only cases whose names hold one of these words")
    return parser.parse_args()


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)


def prepare(script, folder):
    """Runs a script of ours. One that cannot do its work here says why in its last line."""
    run = subprocess.run([HERE / script, folder], text=True, capture_output=True, check=False)
    if run.returncode == SKIPPED:
        skip((run.stderr.strip().splitlines() or [f"{script} gave no reason"])[-1])
    if run.returncode != 0:
        sys.exit(f"{run.stderr}lab: {script} failed")
    print(run.stdout, end="", flush=True)


def prepare_kernel(folder):
    """The kernel and the initramfs; the kernel is fetched once and kept until the folder is removed."""
    missing = [f"{command} ({package})" for command, package in NEEDED.items() if shutil.which(command) is None]
    if missing:
        skip(f"the lab needs {', '.join(missing)}")
    version = folder / "version"
    # What was fetched before a module was added to the list lacks it.
    if not version.exists() or version.stat().st_mtime < (HERE / "modules.txt").stat().st_mtime:
        print("Fetching the newest kernel of Debian ...", flush=True)
        prepare("kernel.sh", folder)
    prepare("initramfs.sh", folder)


def text_of(path):
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def judge_boot(case, boot, folder, output):
    """Rows about the boot as a whole."""
    found = []

    def about(name, why):
        found.append(rows.Row("failed" if why else "passed", f"{case.name}: {name}", why))

    if not boot.came_up:
        about("the guest comes up", f"see {folder}/console-1, console-2 and qemu.log")
        return found
    ended = "" if boot.status == 0 else "it ended with %s; its last line: %s" % (
        "the time" if boot.status is None else boot.status, (output.splitlines() or [""])[-1])
    about("the guest's script comes to its end", ended)
    alarm = ALARMS.search(text_of(folder / "out/kernel.log") + text_of(folder / f"console-{boot.attempts}"))
    about("the kernel complains of nothing",
          f"\"{alarm.group(0)}\" in {folder}/console-{boot.attempts} or out/kernel.log" if alarm else "")
    return found


def run_case(case, work, lab, build, asked):
    """Boots one case. Its rows, its number of DMA segments inside a window, what the guest counted, and the boot."""
    folder = work / "guests" / re.sub(r"[^a-z0-9]+", "-", case.name.lower()).strip("-")
    prepared = case.prepared(lab, build)
    if case.file_system:
        found, segments, counts, seconds = power.run_case(prepared, work / "kernel", folder, asked.cuts, asked.seed)
        return found, segments, counts, machine.Boot(came_up=True, status=0, seconds=seconds, attempts=1)
    boot = machine.boot(prepared, work / "kernel", folder)
    text = text_of(folder / "out/output")
    output = rows.read_output(text)
    nsid = {drive.serial: drive.nsid for drive in prepared.drives}
    windows = [dma.Window(name, first, last, nsid[name]) for name, (first, last) in output.windows.items()]
    with open(folder / "trace", encoding="ascii", errors="replace") as lines:
        commands = dma.read_commands(lines)
    marked = dma.stretches(commands, nsid.get(machine.MARK))
    found = list(output.rows)
    for promise in output.promises:
        why = dma.judge(promise, marked.get(promise.stretch), windows)
        found.append(rows.Row("failed" if why else "passed", f"{promise.row}: DMA", why))
    # Large: kept where it may tell why.
    if all(row.status != "failed" for row in found):
        (folder / "trace").unlink()
    found += judge_boot(case, boot, folder, text)
    found += [rows.Row("failed", f"{name}: is told once", "two rows have this name") for name in rows.doubled(found)]
    return found, dma.count_segments(commands, windows), output.counts, boot


def print_case(case, found, boot, verbose):
    count = {status: sum(row.status == status for row in found) for status in ("passed", "failed", "skipped")}
    again = ", second attempt" if boot.attempts > 1 else ""
    print(f"{case.name}: {count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped "
          f"({boot.seconds:.0f} s{again})")
    for row in found:
        if row.status != "passed" or verbose:
            print(f"  {row.status}: {row.name}{': ' + row.why if row.why else ''}")
    sys.stdout.flush()


def tell_left_out(why, left, command):
    if left:
        print(f"left out, since {why}: {', '.join(case.name for case in left)}; {command} boots them", flush=True)


def main():
    asked = parse_arguments()
    chosen = [case for case in cases.CASES if not asked.case or any(word in case.name for word in asked.case)]
    if asked.changed or asked.for_check:
        paths = asked.changed.read_text(encoding="utf-8").splitlines() if asked.changed else None
        chosen, untouched, too_long = cases.chosen_of(chosen, paths, asked.for_check)
        tell_left_out("no change touches them", untouched, "./run lab")
        tell_left_out("they take too long for the check", too_long,
                      f"./run lab --changed {asked.changed}" if asked.changed else "./run lab")
    if asked.list or not chosen:
        for case in cases.CASES:
            print(f"{case.name}: {case.what}")
        return 0 if asked.list else 2
    begin = time.monotonic()
    work, build = asked.work.resolve(), asked.build.resolve()
    prepare_kernel(work / "kernel")
    if asked.fetch:
        return 0
    everything, segments, counts = [], 0, {}
    for case in chosen:
        if case.missing():
            everything.append(rows.Row("skipped", f"{case.name}: is booted", case.missing()))
            print(f"{case.name}: skipped, {case.missing()}", flush=True)
    chosen = [case for case in chosen if not case.missing()]
    with concurrent.futures.ThreadPoolExecutor(asked.jobs) as pool:
        running = [(case, pool.submit(run_case, case, work, HERE, build, asked)) for case in chosen]
        for case, future in running:
            found, inside, counted, boot = future.result()
            print_case(case, found, boot, asked.verbose)
            everything += found
            segments += inside
            counts.update(counted)
    if asked.junit:
        rows.write_junit(asked.junit, everything)
    failed = sum(row.status == "failed" for row in everything)
    print(f"kernel {text_of(work / 'kernel/version').strip()}: {len(everything)} rows, {failed} failed, "
          f"{sum(row.status == 'skipped' for row in everything)} skipped ({time.monotonic() - begin:.0f} s)")
    for what, number in counts.items():
        print(f"{what}: {number}")
    print(f"DMA segments inside the BAR: {segments}")
    return cases.status_of(chosen, failed, segments)


if __name__ == "__main__":
    sys.exit(main())
