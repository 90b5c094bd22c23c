# SPDX-License-Identifier: Apache-2.0
"""Why was my job slow at 14:03? A job whose storage is late for a while, and what dashboard, report and trace say of it.
The guide's example is what this run says, numbers apart.
"""
import contextlib
import ctypes
import datetime
import os
import re
import statistics
import subprocess
import time

from exporter_test import parse
from perfetto_reader import BOOTTIME, REALTIME, Trace
from report_test import text_of
from support import BUILD, SLUICE, SOURCE, environment, equal, main, run, scratch, skip, skip_when_sanitized
from watching import PYTHON, until

GUIDE = SOURCE / "docs/guide/tracing.md"
PROGRAM = SOURCE / "tests/system/slow_program.py"
SENTENCE = re.compile(r"From (\d\d:\d\d:\d\d\.\d{3}) to (\d\d:\d\d:\d\d\.\d{3}) transfers moved ([\d.]+ \w+/s), where ([\d.]+ \w+/s) is "
                      r"usual in this run\. (\d+) % of their time went by waiting for the file; 100 % of it was at (\S+)\.")


@contextlib.contextmanager
def sick_file_system():
    """A folder whose files are late when they are told to, and the file that tells them."""
    if os.getuid() != 0 or not os.path.exists("/dev/fuse"):
        skip("a FUSE file system is mounted by root, where there is /dev/fuse")
    server = next((path for path in (BUILD / "test-bin").rglob("sick_server")), None)
    if server is None:
        skip("the file system of tests/sick is not built")
    libc = ctypes.CDLL(None, use_errno=True)
    with scratch() as folder:
        place, condition = folder / "mnt", folder / "condition"
        place.mkdir()
        condition.write_bytes(bytes(32))
        with open(condition, "r+b") as memory:
            device = os.open("/dev/fuse", os.O_RDWR)
            options = f"fd={device},rootmode=40000,user_id=0,group_id=0,max_read=1048576"
            if libc.mount(b"sick", str(place).encode(), b"fuse", 6, options.encode()) != 0:
                os.close(device)
                skip(f"FUSE cannot be mounted: {os.strerror(ctypes.get_errno())}")
            process = subprocess.Popen([server, str(memory.fileno()), str(device)], pass_fds=(memory.fileno(), device))
            os.close(device)
            try:
                until(lambda: condition.read_bytes()[28:32] != bytes(4))
                yield place, condition
            finally:
                # By itself it ends with the last copy of the mount: a test with mounts of its own may have one for long.
                process.kill()
                process.wait(timeout=60)
                libc.umount2(str(place).encode(), 2)


def at_14_03():
    """The environment in which it is 14:03 now."""
    now = datetime.datetime.now(datetime.timezone.utc)
    minutes = (now.hour * 60 + now.minute - (14 * 60 + 3)) % (24 * 60)
    if minutes > 12 * 60:
        minutes -= 24 * 60
    sign = "-" if minutes < 0 else ""
    os.environ["TZ"] = f"<HERE>{sign}{abs(minutes) // 60}:{abs(minutes) % 60:02}"
    time.tzset()
    return environment(TZ=os.environ["TZ"])


def nanoseconds(clock, day):
    """Of a time of day as the page writes it, on the day of another moment."""
    hours, minutes, seconds = clock.split(":")
    midnight = datetime.datetime.fromtimestamp(day / 1e9).replace(hour=0, minute=0, second=0, microsecond=0)
    moment = midnight + datetime.timedelta(hours=int(hours), minutes=int(minutes), seconds=float(seconds))
    return int(moment.timestamp() * 1e9)


# --- the dashboard: what its panels ask, of the metrics at the borders of the job's parts ----------------------------

class Look:
    """The metrics of one process, as a Prometheus has them, at one moment."""

    def __init__(self, pid):
        self.time = time.time()
        own = ("pid", str(pid))
        text = run(SLUICE, "stats", "--prometheus").stdout
        self.series = {(name, labels - {own}): value for (name, labels), value in parse(text).items() if own in labels}


class Between:
    """What increased from one look to another."""

    def __init__(self, first, last):
        self.begin, self.end = first.time, last.time
        self.increase = {key: value - first.series.get(key, 0) for key, value in last.series.items()}

    def named(self, name, **labels):
        wanted = set(labels.items())
        return {own: value for (each, own), value in self.increase.items() if each == name and wanted <= own}

    def speed(self):
        return sum(self.named("sluice_transferred_bytes_total", direction="read").values()) / (self.end - self.begin)

    def quantile(self, share):
        """As histogram_quantile() has it, all sizes together."""
        counts = {}
        for labels, value in self.named("sluice_transfer_seconds_bucket", direction="read").items():
            bound = float(dict(labels)["le"].replace("+Inf", "inf"))
            counts[bound] = counts.get(bound, 0) + value
        below = before = 0.0
        for bound, count in sorted(counts.items()):
            if count >= share * max(counts.values()):
                return below + (bound - below) * (share * max(counts.values()) - before) / max(count - before, 1)
            below, before = bound, count
        raise AssertionError("nothing was counted")

    def ways(self):
        return sorted({(dict(labels)["path"], dict(labels)["reason"])
                       for labels, value in self.named("sluice_transfers_total").items() if value > 0})

    def errors(self):
        return sum(self.named("sluice_errors_total").values())

    def line(self):
        (way,) = self.ways()
        clock = [datetime.datetime.fromtimestamp(moment).strftime("%H:%M:%S") for moment in (self.begin, self.end)]
        return (f"{clock[0]} to {clock[1]}  read {self.speed() / (1 << 20):.0f} MiB/s  p50 {self.quantile(0.5) * 1e3:.1f} ms  "
                f"p99 {self.quantile(0.99) * 1e3:.1f} ms  {way[0]} ({way[1]})  errors {self.errors():.0f}")


