# SPDX-License-Identifier: Apache-2.0
"""`sluice exporter`, `sluice stats --prometheus`, and what is drawn of their metrics: a Prometheus, a dashboard, a page."""
import contextlib
import json
import os
import re
import shutil
import socket
import stat
import subprocess
import urllib.error
import urllib.parse
import urllib.request

from support import BUILD, SLUICE, SOURCE, contains, environment, equal, main, run, scratch, skip
from watching import PYTHON, SIZE, program, until

PAGE = SOURCE / "docs/reference/statistics.md"
DASHBOARD = SOURCE / "deploy/grafana/sluice.json"
LINE = re.compile(r'^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$')
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"(?:,|$)')


class Exporter:
    def __init__(self, *words, prefix=()):
        self.process = subprocess.Popen([*prefix, SLUICE, "exporter", "--listen", "127.0.0.1:0", *words], text=True,
                                        stderr=subprocess.PIPE, env=environment())
        self.url = re.fullmatch(r"sluice: (http://127\.0\.0\.1:\d+)/metrics\n", self.process.stderr.readline())[1]
        self.port = int(self.url.rpartition(":")[2])

    def scrape(self):
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=60) as answer:
            contains(answer.headers["Content-Type"], "version=0.0.4")
            return parse(answer.read().decode("utf-8"))

    def say(self, text):
        """What comes back for these bytes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
            connection.sendall(text)
            answer = b""
            while piece := connection.recv(65536):
                answer += piece
            return answer.decode("utf-8")


@contextlib.contextmanager
def exporter(*words, **more):
    started = Exporter(*words, **more)
    try:
        yield started
    finally:
        started.process.terminate()
        started.process.communicate(timeout=60)


def parse(text):
    """{(name, labels): value}; whatever is not the text format 0.0.4 is an error."""
    series, kinds = {}, {}
    for line in text.splitlines():
        if line.startswith("# HELP "):
            continue
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            equal(name in kinds, False)
            kinds[name] = kind
            continue
        name, labels, value = LINE.match(line).groups()
        pairs = LABEL.findall(labels or "")
        equal(",".join(f'{key}="{word}"' for key, word in pairs), labels or "")
        base = re.sub("_(bucket|sum|count)$", "", name)
        equal(kinds.get(name, kinds.get(base)) is not None, True)
        key = (name, frozenset(pairs))
        equal(key in series, False)
        series[key] = float(value)
    return series


def number(series, name, **labels):
    wanted = {(key, str(value)) for key, value in labels.items()}
    return sum(value for (each, own), value in series.items() if each == name and wanted <= own)


def names_of_table():
    rows = run(SLUICE, "stats", "--names").stdout.splitlines()[2:]
    cells = [[cell.strip(" `") for cell in row.strip("|").split("|")] for row in rows]
    return {row[0]: row[1:] for row in cells}


def test_a_scrape_tells_what_a_process_did_and_sizes_end_below_their_power_of_two():
    with program("device", SLUICE_STATS="3") as started, exporter() as exported:
        started.do("open", "read 10", "write 3", "fail 2", "batch 4")
        series = exported.scrape()
        own = {"pid": started.pid, "comm": "python3"}
        equal(number(series, "sluice_transfers_total", direction="read", path="posix", reason="soft_gpu", **own), 14)
        equal(number(series, "sluice_transferred_bytes_total", direction="write", **own), 3 * SIZE)
        equal(number(series, "sluice_calls_total", call="read", result="error", **own), 2)
        equal(number(series, "sluice_batch_bytes_total", direction="read", **own), 4 * SIZE)
        gpu = {"UUID": "GPU-736c7569-6365-2d73-6f66-746770752d00", "gpu": 0}
        equal(number(series, "sluice_device_bytes_total", direction="read", **gpu, **own), 14 * SIZE)
        equal(number(series, "sluice_registered_bytes", **gpu, **own), SIZE)
        # 64 KiB is more than 65535 bytes, and no more than 131071.
        sizes = {dict(labels)["le"]: value for (name, labels), value in series.items()
                 if name == "sluice_transfer_size_bytes_bucket" and {("direction", "read"), ("pid", str(started.pid))} <= labels}
        equal((sizes["65535"], sizes["131071"], sizes["+Inf"]), (0, 14, 14))
        equal(number(series, "sluice_transfer_seconds_count", direction="read", size="64-256KiB", **own), 14)
        busy = number(series, "sluice_busy_seconds_total", direction="read", **own)
        told = number(series, "sluice_transfer_seconds_sum", direction="read", **own)
        equal(abs(told - busy) <= 0.06 * busy, True)


def test_all_series_are_of_the_table_and_their_buckets_only_rise():
    table = names_of_table()
    with program("device", SLUICE_STATS="1") as started, exporter() as exported:
        started.do("open", "read 10", "write 3", "batch 4")
        series = exported.scrape()
        for name, labels in series:
            base = name if name in table else re.sub("_(bucket|sum|count)$", "", name)
            kind, named = table[base][:2]
            equal((kind == "histogram") == (base != name), True)
            known = {"pid", "comm", "pod_uid", "le", *named.split(", ")}
            equal({key for key, _ in labels} - known, set())
            equal(name.endswith("_total"), kind == "counter")
        groups = {}
        for (name, labels), value in series.items():
            if name.endswith("_bucket"):
                rest = frozenset(pair for pair in labels if pair[0] != "le")
                groups.setdefault((name, rest), []).append((float(dict(labels)["le"]), value))
        for (name, rest), buckets in groups.items():
            counts = [value for _, value in sorted(buckets)]
            equal(counts, sorted(counts))
            equal(counts[-1], series[name.replace("_bucket", "_count"), rest])


def counters(series):
    return {key: value for key, value in series.items() if re.search("_(total|bucket|sum|count)$", key[0])}


def test_counters_never_fall_when_they_are_reset_and_when_processes_end():
    with program("host", SLUICE_STATS="3") as started, exporter() as exported:
        seen = []
        for lines in (("open", "read 5"), ("reset", "read 2"), ("level 0",), ("level 3", "read 1"), ("sleep",)):
            started.do(*lines)
            seen.append(counters(exported.scrape()))
        pid = started.pid
        equal(started.end(), 0)
        seen.append(counters(exported.scrape()))
        seen.append(counters(exported.scrape()))
        for before, after in zip(seen, seen[1:]):
            for key, value in before.items():
                if ("pid", str(pid)) in key[1] and after.get(key, -1) < value:
                    raise AssertionError(f"{key} was {value} and is {after.get(key)}")
        equal(number(seen[-1], "sluice_calls_total", call="read", result="ok", pid=pid), 8)


def test_what_a_process_did_last_before_it_ended_is_told():
    with program("host", SLUICE_STATS="3") as started, exporter() as exported:
        started.do("open", "read 5")
        exported.scrape()
        started.do("read 4")
        equal(started.end(), 0)
        series = exported.scrape()
        equal(number(series, "sluice_calls_total", call="read", result="ok", pid=started.pid), 9)
        equal(number(series, "sluice_registered_host_bytes", pid=started.pid), 0)


# Another's process, in every way that it can lie: what it is called, what it shows, what its memory is.
HOSTILE = """
import ctypes, fcntl, mmap, os, sys
kind = sys.argv[1]
flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
size = 53248 if kind == "short" else 569984
fd = os.memfd_create("sluice-stats", flags)
os.ftruncate(fd, size)
memory = mmap.mmap(fd, size)
if kind != "holes":
    memory[:] = os.urandom(size) if kind == "random" else b"\\xff" * size
