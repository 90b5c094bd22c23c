# SPDX-License-Identifier: Apache-2.0
"""gds_stats and `sluice stats PID`: what they show of a process that runs, and what they say when there is nothing."""
import contextlib
import json
import os
import pathlib
import pty
import re
import shutil
import subprocess
import sys

from support import BUILD, FOREIGN, SLUICE, contains, equal, main, run, skip
from watching import PYTHON, SIZE, number, program, until

GDS_STATS = BUILD / "bin/gds_stats"
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")


def shown(pid, *words):
    return json.loads(run(GDS_STATS, "-p", pid, "--json", *words).stdout)


def counts(answer):
    """Good and failed reads, the bytes of reads, and good writes."""
    return (number(answer, "calls", call="read", result="ok"), number(answer, "calls", call="read", result="error"),
            number(answer, "transferred_bytes", direction="read"), number(answer, "calls", call="write", result="ok"))


def reads(answer):
    return counts(answer)[0]


def refusal(pid, *parts, tool=(GDS_STATS, "-p"), status=1):
    answer = run(*tool, pid, status=status)
    equal(answer.stdout, "")
    equal(len(answer.stderr.splitlines()), 2)
    for part in parts:
        contains(answer.stderr, part)


def test_stats_of_a_running_process_are_those_of_its_transfers():
    with program("device", SLUICE_STATS="3") as started:
        started.do("open", "read 10", "write 3", "fail 2")
        answer = shown(started.pid)
        equal(counts(answer), (10, 2, 10 * SIZE, 3))
        equal((answer["level"], answer["running"], answer["ended"], answer["libraries"]), (3, True, False, 1))
        equal((answer["pid"], answer["program"]), (started.pid, "python3"))
        equal([(way["direction"], way["path"], way["reason"], way["value"])
               for way in answer["metrics"]["sluice_transfers_total"]],
              [("read", "posix", "soft_gpu", 10), ("write", "posix", "soft_gpu", 3)])
        gpu = {"gpu": "0", "UUID": "GPU-736c7569-6365-2d73-6f66-746770752d00"}
        equal((number(answer, "device_transfers", direction="read", **gpu),
               number(answer, "device_bytes", direction="read", **gpu),
               number(answer, "device_transfers", direction="write", **gpu),
               answer["metrics"]["sluice_registered_bytes"]), (10, 10 * SIZE, 3, [{**gpu, "value": SIZE}]))
        read_sizes, write_sizes = answer["metrics"]["sluice_transfer_size_bytes"]
        equal((read_sizes["buckets"], write_sizes["buckets"]), ([{"le": 2 * SIZE - 1, "count": 10}], [{"le": 2 * SIZE - 1, "count": 3}]))
        equal(number(answer, "calls", call="handle_register", result="ok"), 1)
        equal(number(answer, "carrier_requests"), 13)
        read_times, write_times = answer["metrics"]["sluice_transfer_seconds"]
        equal((read_times["count"], write_times["count"], read_times["path"], read_times["size"]), (10, 3, "posix", "64-256KiB"))
        equal(0 < read_times["p50"] <= read_times["p90"] <= read_times["p99"], True)
        started.do("batch 4")
        answer = shown(started.pid)
        equal(counts(answer), (14, 2, 14 * SIZE, 3))
        equal((number(answer, "batch_bytes", direction="read"), number(answer, "batch_entries", result="ok")),
              (4 * SIZE, 4))


def test_gds_stats_prints_what_scripts_know():
    with program("device", SLUICE_STATS="3") as started:
        started.do("open", "read 32", "write 16", "fail 1")
        text = run(GDS_STATS, "-p", started.pid, "-l", "3").stdout
        contains(text, "cuFile STATS VERSION : 8\nGLOBAL STATS:\nRead: ok = 32 err = 1\nWrite: ok = 16 err = 0\n"
                       "HandleRegister: ok = 1 err = 0\n")
        contains(text, "\nTotal Read Size (MiB): 2\nRead BandWidth (GiB/s): ")
        contains(text, "\nTotal Write Size (MiB): 1\n")
        contains(text, "\nREAD-WRITE SIZE HISTOGRAM :\n0-4(KiB): 0 0\n4-8(KiB): 0 0\n")
        contains(text, "\n64-128(KiB): 32 16\n")
        contains(text, "\n65536-...(KiB): 0 0\nPER_GPU STATS:\n")
        equal(bool(re.search(r"^GPU 0\(UUID: [0-9a-f]{32}\) Read: bw=\d+\.\d+ util\(%\)=\d+ n=32 posix=32 unalign=0 dr=0 "
                             r"r_sparse=0 r_inline=0 err=0 MiB=2 Write: bw=\d+\.\d+ util\(%\)=\d+ n=16 posix=16 unalign=0 dr=0 "
                             r"err=0 MiB=1 BufRegister: n=1 err=0 free=0 MiB=0$", text, re.MULTILINE)), True)
        first = run(GDS_STATS, "-p", started.pid, "-l", "1").stdout
        equal(("HISTOGRAM" in first, "PER_GPU" in first), (False, False))
        second = run(GDS_STATS, "-p", started.pid, "-l", "2").stdout
        equal(("HISTOGRAM" in second, "PER_GPU" in second), (True, False))


