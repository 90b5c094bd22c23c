#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the fuzzers of a build and tells what each did.

  ./run fuzz                      each for 60 seconds
  ./run fuzz --seconds 600 ptx    one of them, longer
  ./run fuzz --list               their names, and what each reads

What a fuzzer finds interesting is kept in build/fuzz/inputs/corpus/NAME, and the next run goes on from there. An input that
breaks something is kept in build/fuzz/inputs/found, and the line that is printed runs it once more.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "fixtures"))
import expand  # noqa: E402  its folder is known only now

PROJECT = HERE.parent.parent
# One machine with most kinds of files in its tree.
FUZZED_MACHINE = "h200-server-ready"

MOUNTINFO = """25 30 0:23 / /proc rw,nosuid shared:5 - proc proc rw
30 1 8:3 / / rw,relatime shared:1 - ext4 /dev/sda3 rw,errors=remount-ro
44 30 259:1 /@home /with\\040blank rw,noatime - btrfs /dev/nvme0n1p1 rw,ssd,subvol=/@home
51 30 0:44 / /mnt/nfs rw - nfs4 server:/export rw,vers=4.2,proto=rdma,nconnect=8
"""
GDSIO = """[global]
name=one
xfer_type=0
rw=randread
bs=4K:1M:4K
size=1G
runtime=0
do_verify=1
[job1]
numa_node=0
gpu_dev_id=0
num_threads=4
directory=/mnt
[job2]
filename=/mnt/one
size=2G
"""


def configuration_seeds():
    yield (PROJECT / "packaging/cufile.json").read_bytes()
    yield b'{"properties": {"use_compat_mode": true, "rdma_dev_addr_list": ["192.168.0.1"]}, // words\n "fs": {}}'


def mounts_seeds():
    for number in (30, 44, 99):
        yield f"mnt_id: {number}\n{MOUNTINFO}".encode()


def machine_seeds(tree):
    for place in sorted(tree.rglob("*")):
        if place.is_file() and not place.is_symlink() and place.stat().st_size < 4096:
            yield b"/" + str(place.relative_to(tree)).encode() + b"\n" + place.read_bytes()


def recorded_seeds(tree, folder):
    tar = folder / "seed.tar"
    subprocess.run(["tar", "--format=ustar", "-C", tree, "-cf", tar, "proc"], check=True)
    yield tar.read_bytes()[:1 << 16]
    tar.unlink()


