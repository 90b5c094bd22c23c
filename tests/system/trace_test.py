# SPDX-License-Identifier: Apache-2.0
"""`sluice trace`: what is in a trace of a program, of a process that runs already, of one that crashed, and of none."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

from perfetto_reader import BOOTTIME, REALTIME, Trace
from support import BUILD, LIBRARY, SLUICE, SOURCE, contains, environment, equal, main, run, scratch, skip, skip_when_sanitized
from watching import PROGRAM, PYTHON, SIZE, program, until

NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
GDSIO = BUILD / "bin/gdsio"
MEBIBYTE = 1 << 20


def gdsio(file, *words):
    return (GDSIO, "-f", file, "-d", "0", "-x", "0", "-I", "0", "-O", "1", *words)


@contextlib.contextmanager
def traced(*words, size=16 * MEBIBYTE, trace=("-o", "{}/t.pftrace"), **variables):
    """A folder with the trace of gdsio, and what the tool said."""
    skip_when_sanitized()
    with scratch() as folder:
        (folder / "file").write_bytes(os.urandom(size))
        told = run(SLUICE, "trace", "--json", "--soft-gpu", *(word.format(folder) for word in trace), "--",
                   *gdsio(folder / "file", "-s", str(size), *words), env=environment(**variables))
        yield folder, json.loads(told.stderr[told.stderr.index("{"):])


def test_a_trace_has_each_request_with_its_phases_inside():
    with traced("-i", "16M") as (folder, told):
        trace = Trace(folder / "t.pftrace")
        equal((told["format"], told["lost"], told["threads_without_ring"], told["processes"]), ("perfetto", 0, 0, 1))
        equal([each.name for each in trace.processes], ["gdsio"])
        (request,) = trace.requests()
        equal(request.name, "read 16.0 MiB")
        equal({key: request.arguments[key] for key in ("offset", "bytes", "result", "GPU", "way", "file")},
              {"offset": 0, "bytes": 16 * MEBIBYTE, "result": 16 * MEBIBYTE, "GPU": 0, "way": "posix (soft_gpu)",
               "file": str(folder / "file")})
        reads = trace.slices("read from file")
        equal(sum(each.arguments["result"] for each in reads), 16 * MEBIBYTE)
        for each in reads:
            around = each.inside()[-1]
            equal(around is request or around.flows == request.flows, True)
            equal(request.begin <= each.begin <= each.end <= request.end, True)
        for moment in ("posix (soft_gpu)", "first byte", "last byte"):
            (found,) = trace.slices(moment)
            equal((found.parent is request, request.begin <= found.begin <= request.end), (True, True))
        (first,), (last,) = trace.slices("first byte"), trace.slices("last byte")
        equal(first.begin < last.begin, True)
        equal(bool(trace.slices("wait for device")), True)
        (counter,) = [track for track in trace.tracks.values() if track.is_counter]
        equal((counter.name, [count for _, count in counter.counts]), ("requests under way", [1, 0]))


def test_a_trace_says_when_things_were_by_the_clock_on_the_wall():
    before = time.time_ns()
    with traced("-i", "1M") as (folder, _):
        after = time.time_ns()
        trace = Trace(folder / "t.pftrace")
        for request in trace.requests():
            wall = trace.clocks[REALTIME] + request.begin - trace.clocks[BOOTTIME]
            equal(before <= wall <= after, True)


def test_a_trace_tells_workers_from_the_thread_that_they_help():
    with traced("-i", "16M", size=64 * MEBIBYTE) as (folder, _):
        trace = Trace(folder / "t.pftrace")
        requests = {flow: each for each in trace.requests() for flow in each.flows}
        equal(len(requests), 4)
        helped = trace.slices("help")
        if not helped:
            skip("this machine has one processor, or all others were busy: no worker helped")
        for each in helped:
            (flow,) = each.flows
            equal(requests[flow].begin <= each.begin, True)
        workers = {track.name for track in trace.threads if any(s.name == "help" for s in track.slices)}
        equal(all(name.startswith("sluice-work-") for name in workers), True)


def test_a_trace_for_chrome_has_the_same_events():
    with traced("-i", "1M", trace=("-o", "{}/t.json")) as (folder, told):
        equal(told["format"], "chrome")
        trace = json.loads((folder / "t.json").read_text())
        events = trace["traceEvents"]
        reads = [each for each in events if each["ph"] == "B" and each["name"] == "read 1.0 MiB"]
        equal(len(reads), 16)
        equal({each["args"]["file"] for each in reads}, {str(folder / "file")})
        stacks = {}
        for each in events:
            stack = stacks.setdefault((each["pid"], each["tid"]), [])
            if each["ph"] == "B":
                stack.append(each)
            elif each["ph"] == "E":
                begun = stack.pop()
                equal((begun["name"], begun["ts"] <= each["ts"]), (each["name"], True))
        equal([stack for stack in stacks.values() if stack], [])


def test_a_trace_of_many_threads_has_every_request():
    with traced("-i", "64K", "-w", "8") as (folder, told):
        trace = Trace(folder / "t.pftrace")
        equal((len(trace.requests()), told["lost"]), (256, 0))
        equal(sorted(each.arguments["offset"] for each in trace.requests()), [i * 65536 for i in range(256)])


def test_a_trace_with_little_room_counts_what_it_leaves_out():
    with traced("-i", "64K", trace=("-o", "{}/t.pftrace", "--events", "100")) as (_, told):
        equal((told["events"], told["lost"] > 100), (100, True))


def test_a_program_that_is_killed_leaves_its_trace():
    skip_when_sanitized()
    with scratch() as folder:
        (folder / "file").write_bytes(os.urandom(SIZE))
        with subprocess.Popen([SLUICE, "trace", "-o", folder / "t.pftrace", "--", PYTHON, "-B", PROGRAM, folder / "file",
                               "host"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment()) as tool:
            for line in ("open", "read 5"):
                tool.stdin.write(line + "\n")
                tool.stdin.flush()
                answer = tool.stdout.readline()
            os.kill(int(answer.split()[0]), signal.SIGKILL)
            equal(tool.wait(timeout=60), -signal.SIGKILL)
        equal(len(Trace(folder / "t.pftrace").requests()), 5)


def test_a_child_of_fork_has_a_trace_of_its_own():
    skip_when_sanitized()
    with scratch() as folder:
        (folder / "file").write_bytes(os.urandom(SIZE))
        run("sh", "-c", f"printf '%s\\n' open 'read 3' fork 'read 4' | {SLUICE} trace -o {folder}/t.pftrace -- "
                        f"{PYTHON} -B {PROGRAM} {folder}/file host")
        trace = Trace(folder / "t.pftrace")
        by_process = {}
        for track in trace.threads:
            count = sum(each.category == "request" and not each.moment for each in track.slices)
            by_process[track.process] = by_process.get(track.process, 0) + count
        equal(sorted(by_process.values()), [3, 4])


def wants_to_write_memory_of(pid):
    try:
        os.close(os.open(f"/proc/{pid}/mem", os.O_WRONLY))
    except OSError as refusal:
        skip(f"this user may not write the memory of its own processes ({refusal.strerror}): kernel.yama.ptrace_scope")


def test_a_process_that_runs_already_is_traced_while_somebody_looks():
    with program("host") as started, scratch() as folder:
        started.do("open", "read 3")
        wants_to_write_memory_of(started.pid)
        file = folder / "t.pftrace"
        with subprocess.Popen([SLUICE, "trace", str(started.pid), "-o", file], env=environment(), stderr=subprocess.PIPE,
                              text=True) as tool:
            # Its first event makes the memory: then it is being traced.
            def is_traced():
                started.do("read 1")
                return any(os.readlink(entry).startswith("/memfd:sluice-trace")
                           for entry in map(str, pathlib.Path(f"/proc/{started.pid}/fd").iterdir()) if os.path.islink(entry))
            until(is_traced)
            started.do("read 7")
            tool.send_signal(signal.SIGINT)
            equal(tool.wait(timeout=60), 0)
            contains(tool.stderr.read(), " events of 1 thread in ")
        traced_reads = len(Trace(file).requests())
        equal(traced_reads >= 7, True)
        # No tool looks any more: nothing is recorded.
        started.do("read 20")
        run(SLUICE, "trace", started.pid, "--seconds", "0", "-o", folder / "later.pftrace")
        equal(len(Trace(folder / "later.pftrace").requests()), traced_reads)


def test_a_process_that_records_always_shows_its_last_events():
    with program("host", SLUICE_TRACE="on") as started, scratch() as folder:
        started.do("open", "read 10000")
        told = json.loads(run(SLUICE, "trace", started.pid, "--seconds", "0", "--json", "-o", folder / "t.pftrace").stderr)
        equal(told["lost"] > 0, True)
        requests = Trace(folder / "t.pftrace").requests()
        equal(1000 < len(requests) < 10000, True)
        equal({each.arguments["result"] for each in requests if each.end}, {SIZE})


def test_a_process_that_nobody_traces_has_nothing_of_it():
    with program("host") as started:
        started.do("open", "read 3")
        links = [os.readlink(entry) for entry in pathlib.Path(f"/proc/{started.pid}/fd").iterdir()]
        equal([link for link in links if "sluice-trace" in link], [])


def test_trace_refuses_what_it_cannot_trace_and_says_why():
    skip_when_sanitized()
    for words, parts in ((("trace",), ("There is nothing to trace.", "sluice trace -- CMD")),
                         (("trace", "999999999"), ("no process",)),
                         (("trace", "--seconds", "-1", "1"), ("no time to trace for",)),
                         (("trace", str(os.getpid()), "--seconds", "1"), ("no libcufile.so.0 loaded",)),
                         (("trace", "--events", "-1", "--", "true"), ("--events: takes a whole number, 1 or more",)),
                         (("report", "--events", "-1", "--", "true"), ("--events: takes a whole number, 1 or more",)),
                         (("trace", "--", "true"), ("nothing to trace: no process of true",)),
                         (("trace", "--seconds", "1", "--", "true"), ("for a process that runs already", "sluice trace PID")),
                         (("trace", "1", "--", "true"), ("There are a process, 1, and a program, true.",))):
        told = run(SLUICE, *words, status=None)
        for part in parts:
            contains(told.stderr, part)


def test_a_trace_is_refused_before_the_program_runs_where_it_cannot_be_written():
    skip_when_sanitized()
    with scratch() as folder:
        told = run(SLUICE, "trace", "-o", "/nowhere/t", "--", "touch", folder / "ran", status=125)
        contains(told.stderr, "The trace cannot be written to /nowhere/t: No such file or directory.")
        contains(told.stderr, "--output FILE")
        contains(run(SLUICE, "trace", "-o", folder, "--", "touch", folder / "ran", status=125).stderr, "Is a directory")
        equal(list(folder.iterdir()), [])


def test_a_trace_that_cannot_be_written_when_the_program_has_ended_says_so_and_keeps_its_status():
    skip_when_sanitized()
    with scratch() as folder:
        (folder / "file").write_bytes(os.urandom(MEBIBYTE))
        program = " ".join(str(word) for word in gdsio(folder / "file", "-s", "1M", "-i", "1M"))
        for ends, status in (("true", 125), ("exit 7", 7), ("kill -TERM $$", -signal.SIGTERM)):
            told = run(SLUICE, "trace", "--json", "--soft-gpu", "-o", "/dev/full", "--", "sh", "-c", f"{program}; {ends}",
                       status=status)
            contains(told.stderr, "The trace cannot be written to /dev/full: No space left on device.")
            equal(json.loads(told.stderr[told.stderr.index("{"):])["remedy"], "Choose another place: --output FILE.")


def test_a_trace_of_nothing_is_an_object_too_and_leaves_what_was_there():
    skip_when_sanitized()
    with scratch() as folder:
        (folder / "t").write_text("a good one")
        told = json.loads(run(SLUICE, "trace", "--json", "-o", folder / "t", "--", "true").stderr)
        equal((told["file"], told["processes"], told["events"], told["bytes"]), (None, 0, 0, 0))
        equal([(path.name, path.read_text()) for path in folder.iterdir()], [("t", "a good one")])


def test_a_trace_goes_through_a_pipe_and_stdout():
    skip_when_sanitized()
    with scratch() as folder:
        (folder / "file").write_bytes(os.urandom(MEBIBYTE))
        program = [str(word) for word in gdsio(folder / "file", "-s", "1M", "-i", "1M")]
        os.mkfifo(folder / "pipe.json")
        with subprocess.Popen(["cat", folder / "pipe.json"], stdout=subprocess.PIPE, text=True) as reader:
            run(SLUICE, "trace", "--soft-gpu", "-o", folder / "pipe.json", "--", *program)
            equal("traceEvents" in json.loads(reader.stdout.read()), True)
        equal((folder / "pipe.json").is_fifo(), True)
        # Also where it is a file: what others have written there stays.
        run("sh", "-c", f"(echo before; {SLUICE} trace --soft-gpu --format chrome -o /dev/stdout -- {' '.join(program)}) > "
                        f"{folder}/all")
        text = (folder / "all").read_text()
        equal((text.startswith("before\n"), "traceEvents" in text), (True, True))


def test_a_trace_of_an_ordinary_user_is_for_it_and_for_root():
    if os.getuid() != 0 or shutil.which("setpriv") is None:
        skip("another user's process is started by root, with setpriv")
    with program("host", prefix=NOBODY, SLUICE_TRACE="on") as started, scratch() as folder:
        folder.chmod(0o777)
        started.do("open", "read 3")
        run(SLUICE, "trace", started.pid, "--seconds", "0", "-o", folder / "root.pftrace")
        equal(len(Trace(folder / "root.pftrace").requests()), 3)
        run(*NOBODY, SLUICE, "trace", started.pid, "--seconds", "0", "-o", folder / "own.pftrace")
        stranger = ("setpriv", "--reuid=65533", "--regid=65533", "--clear-groups")
        told = run(*stranger, SLUICE, "trace", started.pid, "--seconds", "0", "-o", folder / "no.pftrace", status=1)
        contains(told.stderr, "does not let you look")
        # Its user can read the memory, and neither write nor shrink it.
        (entry,) = [path for path in pathlib.Path(f"/proc/{started.pid}/fd").iterdir()
                    if os.readlink(path).startswith("/memfd:sluice-trace")]
        check = ("import mmap, os, sys\nfd = os.open(sys.argv[1], os.O_RDWR)\n"
                 "mmap.mmap(fd, 4096, prot=mmap.PROT_READ)\n"
                 "for attempt in (lambda: os.pwrite(fd, b'x', 0), lambda: os.ftruncate(fd, 0),\n"
                 "                lambda: mmap.mmap(fd, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE)):\n"
                 "    try:\n        attempt()\n    except PermissionError:\n        print('refused')\n")
        equal(run(*NOBODY, PYTHON, "-c", check, entry).stdout.split(), ["refused"] * 3)


LISTENER = """
import socket, sys
server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
server.bind("\\0" + sys.argv[1])
server.listen(8)
print("ready", flush=True)
connection, _ = server.accept()
data, descriptors, _, _ = socket.recv_fds(connection, 16, 4)
print(len(descriptors), flush=True)
"""


def test_a_trace_goes_to_no_listener_of_another_user():
    if os.getuid() != 0 or shutil.which("setpriv") is None:
        skip("a listener of another user is started by root, with setpriv")
    skip_when_sanitized()
    nobody_and_self = ((NOBODY, "0"), ((), "1"))
    for prefix, expected in nobody_and_self:
        name = f"sluice-test-{os.getpid()}-{expected}"
        with subprocess.Popen([*prefix, PYTHON, "-c", LISTENER, name], stdout=subprocess.PIPE, text=True) as listener:
            equal(listener.stdout.readline().strip(), "ready")
            with program("host", SLUICE_TRACE=name) as started:
                started.do("open", "read 1")
                equal(listener.stdout.readline().strip(), expected)


HOSTILE = """
import fcntl, mmap, os, sys
size, seals, fill = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
fd = os.memfd_create("sluice-trace", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
os.ftruncate(fd, size)
memory = mmap.mmap(fd, size)
for at in range(64, min(size, 1 << 22)):
    memory[at] = fill
memory[0:40] = b"".join(n.to_bytes(8, "little") for n in (0x4543415254434c53, 1, size, os.getpid(), 1 << 60))
if seals:
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
print("ready", flush=True)
sys.stdin.read()
"""


def test_a_trace_that_lies_harms_no_reader():
    size = (1 << 16) + 128 * ((40 * 16384 + 65535) // 65536 * 65536)
    for given, seals, fill in ((size, 1, 255), (size, 1, 1), (size, 0, 255), (4096, 1, 255)):
        with scratch() as folder, subprocess.Popen(
                [sys.executable, "-c", HOSTILE, str(given), str(seals), str(fill)], env=environment(),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
            equal(child.stdout.readline().strip(), "ready")
            told = run(SLUICE, "trace", child.pid, "--seconds", "0", "-o", folder / "t.pftrace", status=None)
            equal(told.returncode, 0 if given == size and seals else 1)
            if told.returncode == 0:
                Trace(folder / "t.pftrace")
            child.stdin.close()


# --- static probes ---------------------------------------------------------------------------------------------------

PROBES = {
    "sluice": {"read_start": 4, "read_done": 6, "write_start": 4, "write_done": 6, "route": 4, "fallback": 4, "error": 4,
               "file_register": 2, "batch_submit": 2, "batch_done": 2, "plan_submit": 3, "plan_done": 3, "stream_call": 4, "stream_done": 3},
    "cufio": {f"cufio_{way}_{verb}{tail}": 7 for way in ("px", "gds") for verb in ("read", "write")
              for tail in ("", "_async")},
    "sluice_switch": {"recorder": 1},
}


def notes_of(library):
    """(provider, name) -> (place, counter, arguments) of each static probe."""
    text = run("readelf", "-n", library).stdout
    found = {}
    for provider, name, place, counter, arguments in re.findall(
            r"Provider: (\S+)\n\s+Name: (\S+)\n\s+Location: (\S+), Base: \S+, Semaphore: (\S+)\n\s+Arguments: (.*)", text):
        if (provider, name) in found:
            raise AssertionError(f"{provider}:{name} stands at two places")
        found[provider, name] = (int(place, 16), int(counter, 16), arguments.split())
    return found


def test_the_library_has_its_static_probes_each_at_one_place():
    notes = notes_of(LIBRARY)
    equal(sorted(notes), sorted((provider, name) for provider, names in PROBES.items() for name in names))
    counters = {counter for (provider, _), (_, counter, _) in notes.items() if provider != "sluice_switch"}
    equal(len(counters), 1)
    (counter,) = counters
    equal(notes["sluice_switch", "recorder"][1], counter + 2)
    for (provider, name), (_, _, arguments) in notes.items():
        # The value of a register, of memory, or a number; a size before it.
        readable = all(re.match(r"-?8@(%\w+|-?\d*\(%\w+(,%\w+)?(,\d)?\)|\$-?\d+|x\d+|\[\w+(, -?\d+)?\]|-?\d+)$", each)
                       for each in re.split(r" (?=-?\d@)", " ".join(arguments)))
        equal((name, len(re.split(r" (?=-?\d@)", " ".join(arguments))), readable), (name, PROBES[provider][name], True))
    header = run("readelf", "-SW", LIBRARY).stdout
    (section,) = re.findall(r" \.probes +PROGBITS +(\w+) \w+ (\w+) \w+ +(\w+)", header)
    equal((int(section[0], 16) <= counter < int(section[0], 16) + int(section[1], 16), section[2]), (True, "WA"))


GUIDE = (SOURCE / "docs/guide/tracing.md").read_text(encoding="utf-8")


def one_liners(library):
    (block,) = re.findall(r"<!-- one-liners -->\n```text\n(.*?)```\n<!-- end -->", GUIDE, re.DOTALL)
    lines = block.strip().splitlines()
    equal(all(line.startswith("bpftrace -e '") and line.endswith("'") for line in lines), True)
    return [line[len("bpftrace -e '"):-1].replace("LIB", str(library)) for line in lines]


def test_the_guide_lists_the_static_probes_with_their_arguments():
    named = {}
    for names, arguments in re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| (.*) \|$", GUIDE, re.MULTILINE):
        # Arguments lie between commas, but for those of an explanation.
        count = len(re.sub(r"\([^)]*\)|:.*", "", arguments).split(","))
        named |= {name: count for name in re.findall(r"`(\w+)`", names)}
    equal(named, PROBES["sluice"])
    for name in PROBES["cufio"]:
        equal((name, f"`{name.removesuffix('_async')}`" in GUIDE), (name, True))


def test_bpftrace_answers_the_questions_of_the_guide():
    skip_when_sanitized()
    if shutil.which("bpftrace") is None:
        skip("bpftrace is not installed")
    if os.getuid() != 0:
        skip("bpftrace needs root")
    with scratch() as folder:
        (folder / "file").write_bytes(os.urandom(SIZE))
        out = folder / "out"
        # A copy of its own: the probes tell of every process that has the file, and other tests have the built one.
        library = folder / LIBRARY.name
        shutil.copy(LIBRARY, library)
        # Probes are attached in their order: the last tells that all are. A batch ends it, as bpftrace 0.17 misses a
        # signal that comes while it prints.
        last = f' usdt:{library}:sluice:batch_done {{ exit(); }} usdt:{library}:sluice:write_done {{ printf("watching\\n"); }}'
        with open(out, "w", encoding="utf-8") as to, subprocess.Popen(
                ["bpftrace", "-e", " ".join(one_liners(library)) + last], stdout=to, stderr=subprocess.STDOUT,
                env=environment(BPFTRACE_STRLEN="64")) as watcher:
            try:
                with program("device", libraries=folder) as started:
                    started.do("open")

                    def is_watched():
                        started.do("write 1")
                        return "watching" in out.read_text() or watcher.poll() is not None
                    until(is_watched)
                    if watcher.poll() is not None:
                        skip(f"this kernel takes no static probes: {out.read_text().strip().splitlines()[-1:]}")
                    started.do("read 20", "fail 3", "write 1", "batch 1")
                    watcher.wait(timeout=60)
            finally:
                watcher.kill()
        told = out.read_text()

    def counted(name):
        """Of a histogram."""
        (rows,) = re.findall(rf"^@{name}: \n((?:[\[(].*\n)+)", told, re.MULTILINE)
        return sum(int(count) for count in re.findall(r"^[\[(].*[\])]\s+(\d+) \|", rows, re.MULTILINE))

    equal((counted("us"), counted("size")), (24, 24))  # 20, the 3 that fail, and the batch's
    # A worker may have carried the batch.
    by_thread = re.findall(r"^@bytes\[[^,\]]+, 0\]: (\d+)$", told, re.MULTILINE)
    equal(sum(int(size) for size in by_thread), 24 * SIZE)
    (routes,) = re.findall(r"^@\[posix, soft_gpu\]: (\d+)$", told, re.MULTILINE)
    equal(int(routes) > 20, True)  # writes, too
    equal(sum(int(count) for count in re.findall(r"^\]: (\d+)$", told, re.MULTILINE)), 3)


# --- ranges ----------------------------------------------------------------------------------------------------------

PROFILER = BUILD / "test-bin/system/profiler.so"


def told_to_profiler(file, **variables):
    """Lines that the profiler's library wrote while some transfers were made."""
    with program("device", NVTX_INJECTION64_PATH=str(PROFILER), PROFILER_OUT=str(file), **variables) as started:
        started.do("open", "read 3", "write 2", "batch 4")
    return file.read_text().splitlines() if file.exists() else []


def test_ranges_are_made_where_they_are_wanted_and_nowhere_else():
    with scratch() as folder:
        lines = told_to_profiler(folder / "on", CUFILE_NVTX="1")
        equal(lines[:6], ["version 3", "domain sluice", *(f"category the domain {number} {name}" for number, name in
                                                         enumerate(("read", "write", "batch", "stream"), 1))])
        depth, ranges = {}, []
        for line in lines[6:]:
            words = line.split()
            thread = words[1]
            if words[0] == "push":
                equal(words[2:4] + words[7:], ["the", "domain", "3", "48"])
                depth[thread] = depth.get(thread, 0) + 1
                ranges.append(tuple(words[4:7]))
            else:
                depth[thread] -= 1
        equal(set(depth.values()), {0})
        equal((ranges.count(("1", "read", str(SIZE))), ranges.count(("2", "write", str(SIZE)))), (3, 2))
        equal(sum(int(size) for category, _, size in ranges if category == "3"), 4 * SIZE)
        equal(told_to_profiler(folder / "off"), [])


def test_a_profiler_that_cannot_be_loaded_is_told_and_nothing_else_changes():
    with scratch() as folder:
        log = folder / "log"
        with program("host", CUFILE_NVTX="1", NVTX_INJECTION64_PATH="/nowhere.so", CUFILE_LOGFILE_PATH=str(log),
                     CUFILE_LOGGING_LEVEL="WARN") as started:
            started.do("open", "read 3")
        contains(log.read_text(), "NVTX_INJECTION64_PATH cannot be used: /nowhere.so")


def test_a_setuid_program_loads_no_profiler():
    if os.getuid() != 0 or shutil.which("setpriv") is None:
        skip("a setuid program of another user is made by root, and started with setpriv")
    with scratch() as folder:
        folder.chmod(0o777)
        program_file, out = folder / "setuid", folder / "out"
        shutil.copy(BUILD / "test-bin/system/secure_program", program_file)
        (folder / "cufile.json").write_text('{"profile": {"nvtx": true}}')
        # As root, who may say what holds, but with privileges that its caller lacks: the loader calls that secure.
        given = environment(NVTX_INJECTION64_PATH=str(PROFILER), PROFILER_OUT=str(out), CUFILE_NVTX="1")
        plain = run(*NOBODY, program_file, env=given, status=None)
        if plain.returncode in (126, 127):
            skip("another user cannot reach the scratch folder or the build folder")
        equal(out.exists(), True)
        out.unlink()
        program_file.chmod(0o4755)
        if run(*NOBODY, program_file, env=given, status=None).returncode in (126, 127):
            skip("setuid programs are not allowed on this file system")
        equal(out.exists(), False)


if __name__ == "__main__":
    main(globals())