def test_stats_of_a_running_process_are_a_table_for_people():
    with program("host", SLUICE_STATS="1") as started:
        started.do("open", "read 5")
        text = run(SLUICE, "stats", started.pid).stdout
        contains(text, f"Process {started.pid} (python3) on Sluice ")
        contains(text, ": statistics of level 1, running for ")
        equal(bool(re.search(r"^reads +5 +0 +320\.0 KiB ", text, re.MULTILINE)), True)
        equal(bool(re.search(r"^posix \(host_memory\) +5 +320\.0 KiB +0 +0 bytes +0$", text, re.MULTILINE)), True)
        equal("\nsize" in text, False)
        contains(run(SLUICE, "stats", "-l", "2", started.pid).stdout, "\nfrom 64.0 KiB ")
        equal(reads(json.loads(run(SLUICE, "stats", started.pid, "--json").stdout)), 5)


def test_stats_follow_the_level_of_the_process():
    with program() as started:
        started.do("open", "read 2")
        refusal(started.pid, "error opening gds stats: Process ", "shows no statistics: their level is 0", "SLUICE_STATS=3",
                "cuFileSetStatsLevel(3)")
        refusal(started.pid, "sluice: Process ", "their level is 0", tool=(SLUICE, "stats"))
        started.do("level 2", "read 3")
        answer = shown(started.pid)
        equal((counts(answer), answer["level"], "sluice_registered_bytes" in answer["metrics"],
               "sluice_transfer_size_bytes" in answer["metrics"]), ((3, 0, 3 * SIZE, 0), 2, False, True))
        started.do("stop", "read 1")
        answer = shown(started.pid)
        equal((reads(answer), answer["running"]), (3, False))
        contains(run(SLUICE, "stats", started.pid).stdout, "stopped after")
        started.do("reset", "level 3", "read 1")
        equal(counts(shown(started.pid)), (1, 0, SIZE, 0))


def test_stats_of_an_ordinary_user_are_for_it_and_for_root():
    if os.getuid() != 0 or shutil.which("setpriv") is None:
        skip("acting as another user needs root, and setpriv")
    with program("host", NOBODY, SLUICE_STATS="3") as started:
        started.do("open", "read 4")
        equal(counts(shown(started.pid))[0], 4)
        own = run(*NOBODY, GDS_STATS, "-p", started.pid, "--json", status=None)
        if "cannot open shared object" in own.stderr or own.returncode == 126:
            skip("another user cannot reach the build folder")
        equal(counts(json.loads(own.stdout))[0], 4)
    with program("host", SLUICE_STATS="3") as started:
        started.do("open")
        answer = run(*NOBODY, GDS_STATS, "-p", started.pid, status=1)
        contains(answer.stderr, "does not let you look: Permission denied.\n")
        contains(answer.stderr, "as root.")


def test_stats_of_a_process_that_closed_the_descriptor_are_read_from_its_memory():
    with program("host", SLUICE_STATS="3") as started:
        started.do("open", "read 4", "forget", "read 2")
        equal([name for name in os.listdir(f"/proc/{started.pid}/fd")
               if "sluice-stats" in os.readlink(f"/proc/{started.pid}/fd/{name}")], [])
        answer = run(GDS_STATS, "-p", started.pid, "--json", status=None)
        if "its memory cannot be read" in answer.stderr:
            skip("this user may not read the memory of its own processes (ptrace_scope)")
        equal(counts(json.loads(answer.stdout))[0], 6)


def test_stats_of_a_forked_child_are_its_own():
    with program("host", SLUICE_STATS="3") as started:
        started.do("open", "read 4")
        parent = started.pid
        child = started.do("fork").pid
        equal(parent == child, False)
        equal(counts(shown(child)), (0, 0, 0, 0))
        started.do("read 2", "fork", "read 1")
        equal([counts(shown(pid))[0] for pid in (parent, child, started.pid)], [4, 2, 1])


def test_stats_end_with_the_program_that_another_one_replaces():
    with program("host", SLUICE_STATS="3") as started:
        started.do("open", "read 4")
        watching = subprocess.Popen([GDS_STATS, "-p", str(started.pid), "--interval", "0.2", "--json"],
                                    stdout=subprocess.PIPE, text=True)
        watching.stdout.readline()
        started.do("sleep")
        last = json.loads(watching.communicate(timeout=60)[0].splitlines()[-1])
        equal((last["ended"], reads(last), watching.returncode), (True, 4, 0))
        refusal(started.pid, "has no libcufile.so.0 loaded")