def http_seeds():
    yield b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:9957\r\nAccept: */*\r\n\r\n"
    yield b"HEAD /?x=1 HTTP/1.0\n\n"


def statistics_seeds():
    yield bytes(64)
    yield bytes(range(256)) * 8
    yield b"\xff" * 64


def gdsio_seeds():
    yield GDSIO.encode()


def ptx_seeds():
    for place in sorted((PROJECT / "src/gpu/kernels").glob("*.ptx")):
        yield place.read_bytes()[:1 << 14]


def batch_seeds():
    entry = bytes([1, 0]) + (100).to_bytes(2, "little") + (4096).to_bytes(8, "little") + (5000).to_bytes(4, "little")
    yield entry
    yield entry * 8 + bytes([1, 1]) + bytes(14)


def plan_seeds():
    head = bytes(8)
    item = (100).to_bytes(2, "little") + (4096).to_bytes(8, "little") + (5000).to_bytes(4, "little") + bytes(2)
    yield head + item
    yield bytes([0, 1, 0, 2, 2, 3, 0, 0]) + item * 8
    yield bytes([0, 0, 1, 0, 1, 9, 0, 0]) + item * 3


def rdma_files_seeds():
    number = b"\1\0\0\0"
    token = b"00007f0012345000:00100000:0000a1b2:0003:0000c4:1:00000000000000000000ffff0a000001"
    peer = bytes(10) + b"\xff\xff\x0a\0\0\1" + b"\0\0" + b"\x11\0\0\0" + b"\x22\0\0\0" + b"\5"
    yield b"\1" + number + b"\3\4file"
    yield b"\2" + number + number
    yield b"\3" + number + peer
    yield b"\4" + number + b"\1" + number + bytes(8) + b"\0\x10" + bytes(14) + b"\x11\0\0\0" + token
    yield b"\5" + number + bytes(5) + number + bytes(8) + peer
    yield token


FUZZERS = {
    "configuration": ("cufile.json", configuration_seeds),
    "mounts": ("/proc/self/mountinfo", mounts_seeds),
    "machine": ("files of /proc, /sys and /etc, as the doctor and the library read them", machine_seeds),
    "recorded": ("the tar file of a recorded machine", recorded_seeds),
    "statistics": ("the statistics that another process shows", statistics_seeds),
    "http": ("what connects to sluice exporter", http_seeds),
    "gdsio_file": (".gdsio files", gdsio_seeds),
    "ptx": ("the PTX that a program hands to the soft GPU", ptx_seeds),
    "batch": ("entries of cuFileBatchIOSubmit", batch_seeds),
    "plan": ("ranges and options of sluice_plan_create, and what is done with the plan", plan_seeds),
    "rdma_files": ("the control channel of examples/rdma-files", rdma_files_seeds),
}


def seeds_of(name, work):
    """The folder of what the fuzzer begins with."""
    folder = work / "seeds" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    tree = work / "tree"
    if name in ("machine", "recorded"):
        shutil.rmtree(tree, ignore_errors=True)
        tree.mkdir(parents=True)
        expand.expand(expand.read(expand.MACHINES / f"{FUZZED_MACHINE}.txt")[2], tree)
    make = FUZZERS[name][1]
    given = {"machine": (tree,), "recorded": (tree, work)}.get(name, ())
    for number, seed in enumerate(make(*given)):
        (folder / f"{number:04}").write_bytes(seed)
    return folder


def run(name, build, work, seconds):
    """Returns whether nothing was found."""
    seeds = seeds_of(name, work)
    corpus = work / "corpus" / name
    found = work / "found"
    for folder in (corpus, found):
        folder.mkdir(parents=True, exist_ok=True)
    environment = dict(os.environ, SLUICE_FUZZ_TREE=str(work / "tree"),
                       LD_LIBRARY_PATH=f"{build / 'lib'}:{build / 'softgpu'}", SLUICE_STATS="0",
                       ASAN_OPTIONS="detect_leaks=0:abort_on_error=1", UBSAN_OPTIONS="print_stacktrace=1")
    command = [build / "fuzzers" / f"fuzz_{name}", f"-max_total_time={seconds}", "-timeout=20", "-rss_limit_mb=2500",
               "-max_len=65536", "-print_final_stats=1", f"-artifact_prefix={found}/{name}-", corpus, seeds]
    try:
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=seconds + 180, check=False)
        output, status = done.stdout.decode(errors="replace"), done.returncode
    except subprocess.TimeoutExpired as late:
        output, status = (late.stdout or b"").decode(errors="replace"), "no end"
    executions = re.findall(r"stat::number_of_executed_units:\s*(\d+)", output) or ["?"]
    coverage = re.findall(r" cov: (\d+)", output) or ["?"]
    words = "nothing found" if status == 0 else f"FAILED (status {status})"
    print(f"{name:14} {executions[-1]:>10} runs, {coverage[-1]:>6} edges: {words}", flush=True)
    if status != 0:
        print("\n".join("    " + line for line in output.splitlines()[-40:]))
        for place in sorted(found.glob(f"{name}-*")):
            print(f"    Once more: SLUICE_FUZZ_TREE={work / 'tree'} {command[0]} {place}")
    return status == 0


def main():
    parser = argparse.ArgumentParser(prog="./run fuzz", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="which; all when none is named")
    parser.add_argument("--seconds", type=int, default=60, help="how long each (60)")
    parser.add_argument("--list", action="store_true", help="show the names, and end")
    parser.add_argument("--build", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--work", type=pathlib.Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.list:
        for name, (what, _) in FUZZERS.items():
            print(f"{name:14} {what}")
        return 0
    for name in options.names:
        if name not in FUZZERS:
            parser.error(f'no fuzzer is called "{name}"; --list shows them')
    build, work = options.build.resolve(), options.work.resolve()
    results = [run(name, build, work, options.seconds) for name in options.names or FUZZERS]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
