#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cufile_bench and compare.py as whole programs, on the soft GPU, with small files and short slices."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["SLUICE_BUILD"])
BENCH = pathlib.Path(__file__).resolve().parents[1]
CLIENT = BUILD / "bin" / "cufile_bench"
ENVIRONMENT = {**os.environ, "LD_LIBRARY_PATH": str(BUILD / "softgpu")}
FAMILIES = ["link-h2d-4M", "link-d2h-4M", "copy-in-4K", "copy-out-4K", "copy-in-1M", "copy-out-3M", "copy-out-64K-x2",
            "pread-1M-x2", "pwrite-64K", "read-4K", "read-1M-unreg", "read-rand-4K-x4",
            "read-3M-x2", "write-4K", "write-1M-x2", "batch-4K-x16",
            "batch-write-4K-x16", "async-64K-x4", "async-4K-x2-fixed", "async-write-64K-x3", "cycle-4K", "cycle-1M-x2-unreg", "pcycle-64K-x2"]


def client(*arguments, status=0, **environment):
    run = subprocess.run([CLIENT, *map(str, arguments)], env={**ENVIRONMENT, **environment}, capture_output=True,
                         text=True, timeout=240, check=False)
    assert run.returncode == status, f"status {run.returncode}\n{run.stdout}{run.stderr}"
    return run


class InFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir=BUILD)
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.file = self.folder / "file"
        self.common = ("--file", self.file, "--size", "16M", "--write-size", "8M", "--seconds", "0.05", "--json")

    def results(self, *arguments, **options):
        return [json.loads(line) for line in client(*self.common, *arguments, **options).stdout.splitlines()]