version = 77 if kind == "layout" else 4
head = (0x5354415453434c53).to_bytes(8, "little") + version.to_bytes(4, "little") + (53248).to_bytes(4, "little")
memory[0:24] = head + os.getpid().to_bytes(8, "little")
if kind != "unsealed":
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | (0 if kind == "holes" else 0x10))
ctypes.CDLL(None).prctl(15, b'x"y\\\\z\\n\\xff{', 0, 0, 0)
print("ready", flush=True)
for line in sys.stdin:
    memory[24:] = os.urandom(size - 24)
    print("ready", flush=True)
"""


def test_processes_that_lie_harm_neither_the_exporter_nor_what_it_tells_of_others():
    kinds = ["ones", "random", "short", "layout", "unsealed", "holes"]
    with contextlib.ExitStack() as stack:
        started = stack.enter_context(program("host", SLUICE_STATS="3"))
        exported = stack.enter_context(exporter())
        liars = [stack.enter_context(subprocess.Popen([PYTHON, "-c", HOSTILE, kind], stdin=subprocess.PIPE,
                                                      stdout=subprocess.PIPE, text=True)) for kind in kinds]
        for liar in liars:
            equal(liar.stdout.readline(), "ready\n")
        started.do("open", "read 5")
        seen = []
        for _ in range(4):
            seen.append(exported.scrape())
            for liar in liars:
                liar.stdin.write("again\n")
                liar.stdin.flush()
                equal(liar.stdout.readline(), "ready\n")
        for series in seen:
            equal(number(series, "sluice_calls_total", call="read", result="ok", pid=started.pid), 5)
        known = {pid for _, labels in seen[-1] for key, pid in labels if key == "pid"}
        followed = [str(liar.pid) in known for liar in liars]
        equal(followed, [True, True, True, False, False, False])
        equal(number(seen[0], "sluice_exporter_processes_left_out", why="unreadable") >= 3, True)
        # Names stay what they were at first sight, so that no process makes new series each time.
        own = [("pid", str(liar.pid)) for liar in liars]
        seen = [{key: value for key, value in series.items() if key[1] & set(own)} for series in seen]
        names = [{key for key in series if key[0] in ("sluice_build_info", "sluice_registered_bytes")} for series in seen]
        equal([len(each - names[0]) for each in names], [0, 0, 0, 0])
        for before, after in zip(seen, seen[1:]):
            fallen = [key for key, value in counters(before).items() if after.get(key, -1) < value]
            equal(fallen[:3], [])
        for liar in liars:
            liar.stdin.close()
            liar.wait(timeout=60)


def test_more_processes_than_it_follows_are_counted_and_left_out():
    with program("host", SLUICE_STATS="1") as first, program("host", SLUICE_STATS="1") as second:
        first.do("open", "read 1")
        second.do("open", "read 1")
        with exporter("--processes", "1") as exported:
            series = exported.scrape()
            equal(number(series, "sluice_exporter_processes"), 1)
            equal(number(series, "sluice_exporter_processes_left_out", why="limit") >= 1, True)
            equal(len({pid for _, labels in series for key, pid in labels if key == "pid"}), 1)


def test_one_user_takes_at_most_half_of_the_places():
    if os.getuid() != 0 or shutil.which("setpriv") is None:
        skip("another user is made by root, with setpriv")
    user = ("setpriv", "--reuid=65533", "--regid=65533", "--clear-groups")
    with contextlib.ExitStack() as stack:
        theirs = [stack.enter_context(program("host", prefix=user, SLUICE_STATS="1")) for _ in range(3)]
        try:
            for started in theirs:
                started.do("open", "read 1")
        except AssertionError:
            skip("another user cannot reach the build folder")
        series = stack.enter_context(exporter("--processes", "4")).scrape()
        pids = {pid for _, labels in series for key, pid in labels if key == "pid"}
        equal(len(pids & {str(started.pid) for started in theirs}) <= 2, True)
        equal(number(series, "sluice_exporter_processes_left_out", why="limit") >= 1, True)


def test_it_sleeps_while_nobody_scrapes():
    def turns(pid):
        text = open(f"/proc/{pid}/status", encoding="utf-8").read()
        return sum(int(count) for count in re.findall(r"ctxt_switches:\s+(\d+)", text))

    def sleeps_without_connections(pid):
        sockets = 0
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(FileNotFoundError):
                sockets += os.readlink(f"/proc/{pid}/fd/{name}").startswith("socket:")
        state = open(f"/proc/{pid}/stat", encoding="utf-8").read().rpartition(")")[2].split()[0]
        return (sockets, state) == (1, "S")

    with exporter() as exported:
        exported.scrape()
        until(lambda: sleeps_without_connections(exported.process.pid))
        before = turns(exported.process.pid)
        with program("host", SLUICE_STATS="1") as started:
            started.do("open", "read 100")
        # One, where it was just about to sleep.
        equal(turns(exported.process.pid) - before <= 1, True)


def test_requests_that_are_none_are_refused_and_slow_ones_hold_nobody_up():
    with exporter() as exported, contextlib.ExitStack() as stack:
        for text, status in ((b"GET /metrics HTTP/1.1\r\n\r\n", 200), (b"GET /metrics?x=1 HTTP/1.0\n\n", 200),
                             (b"HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n", 200), (b"GET / HTTP/1.1\r\n\r\n", 200),
                             (b"GET /x HTTP/1.1\r\n\r\n", 404), (b"POST /metrics HTTP/1.1\r\n\r\n", 405),
                             (b"\r\n\r\n", 400), (b"GET metrics HTTP/1.1\r\n\r\n", 400),
                             (b"GET /\xff HTTP/1.1\r\n\r\n", 400), (b"GET /metrics HTTP/2\r\n\r\n", 400),
                             (b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 9000, 431)):
            contains(exported.say(text).splitlines()[0], f"HTTP/1.1 {status} ")
        equal(exported.say(b"HEAD /metrics HTTP/1.1\r\n\r\n").endswith("\r\n\r\n"), True)
        for _ in range(40):
            slow = stack.enter_context(socket.create_connection(("127.0.0.1", exported.port), timeout=60))
            slow.sendall(b"GET /metr")
        exported.scrape()


def test_addresses_that_cannot_be_listened_on_are_refused():
    for address, part in (("x", "is no address"), ("127.0.0.1", "is no address"), ("localhost:1", "in numbers"),
                          ("127.0.0.1:99999", "no port from 0 to 65535"), ("127.0.0.1:x", "no port"),
                          ("256.0.0.1:1", "in numbers")):
        contains(run(SLUICE, "exporter", "--listen", address, status=2).stderr, part)
    with exporter() as exported:
        contains(run(SLUICE, "exporter", "--listen", f"127.0.0.1:{exported.port}", status=1).stderr, "Nothing can listen on")
    contains(run(SLUICE, "exporter", "--processes", "0", status=2).stderr, "from 1 to 4096")


def test_a_user_is_told_of_its_own_processes_alone():
    if os.getuid() != 0 or shutil.which("setpriv") is None:
        skip("another user is made by root, with setpriv")
    nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    with program("host", prefix=nobody, SLUICE_STATS="1") as theirs, program("host", SLUICE_STATS="1") as ours:
        theirs.do("open", "read 1")
        ours.do("open", "read 1")
        try:
            with exporter(prefix=nobody) as exported:
                pids = {pid for _, labels in exported.scrape() for key, pid in labels if key == "pid"}
        except PermissionError:
            skip("another user cannot reach the build folder")
        equal(pids & {str(theirs.pid), str(ours.pid)}, {str(theirs.pid)})


def test_the_textfile_is_written_as_a_whole():
    with program("host", SLUICE_STATS="1") as started, scratch() as folder:
        started.do("open", "read 7")
        file = folder / "sluice.prom"
        file.write_text("old")
        run(SLUICE, "stats", f"--prometheus={file}")
        equal(number(parse(file.read_text()), "sluice_calls_total", call="read", result="ok", pid=started.pid), 7)
        equal([each.name for each in folder.iterdir()], ["sluice.prom"])
        equal(number(parse(run(SLUICE, "stats", "--prometheus").stdout), "sluice_calls_total", call="read", result="ok",
                     pid=started.pid), 7)
        contains(run(SLUICE, "stats", f"--prometheus={folder}/none/x.prom", status=1).stderr, "cannot be written")


def test_the_textfile_leaves_links_and_devices_what_they_are():
    with program("host", SLUICE_STATS="1") as started, scratch() as folder:
        started.do("open", "read 7")
        (folder / "link.prom").symlink_to("real.prom")
        run(SLUICE, "stats", f"--prometheus={folder}/link.prom")
        equal(os.readlink(folder / "link.prom"), "real.prom")
        contains((folder / "real.prom").read_text(encoding="utf-8"), "sluice_calls_total")
        if os.geteuid() != 0:
            return  # only root makes devices
        full = folder / "full"
        try:
            os.mknod(full, stat.S_IFCHR | 0o666, os.makedev(1, 7))
        except PermissionError:
            return  # nor does it in every container
        refused = run(SLUICE, "stats", f"--prometheus={full}", status=None)
        equal((refused.returncode, stat.S_ISCHR(full.stat().st_mode)), (1, True))
        contains(refused.stderr, "cannot be written")


def test_the_page_lists_all_that_is_counted():
    rows = run(SLUICE, "stats", "--names").stdout
    begin, end = "<!-- sluice stats --names -->\n", "<!-- /sluice stats --names -->"
    page = PAGE.read_text(encoding="utf-8")
    equal(page[page.index(begin) + len(begin):page.index(end)], rows)


FUNCTIONS = {"sum", "rate", "by", "max", "min", "histogram_quantile", "le", "on", "without", "ignoring", "group_left", "topk", "avg",
             "increase", "label_values", "and", "or", "clamp_min", "query_result", "count", "bool", "vector", "time"}


def metrics_of(expression):
    bare = re.sub(r'"[^"]*"', "", expression)
    bare = re.sub(r"\{[^}]*\}|\[[^]]*\]", "", bare)
    return set(re.findall(r"\bsluice_[a-z_]+", bare))


def expressions_of(board):
    for panel in board["panels"]:
        for each in panel.get("panels", [panel]):
            for target in each.get("targets", []):
                yield each["title"], target["expr"]


def test_the_dashboard_asks_for_metrics_and_labels_that_there_are():
    table = names_of_table()
    board = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    asked = list(expressions_of(board))
    equal(len(asked) >= 10, True)
    for title, expression in asked + [("variable", each.get("query", {}).get("query", "") if isinstance(each.get("query"), dict)
                                       else str(each.get("query", ""))) for each in board["templating"]["list"]]:
        for name in metrics_of(expression):
            base = name if name in table else re.sub("_(bucket|sum|count)$", "", name)
            if base not in table:
                raise AssertionError(f"{title}: there is no {name}")
            if table[base][0] == "counter" and "rate(" not in expression and "increase(" not in expression:
                raise AssertionError(f"{title}: {name} is a counter and wants rate()")
        labels = {"pid", "comm", "pod_uid", "instance", "job", "le"} | {label for row in table.values() for label in row[1].split(", ")}
        for group in re.findall(r"by\s*\(([^)]*)\)", expression):
            equal({label.strip() for label in group.split(",")} - labels, set())
    equal(board["__inputs"][0]["name"], "DS_PROMETHEUS")
    equal({each["name"] for each in board["templating"]["list"]} >= {"instance", "pid"}, True)


CONFIGURATION = """
global: {{scrape_interval: 200ms, scrape_timeout: 200ms}}
scrape_configs:
  - job_name: sluice
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_a_real_prometheus_scrapes_it_and_answers_what_the_dashboard_asks():
    if shutil.which("prometheus") is None:
        skip("prometheus is not installed (package prometheus)")
    with program("device", SLUICE_STATS="1") as started, exporter() as exported, scratch() as folder:
        started.do("open", "read 5")
        (folder / "prometheus.yml").write_text(CONFIGURATION.format(port=exported.port))
        port = free_port()
        server = subprocess.Popen(["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
                                   f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"], stderr=subprocess.DEVNULL)

        def ask(expression):
            query = urllib.parse.urlencode({"query": expression})
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?{query}", timeout=60) as answer:
                return json.load(answer)["data"]["result"]

        def answers(expression, holds):
            try:
                return holds(ask(expression))
            except (urllib.error.URLError, ConnectionError):
                if server.poll() is not None:
                    raise AssertionError("prometheus has ended") from None
                return False

        try:
            reads = f'sluice_calls_total{{call="read",result="ok",pid="{started.pid}"}}'
            until(lambda: answers(reads, lambda found: found and found[0]["value"][1] == "5"))
            until(lambda: answers("up", lambda found: found and found[0]["value"][1] == "1"))
            started.do("read 100", "batch 4")
            until(lambda: answers(f"rate({reads}[30s])", lambda found: found and float(found[0]["value"][1]) > 0))
            board = json.loads(DASHBOARD.read_text(encoding="utf-8"))
            for title, expression in expressions_of(board):
                for variable, value in (("$__rate_interval", "30s"), ("$instance", ".*"), ("$pid", ".*"), ("$comm", ".*")):
                    expression = expression.replace(variable, value)
                try:
                    ask(expression)
                except urllib.error.HTTPError as error:
                    raise AssertionError(f"{title}: {expression}: {error.read().decode()}") from None
        finally:
            server.terminate()
            server.wait(timeout=60)


if __name__ == "__main__":
    main(globals())