def test_stats_of_a_process_that_ends_while_it_is_watched_are_shown_in_all():
    with program("host", SLUICE_STATS="3") as started:
        started.do("open", "read 4")
        # Longer than this test may take: it is the end that wakes it.
        watching = subprocess.Popen([SLUICE, "stats", str(started.pid), "--interval", "86400"], stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True)
        until(lambda: "sluice-stats" in pathlib.Path(f"/proc/{watching.pid}/maps").read_text(encoding="utf-8"))
        started.do("read 5")
        equal(started.end(), 0)
        text, complaints = watching.communicate(timeout=60)
        equal((complaints, watching.returncode), ("", 0))
        contains(text, "It has ended. In all:\n")
        equal(bool(re.search(r"^reads +9 +0 ", text, re.MULTILINE)), True)
    refusal(started.pid, "There is no process ")


def test_stats_at_intervals_show_what_came_between():
    with program("host", SLUICE_STATS="1") as started:
        started.do("open", "read 7")
        watching = subprocess.Popen([GDS_STATS, "-p", str(started.pid), "--interval", "0.1", "--json"],
                                    stdout=subprocess.PIPE, text=True)
        lines = [json.loads(watching.stdout.readline())]
        started.do("read 6")
        while reads(lines[-1]) < 13:
            lines.append(json.loads(watching.stdout.readline()))
        started.end()
        # communicate() would leave out what has come along with the lines above.
        lines += [json.loads(line) for line in watching.stdout]
        watching.wait(timeout=60)
        equal(lines[-1]["ended"], True)
        equal(sum(reads(line["interval"]) for line in lines[1:]), 6)
        equal(all(line["interval"]["seconds"] > 0 for line in lines), True)


def test_stats_at_intervals_are_lines_that_a_terminal_gets_at_once():
    with program("host", SLUICE_STATS="1") as started:
        started.do("open", "read 1")
        leader, follower = pty.openpty()
        watching = subprocess.Popen([SLUICE, "stats", str(started.pid), "--interval", "0.01", "--count", "22"],
                                    stdout=follower, stderr=follower)
        os.close(follower)
        text = ""
        with contextlib.suppress(OSError):  # the end of a terminal
            while piece := os.read(leader, 65536):
                text += piece.decode()
        os.close(leader)
        equal(watching.wait(timeout=60), 0)
        lines = text.replace("\r", "").splitlines()
        equal((len(lines), lines[0].split()[0], lines[21]), (24, "reads/s", lines[0]))
        few = run(GDS_STATS, "-p", started.pid, "--interval", "0.01", "--count", "2").stdout.splitlines()
        equal((len(few), few[0].split()[0]), (3, "reads/s"))


def test_stats_of_a_sandboxed_process_say_what_may_be_the_matter():
    with program("host", (PYTHON, "-B", "-c", SANDBOX), SLUICE_STATS="3") as started:
        started.do("open", "read 3")
        refusal(started.pid, "or its sandbox (seccomp) refuses memfd_create.", "its log says why")


# Executes a program that may do everything but memfd_create, which answers EPERM.
SANDBOX = r"""
import ctypes, os, struct, sys
filters = b"".join(struct.pack("HBBI", *line) for line in
                   ((0x20, 0, 0, 0), (0x15, 0, 1, 319), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7fff0000)))
room = ctypes.create_string_buffer(filters, len(filters))
class Filter(ctypes.Structure):
    _fields_ = [("count", ctypes.c_ushort), ("lines", ctypes.c_void_p)]
libc = ctypes.CDLL(None)
libc.prctl(38, 1, 0, 0, 0)
if libc.prctl(22, 2, ctypes.byref(Filter(4, ctypes.addressof(room)))) != 0:
    sys.exit("no filter")
os.execv(sys.argv[1], sys.argv[1:])
"""


HOLDER = "import ctypes, sys; ctypes.CDLL(sys.argv[1]); print(flush=True); input()"