class Client(InFolder):
    def test_measures_each_family_and_compares_its_bytes(self):
        results = self.results("--rows", ",".join(FAMILIES))
        self.assertEqual([result["row"] for result in results], FAMILIES)
        for result in results:
            with self.subTest(row=result["row"]):
                self.assertGreater(result["gib_per_s"], 0)
                self.assertGreater(result["p99_us"], 0)
                self.assertLessEqual(result["p50_us"], result["p99_us"])
                if result["row"] != "pwrite-64K":
                    self.assertGreater(result["compared"], 0)

    def test_notices_bytes_that_are_wrong(self):
        client(*self.common, "--prepare")
        # The blocks by which the client knows its own file stay as they are.
        with open(self.file, "r+b") as file:
            for place in range(8192, (16 << 20) - 8192, 4096):
                file.seek(place + 7)
                file.write(b"?")
        rows = ["read-64K", "read-64K-x2-unreg", "batch-16K-x8", "async-64K-x2", "pread-64K"]
        for result in self.results("--rows", ",".join(rows), status=1):
            self.assertIn("WRONG BYTES", result.get("error", "no error"), result["row"])

    def test_notices_bytes_that_are_wrong_in_a_set_of_files(self):
        self.results("--rows", "cycle-64K,pcycle-64K")
        for path in pathlib.Path(f"{self.file}.set-65536").iterdir():
            with open(path, "r+b") as file:
                file.seek(8192)
                file.write(b"?")
        for result in self.results("--rows", "cycle-64K,cycle-64K-x2,pcycle-64K", status=1):
            self.assertIn("WRONG BYTES", result.get("error", "no error"), result["row"])

    def test_leaves_a_file_alone_that_is_none_of_its_own(self):
        self.file.write_bytes(b"precious" * 1024)
        (result,) = self.results("--rows", "read-4K", status=1)
        self.assertIn("no file of this benchmark", result["error"])
        self.assertEqual(self.file.read_bytes(), b"precious" * 1024)

    def test_does_not_repeat_rows_that_the_state_holds(self):
        state = ("--state", self.folder / "state")
        (first,) = self.results("--rows", "read-4K", *state)
        again = self.results("--rows", "read-4K,read-64K", *state)
        self.assertEqual(again[0], first)
        self.assertEqual(again[1]["row"], "read-64K")

    def test_says_at_once_when_the_state_cannot_be_kept(self):
        run = client(*self.common, "--rows", "read-4K", "--state", self.folder / "none" / "state", status=1)
        self.assertIn("cannot be written: name another file with --state", run.stderr)
        self.assertEqual(run.stdout, "")
        for place in ("/dev/full", self.folder):
            run = client(*self.common, "--rows", "read-4K", "--state", place, status=1)
            self.assertIn("is no regular file: name another one with --state", run.stderr)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_makes_no_file_whose_size_it_does_not_know(self):
        run = client("--file", self.file, "--rows", "read-4K", "--seconds", "0.01", status=1)
        self.assertIn("is not there: say how large to make it (--size)", run.stdout + run.stderr)
        self.assertIn("is not there", client("--file", self.file, "--prepare", status=1).stderr)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_refuses_options_that_cannot_be(self):
        for wrong in ("-1", "0", "nan", "inf", "soon", ""):
            run = client("--file", self.file, "--size", "1M", "--rows", "read-4K", f"--seconds={wrong}", status=2)
            self.assertIn("--seconds", run.stdout + run.stderr)
        self.assertIn("--what", client("--what", status=2).stderr)
        self.assertIn("--rows names none", client(*self.common, "--rows", "", status=1).stderr)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_serves_no_run_of_no_time(self):
        commands = "open read-4K\nrun read-4K nan\nopen read-4K\nrun read-4K 0.01 \nquit\n"
        run = subprocess.run([CLIENT, *map(str, self.common), "--serve"], input=commands, env=ENVIRONMENT,
                             capture_output=True, text=True, timeout=60, check=True)
        opened, refused, _, good = map(json.loads, run.stdout.splitlines())
        self.assertGreater(opened["compared"], 0)
        self.assertIn("no length of time", refused["error"])
        self.assertGreater(good["compared"], 0)

    def test_refuses_a_row_that_is_none(self):
        self.assertIn("is no row", client(*self.common, "--rows", "read-4K-backwards", status=1).stderr)

    def test_works_with_every_gpu_at_once(self):
        rows = ["read-64K-each", "read-64K", "read-64K-each-x2", "write-64K-each-unreg"]
        results = self.results("--rows", ",".join(rows), SLUICE_SOFTGPU_DEVICES="3")
        self.assertEqual([result["row"] for result in results], rows)
        # Eight checks a thread, and what the last step of each has left.
        self.assertEqual([result["compared"] for result in results], [9 * 65536 * threads for threads in (3, 1, 6, 3)])

    def test_keeps_others_busy_where_there_are_others(self):
        (result,) = self.results("--rows", "read-4K-matmul-others", status=1)
        self.assertIn("there is one GPU here", result["error"])
        refused, after = self.results("--rows", "read-4K-matmul-others,read-4K", status=1, SLUICE_SOFTGPU_DEVICES="2")
        self.assertIn("runs no kernels", refused["error"])
        self.assertGreater(after["compared"], 0)

    def test_refuses_words_that_a_row_has_no_use_for(self):
        for row in ("read-4K-others", "batch-4K-x4-each", "link-h2d-each"):
            self.assertIn("is no row", client(*self.common, "--rows", row, status=1).stderr)

    def test_says_why_nothing_keeps_a_soft_gpu_busy(self):
        (result,) = self.results("--rows", "read-4K-matmul", status=1)
        self.assertIn("runs no kernels", result["error"])

    def test_says_why_no_kernel_of_a_soft_gpu_measures_the_link(self):
        refused, after = self.results("--rows", "link-kernel,link-h2d-4M", status=1)
        self.assertEqual(refused["error"], "this device runs no kernels, so none can fetch bytes over the link")
        self.assertGreater(after["gib_per_s"], 0)

    def test_says_why_no_kernel_of_a_soft_gpu_waits_for_an_answer(self):
        (refused,) = self.results("--rows", "bell-4K-x8", status=1)
        self.assertEqual(refused["error"], "this device runs no kernels, so none can wait for an answer")

    def test_copies_as_often_as_asked_and_compares_each_time(self):
        commands = "open copy-{0}-8K\nrun copy-{0}-8K 0.02\nrun copy-{0}-8K 0.02\nclose copy-{0}-8K\nquit\n"
        for way in ("in", "out"):
            run = subprocess.run([CLIENT, *map(str, self.common), "--serve"], input=commands.format(way),
                                 env=ENVIRONMENT, capture_output=True, text=True, timeout=60, check=True)
            opened, first, second, closed = map(json.loads, run.stdout.splitlines())
            self.assertEqual([opened["compared"], first["compared"], second["compared"]], [8192] * 3)
            self.assertEqual(second["bytes"], second["steps"] * 8192)
            self.assertEqual(closed, {"closed": 1})

    def test_refuses_a_copy_that_names_no_way(self):
        for row in ("copy", "copy-4K", "copy-4K-in", "copy-kernel-4K"):
            self.assertIn("names no way", client(*self.common, "--rows", row, status=1).stderr)
        self.assertIn("names no size", client(*self.common, "--rows", "copy-out", status=1).stderr)

    def test_lists_what_bounds_other_rows(self):
        self.assertLessEqual({"link-kernel", "copy-in-4K", "copy-out-4K", "bell-4K-x8"},
                             set(client("--list").stdout.split()))
        for word in ("link-kernel", "copy-in", "copy-out", "bell"):
            self.assertIn(word, client("--help").stdout)

    def test_measures_idleness(self):
        (result,) = self.results("--rows", "idle")
        self.assertGreaterEqual(result["cpu_seconds"], 0)
        self.assertGreaterEqual(result["stolen_seconds"], 0)
        self.assertNotIn("gib_per_s", result)

    def test_measures_what_streams_that_are_held_cost(self):
        for result in self.results("--rows", "held,held-64K-x3"):
            self.assertGreaterEqual(result["cpu_seconds"], 0)
            self.assertGreater(result["compared"], 0)
            self.assertNotIn("gib_per_s", result)

    def test_times_a_first_request(self):
        client(*self.common, "--prepare")
        (result,) = self.results("--first", "1M")
        self.assertGreater(result["first_ms"], 0)
        self.assertEqual(result["compared"], 1 << 20)

    def test_names_the_library_that_was_mapped(self):
        library = str((BUILD / "lib" / "libcufile.so.0").resolve())
        self.assertIn(library, client("--help").stdout)
        self.assertEqual(json.loads(client("--about").stdout)["library"], library)