def watched(job):
    """What the dashboard shows of the job's parts: usual, slow, usual."""
    looks = []
    with subprocess.Popen([str(word) for word in (SLUICE, "run", "--quiet", "--", *job, "waiting")], text=True, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, env=at_14_03() | {"SLUICE_STATS": "1"}) as process:
        children = f"/proc/{process.pid}/task/{process.pid}/children"
        for _ in range(4):
            equal(process.stdout.readline(), "waiting\n")
            with open(children, encoding="ascii") as file:
                (pid,) = file.read().split()
            looks.append(Look(pid))
            process.stdin.write("\n")
            process.stdin.flush()
        process.stdout.read()
    return [Between(first, last) for first, last in zip(looks, looks[1:])]


def dashboard(job):
    before, slow, after = watched(job)
    for usual in (before, after):
        equal((slow.quantile(0.5) > 2 * usual.quantile(0.5), slow.speed() < usual.speed()), (True, True))
        equal((slow.ways(), slow.errors()), (usual.ways(), 0))
    return "".join(f"{name:<10}{each.line()}\n" for name, each in (("dashboard", before), ("", slow), ("", after)))


# --- report and trace ------------------------------------------------------------------------------------------------

def reported(job, folder):
    """The page's sentence, where it is about the time when the storage was late; and what the page says."""
    told = run(SLUICE, "report", "-o", folder / "page.html", "--", *job, env=at_14_03())
    begin, end = map(int, told.stdout.split())
    text = text_of(folder / "page.html")
    found = SENTENCE.search(text)
    if not found:
        return None, text[:2000]
    from_, to = nanoseconds(found[1], begin), nanoseconds(found[2], begin)
    # Where this machine is busy, what lies beside it may be slow, too.
    return found if min(to, end) - max(from_, begin) > (end - begin) / 2 else None, found[0]


def report(job, folder, place):
    # A machine with much else to do may have had a slower moment of its own.
    for _ in range(4):
        found, told = reported(job, folder)
        if found:
            break
    if not found:
        raise AssertionError(f"the report does not say it: {told}")
    equal((int(found[5]) > 50, found[6]), (True, str(place / "0")))
    half = found[0].index(" is usual in this run. ") + len(" is usual in this run. ")
    return f"{'report':<10}{found[0][:half].rstrip()}\n{'':<10}{found[0][half:]}\n"


def trace(job, folder):
    told = run(SLUICE, "trace", "-o", folder / "run.pftrace", "--", *job, env=at_14_03())
    begin, end = map(int, told.stdout.split())
    seen = Trace(folder / "run.pftrace")
    wall = seen.clocks[REALTIME] - seen.clocks[BOOTTIME]
    requests = seen.requests()
    inside = [each for each in requests if begin <= each.begin + wall <= each.end + wall <= end]
    slow, usual = (statistics.median(each.end - each.begin for each in some) for some in (inside, requests))
    equal((len(inside), slow > 2 * usual), (100, True))
    in_file = sum(part.end - part.begin for part in seen.slices("read from file") if part.parent in inside)
    share = in_file / sum(each.end - each.begin for each in inside)
    equal(share > 0.5, True)
    clock = [datetime.datetime.fromtimestamp(moment / 1e9).strftime("%H:%M:%S.%f")[:-3] for moment in (begin, end)]
    return (f"{'trace':<10}{clock[0]} to {clock[1]}  {len(inside)} transfers of {slow / 1e6:.1f} ms, where {usual / 1e6:.1f} ms is "
            f"usual; {100 * share:.0f} % of that in read from file\n")


def masked(text):
    """Without what differs from run to run: numbers, and units of speeds."""
    return re.sub(r"[KMGT]iB/s", "B/s", re.sub(r"\d+(\.\d+)?", "#", re.sub(r"\s+", " ", text)))


def test_dashboard_report_and_trace_say_why_a_job_was_slow_and_when():
    skip_when_sanitized()
    with sick_file_system() as (place, condition), scratch() as folder:
        job = (PYTHON, "-B", PROGRAM, place / "0", condition)
        example = (dashboard(job) + report(job, folder, place) + trace(job, folder)).replace(str(place), "/mnt/data")
    print(example)
    (shown,) = re.findall(r"<!-- why slow -->\n```text\n(.*?)```\n<!-- end -->", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    equal(masked(shown), masked(example))


if __name__ == "__main__":
    main(globals())