def test_stats_of_a_process_on_another_libcufile_say_so():
    holding = subprocess.Popen([PYTHON, "-c", HOLDER, str(FOREIGN)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    holding.stdout.readline()
    try:
        refusal(holding.pid, "runs on a libcufile that is not Sluice's", "sluice run -- CMD")
    finally:
        holding.communicate("\n", timeout=60)


# Shows what looks like statistics: a head of other words.
PRETENDER = """
import ctypes, mmap, os, struct, sys
magic, version, size, pid, room = map(int, sys.argv[1:])
fd = os.memfd_create("sluice-stats", os.MFD_ALLOW_SEALING)
os.truncate(fd, room)
os.pwrite(fd, struct.pack("QIIQ32s", magic, version, size, pid or os.getpid(), b"9.9\\x1b[31m"), 0)
memory = mmap.mmap(fd, room)
print(flush=True)
input()
"""


def test_stats_that_another_version_shows_or_nobody_are_refused():
    magic, whole = 0x5354415453434C53, 53248
    ours = "has no libcufile.so.0 loaded"
    for numbers, part in (((magic, 5, whole, 0, whole), "runs on another version of Sluice: its statistics have layout 5"),
                          ((magic, 4, 8192, 0, 8192), "layout 4 of 8192 bytes, this tool reads layout 4 of 53248."),
                          ((magic + 1, 4, whole, 0, whole), ours), ((magic, 4, whole, 1, whole), ours),
                          ((magic, 4, whole, 0, 4096), "No sample")):
        pretending = subprocess.Popen([PYTHON, "-c", PRETENDER, *map(str, numbers)], stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, text=True)
        pretending.stdout.readline()
        try:
            if part == "No sample":  # shorter than it says: what is there is read, and nothing behind it
                equal(reads(shown(pretending.pid)), 0)
            else:
                refusal(pretending.pid, part)
        finally:
            pretending.communicate("\n", timeout=60)


# Shows a region of version 4: three reads of 64 KiB, level 2.
VERSION_4 = """
import fcntl, mmap, os, sys
fd = os.memfd_create("sluice-stats", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
os.ftruncate(fd, 53248)
memory = mmap.mmap(fd, 53248)
words = {0: 0x5354415453434c53, 8: 4 | 53248 << 32, 16: os.getpid(), 24: 0x302e312e30, 56: 2, 512: 3, 528: 3 * 65536,
         592: 3, 3152: 3, 3160: 3 * 65536}
for place, word in words.items():
    memory[place:place + 8] = word.to_bytes(8, "little")
fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
print("ready", flush=True)
sys.stdin.read()
"""


def test_stats_of_a_process_on_version_4_are_read():
    with subprocess.Popen([PYTHON, "-c", VERSION_4], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as old:
        equal(old.stdout.readline(), "ready\n")
        answer = shown(old.pid)
        equal(counts(answer), (3, 0, 3 * SIZE, 0))
        equal((answer["library"], answer["level"]), ("0.1.0", 2))
        equal(answer["metrics"]["sluice_transfer_size_bytes"][0]["buckets"], [{"le": 2 * SIZE - 1, "count": 3}])
        equal("sluice_transfer_seconds" in answer["metrics"], False)


def test_stats_command_line_is_held_to_what_it_says():
    refusal(2**22 + 1, "There is no process", "pgrep -a NAME")
    for words, part in (((), "--pid is required"), (("-p", "x"), "x"), (("-p", "0"), "0 is no number of a process"),
                        (("-p", "1", "-l", "4"), "There is no level 4"), (("-p", "1", "--count", "2"), "Add --interval 1"),
                        (("-p", "1", "--interval", "1", "--count", "-1"), "1 or more"),
                        (("-p", "1", "--interval", "-1"), "--interval wants seconds")):
        answer = run(GDS_STATS, *words, status=2)
        equal((answer.stdout, answer.stderr.startswith("gds_stats: ")), ("", True))
        contains(answer.stderr, part)
    for words, part in ((("--interval", "1"), "are for a process that runs already"),
                        (("1", "--", "true"), "There are a process, 1, and a program, true."), ((), "sluice stats -- CMD"),
                        (("0",), "0 is no number of a process"), (("1", "-o", "file"), "for a program that is started"),
                        (("--prometheus", "file"), "--prometheus=file"), (("--prometheus", "--", "true"), "takes no program"),
                        (("--names", "--json"), "a form of its own"), (("1", "--interval", "1", "--count", "0"), "1 or more"),
                        (("1", "--interval", "1", "--count", "-1"), "1 or more")):
        contains(run(SLUICE, "stats", *words, status=2).stderr, part)
    contains(run(GDS_STATS, "--help").stdout, "Examples:")
    equal(re.findall(r"jq \.(\S+)", run(GDS_STATS, "--help").stdout), ["metrics.sluice_transfers_total"])
    contains(json.loads(run(GDS_STATS, "-p", 2**22 + 1, "--json", status=1).stdout)["remedy"], "pgrep")


def test_root_without_the_power_to_look_is_not_told_to_be_root():
    if os.getuid() != 0 or shutil.which("setpriv") is None:
        skip("root that may not look is made by root, with setpriv")
    powerless = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")
    for words in (("stats", os.getpid()), ("trace", os.getpid(), "--seconds", "0"), ("trace", os.getpid(), "--seconds", "1")):
        told = run(*powerless, SLUICE, *words, status=1).stderr
        contains(told, "does not let you look: Permission denied.\n        Ask outside of this container, or give it CAP_SYS_PTRACE")


if __name__ == "__main__":
    main(globals())