class LoadTimes(unittest.TestCase):
    def times(self, *arguments):
        return subprocess.run([BUILD / "bin" / "load_times", "--library", BUILD / "lib/libcufile.so.0", *arguments],
                              env=ENVIRONMENT, capture_output=True, text=True, timeout=60, check=False)

    def test_refuses_runs_that_are_none(self):
        for wrong in ("0", "-1", "abc", "3x", ""):
            run = self.times("--runs", wrong)
            self.assertEqual((run.returncode, run.stdout), (2, ""))
            self.assertIn("--runs takes a whole number, 1 to 1000000", run.stderr)
        self.assertEqual(self.times("--runs", "2").returncode, 0)
        self.assertIn("what to do with --what", self.times("--what").stderr)
        self.assertEqual(self.times("--help").returncode, 0)


class Comparison(InFolder):
    def compare(self, *arguments):
        library = BUILD / "lib"
        return subprocess.run(
            [sys.executable, "-B", BENCH / "compare.py", "--program", CLIENT, "--ours", library, "--theirs", library,
             "--file", f"cached={self.file}", "--size", "16M", "--write-size", "8M", "--seconds", "0.02", "--settle",
             "0", "--state", self.folder / "comparison.json", *arguments],
            env=ENVIRONMENT, capture_output=True, text=True, timeout=200, check=False)

    def test_refuses_the_same_library_on_both_sides(self):
        run = self.compare("--rows", "read-4K")
        self.assertEqual(run.returncode, 1)
        self.assertIn("both sides mapped", run.stderr)

    def test_alternates_and_judges(self):
        run = self.compare("--same", "--rows", "read-64K,write-1M,async-1M-x1", "--pairs", "3")
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        data = json.loads((self.folder / "comparison.json").read_text(encoding="utf-8"))
        (about,) = data["runs"]
        self.assertIn("same library", about["note"])
        rows = data["results"]["cached"]
        self.assertEqual({row: len(result["pairs"]) for row, result in rows.items()},
                         {"read-64K": 3, "write-1M": 3, "async-1M-x1": 3})
        self.assertEqual(set(rows["write-1M"]["pairs"][0]),
                         {"ours:write-1M", "theirs:write-1M", "reference:pwrite-1M", "reference:copy-out-512K"})
        self.assertRegex(run.stdout, r"\| cached \| read-64K \| incumbent \|.*\| 1\.1 \| (NOT MET|met|met by the median) \|")
        self.assertRegex(run.stdout, r"\| cached \| async-1M-x1 \| incumbent \|.*\| – \|  \|")

    def test_shows_what_bounds_a_row_without_a_verdict(self):
        run = self.compare("--same", "--rows", "write-4K,batch-1M-x32", "--pairs", "2")
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        for row, bound in (("write-4K", "pwrite-4K's p50"), ("write-4K", "copy-out-4K's p50"),
                           ("batch-1M-x32", "pread-rand-1M-x12")):
            self.assertRegex(run.stdout, rf"\| cached \| {row} \| {bound} (\| [0-9.e+-]+ ){{5}}\| – \| – \|  \|")
        # The soft GPU has no kernels: that line says so, and the others have their verdicts.
        self.assertRegex(run.stdout, r"\| batch-1M-x32 \| link-kernel (\| – ){7}\| reference:link-kernel: .*no kernels")
        self.assertRegex(run.stdout, r"\| batch-1M-x32 \| link-h2d \|.*\| 0\.86 \| (NOT MET|met|met by the median) \|")
        self.assertIn("4 without a verdict", run.stdout)

    def test_asks_each_row_for_a_share_of_the_other_sides_speed_and_measures_nothing_else(self):
        run = self.compare("--same", "--asked", "0.01", "--rows", "read-64K,write-1M,idle", "--pairs", "3")
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        data = json.loads((self.folder / "comparison.json").read_text(encoding="utf-8"))
        self.assertEqual({row: set(result["pairs"][0]) for row, result in data["results"]["cached"].items()},
                         {row: {f"ours:{row}", f"theirs:{row}"} for row in ("read-64K", "write-1M")})
        self.assertRegex(run.stdout, r"all 2 rows: geometric mean [0-9.]+ \(95 % bound [0-9.]+\); below 0\.01 by their own mean: none")

    def test_goes_on_after_its_time_was_up(self):
        stopped = self.compare("--same", "--rows", "read-64K", "--pairs", "2", "--budget", "0")
        self.assertEqual(stopped.returncode, 3)
        self.assertIn("call again", stopped.stdout)
        self.assertEqual(self.compare("--same", "--rows", "read-64K", "--pairs", "2").returncode, 0)

    def links(self, **environment):
        return subprocess.run(
            ["bash", BENCH / "links.sh", BUILD, self.folder / "out"], capture_output=True, text=True, timeout=600,
            check=False, env={**ENVIRONMENT, "GPUS": "4", "FILE": str(self.file), "SIZE": "32M", "PAIRS": "2",
                              "COPY": "auto kernel", "PROCESSES": "1", "SECONDS_EACH": "0.02", "ROWS": "read-1M,read-64M", **environment})

    def test_compares_links_on_two_gpus_and_on_four(self):
        run = self.links()
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        rounds = [(2, "two_links"), (4, "four_links")]
        for links, kind, copy in [(*each, copy) for each in rounds for copy in ("auto", "kernel")]:
            data = json.loads((self.folder / "out" / f"links-{links}-{copy}.json").read_text(encoding="utf-8"))
            rows = data["results"][kind]
            self.assertEqual(len(rows["read-1M"]["pairs"]), 2)
            self.assertIn("too small", rows["read-64M"]["errors"]["ours:read-64M"])
            table = (self.folder / "out" / f"links-{links}-{copy}.txt").read_text(encoding="utf-8")
            self.assertRegex(table, rf"\| {kind} \| read-1M \| incumbent \|.*\| 0\.97 \|")
            self.assertIn("SLUICE_LINKS=auto" if copy == "auto" else f"SLUICE_LINKS_COPY={copy}", table)
            self.assertIn(table, run.stdout)

    def test_prints_links_as_far_as_the_time_went(self):
        run = self.links(BUDGET="0")
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertIn("0 slices", (self.folder / "out" / "links-4-auto.txt").read_text(encoding="utf-8"))


if __name__ == "__main__":
    unittest.main()
