#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The statistics of a comparison, its verdicts and its resuming: without a client, on numbers made for the purpose."""

import argparse
import json
import math
import os
import pathlib
import random
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import compare  # noqa: E402
import floors  # noqa: E402
import paired  # noqa: E402
import quiet  # noqa: E402
import verdicts  # noqa: E402
from client_process import Refused  # noqa: E402


def sample(speed, p50=10.0, processor=0.1):
    return {"gib_per_s": speed, "p50_us": p50, "cpu_s_per_gib": processor}


def pairs_of(row, ours, theirs):
    return {"pairs": [{f"ours:{row}": sample(a), f"theirs:{row}": sample(b)} for a, b in zip(ours, theirs)],
            "errors": {}}


class Setting(unittest.TestCase):
    def test_is_held_to_what_was_asked_of_it_and_not_to_the_floors_of_the_row(self):
        with tempfile.TemporaryDirectory() as folder:
            state = compare.State(pathlib.Path(folder, "state"))
            state.data["results"] = {"cached": {"read-4K": pairs_of("read-4K", [0.985] * 5, [1.0] * 5)}}
            for asked, met in ((0.98, [True]), (0.99, [False])):
                state.data["runs"] = [{"asked": asked}]
                self.assertEqual([verdict.met for verdict in compare.judged(state)], met)
            state.data["runs"] = [{}]
            self.assertEqual([verdict.floor for verdict in compare.judged(state)],
                             [requirement.floor for requirement in next(
                                 row for row in floors.KINDS["cached"] if row.name == "read-4K").requirements])


class EarlierLibrary(unittest.TestCase):
    def of_rows(self, **speeds):
        state = compare.State(pathlib.Path("no such file"))
        state.data["results"] = {"cached": {row.replace("_", "-"): pairs_of(row.replace("_", "-"), [speed] * 5, [1.0] * 5)
                                            for row, speed in speeds.items()}}
        state.data["runs"] = [{"asked": 0.98}]
        return compare.all_rows(compare.judged(state), 0.98)

    def test_is_told_of_by_the_geometric_mean_of_all_rows_and_the_names_of_those_that_lost(self):
        (text,) = self.of_rows(read_4K=0.97, read_1M=1.1, write_4K=0.99)
        self.assertTrue(text.startswith("all 3 rows: geometric mean 1.018 (95 % bound "), text)
        self.assertTrue(text.endswith("below 0.98 by their own mean: cached/read-4K"), text)

    def test_has_nothing_to_tell_of_one_row_or_of_floors(self):
        self.assertEqual(self.of_rows(read_4K=0.97), [])
        self.assertEqual(compare.all_rows([], None), [])

    def test_is_compared_by_speed_alone(self):
        rows = [row for kind in floors.KINDS.values() for row in kind if row.has_speed()]
        self.assertNotIn("idle", [row.name for row in rows])
        self.assertNotIn("first-1M", [row.name for row in rows])
        self.assertEqual({who for row in rows for who, _ in row.of_speed(0.98).participants()}, {"ours", "theirs"})


class Quantiles(unittest.TestCase):
    def test_equal_the_printed_tables(self):
        for freedom, value in ((1, 6.314), (2, 2.920), (4, 2.132), (9, 1.833), (30, 1.697)):
            self.assertAlmostEqual(paired.student_quantile(0.95, freedom), value, places=3)

    def test_undo_the_distribution(self):
        for share in (0.6, 0.9, 0.975):
            self.assertAlmostEqual(paired.student_cdf(paired.student_quantile(share, 7), 7), share, places=6)


class Ratio(unittest.TestCase):
    def test_is_the_geometric_mean(self):
        estimate, _ = paired.ratio([(4, 1), (1, 1)])
        self.assertAlmostEqual(estimate, 2.0)

    def test_of_equal_pairs_is_bounded_by_itself(self):
        estimate, bound = paired.ratio([(3, 2)] * 5)
        self.assertAlmostEqual(estimate, 1.5)
        self.assertAlmostEqual(bound, 1.5)

    def test_bound_follows_by_hand(self):
        logarithms = [0.1, 0.2, 0.3, 0.4, 0.5]
        _, bound = paired.ratio([(math.exp(value), 1) for value in logarithms])
        self.assertAlmostEqual(bound, math.exp(0.3 - 2.13185 * math.sqrt(0.025 / 5)), places=5)

    def test_does_not_mind_drift_that_both_share(self):
        drift = [1, 10, 100, 1000, 10000]
        _, bound = paired.ratio([(2 * level, level) for level in drift])
        self.assertAlmostEqual(bound, 2.0)

    def test_of_one_pair_has_no_bound(self):
        self.assertIsNone(paired.ratio([(2, 1)])[1])

    def test_bound_lies_above_the_truth_in_a_twentieth_of_all_cases(self):
        numbers = random.Random(1)
        above = 0
        for _ in range(2000):
            _, bound = paired.ratio([(math.exp(numbers.gauss(0, 0.3)), 1) for _ in range(6)])
            above += bound > 1
        self.assertTrue(60 <= above <= 140, above)  # 100 expected, four standard deviations to each side


class Median(unittest.TestCase):
    def test_bound_is_the_value_that_the_printed_tables_of_the_sign_test_name(self):
        # (values, how many may lie below, at most)
        for count, rank in ((5, 0), (8, 1), (10, 1), (11, 2), (16, 4), (24, 7)):
            self.assertEqual(paired.median_bound(list(range(count))), rank, count)

    def test_of_fewer_than_five_values_has_no_bound(self):
        self.assertIsNone(paired.median_bound([1, 1, 1, 1]))

    def test_bound_is_not_moved_by_one_that_is_far_off(self):
        self.assertEqual(paired.median_bound([0.01] + [2.0] * 9), 2.0)
        self.assertLess(paired.ratio([(0.01, 1)] + [(2.0, 1)] * 9)[1], 1.0)

    def test_upper_bound_is_the_lower_one_from_the_other_side(self):
        self.assertEqual(paired.median_upper_bound(list(range(10))), 8)
        self.assertIsNone(paired.median_upper_bound([1, 2]))

    def test_bound_lies_above_the_truth_in_a_twentieth_of_all_cases_at_most(self):
        numbers = random.Random(1)
        above = sum(paired.median_bound([numbers.expovariate(1) for _ in range(16)]) > math.log(2)
                    for _ in range(2000))
        self.assertTrue(40 <= above <= 110, above)  # 77 expected of the fifth of 16, four standard deviations


class Verdict(unittest.TestCase):
    @staticmethod
    def of(metric, floor, result, against="incumbent"):
        row = floors.Row("read-1M", (floors.Requirement(metric, against, "read-1M", floor),))
        return verdicts.judge("cached", row, row.requirements[0], result)

    def test_is_met_when_the_bound_reaches_the_floor(self):
        self.assertIs(self.of("speed", 1.5, pairs_of("read-1M", [3, 3, 3], [2, 2, 2])).met, True)

    def test_is_not_met_when_only_the_estimate_does(self):
        verdict = self.of("speed", 1.5, pairs_of("read-1M", [2, 4, 3, 5], [2, 2, 2, 2]))
        self.assertGreater(verdict.estimate, 1.5)
        self.assertIs(verdict.met, False)

    def test_is_not_met_when_only_the_middle_of_the_pairs_does(self):
        verdict = self.of("speed", 1.5, pairs_of("read-1M", [4] * 9 + [0.1], [2] * 10))
        self.assertEqual((verdict.middle, verdict.middle_bound), (2, 2))
        self.assertIs(verdict.met, False)
        self.assertTrue(verdict.is_met_in_the_middle())
        self.assertIn("| met by the median |", verdicts.verdict_table([verdict]))
        missed = self.of("speed", 2.5, pairs_of("read-1M", [4] * 10, [2] * 10))
        self.assertFalse(missed.is_met_in_the_middle())
        self.assertIn("| NOT MET |", verdicts.verdict_table([missed]))

    def test_of_the_slowdown_is_met_in_the_middle_from_below(self):
        pairs = [{"ours:read-1M": {"product_slowdown": ours}, "theirs:read-1M": {"product_slowdown": 0.0}}
                 for ours in [0.01] * 9 + [3.0]]
        verdict = self.of("slowdown", 0.05, {"pairs": pairs})
        self.assertIs(verdict.met, False)
        self.assertTrue(verdict.is_met_in_the_middle())

    def test_of_latency_counts_lower_as_better(self):
        result = {"pairs": [{"ours:read-1M": sample(1, p50=5), "theirs:read-1M": sample(1, p50=10)}] * 3}
        verdict = self.of("latency", 1.0, result)
        self.assertAlmostEqual(verdict.estimate, 2.0)
        self.assertIs(verdict.met, True)

    def test_of_processor_time_allows_its_limit_and_no_more(self):
        def result(ours):
            return {"pairs": [{"ours:read-1M": sample(1, processor=ours), "theirs:read-1M": sample(1)}] * 3}
        self.assertIs(self.of("processor", 1 / 2.0, result(0.199)).met, True)
        self.assertIs(self.of("processor", 1 / 2.0, result(0.201)).met, False)

    def test_of_the_slowdown_takes_the_difference(self):
        def result(ours):
            return {"pairs": [{"ours:read-1M": {"product_slowdown": ours},
                               "theirs:read-1M": {"product_slowdown": 0.10}}] * 3}
        self.assertIs(self.of("slowdown", 0.05, result(0.149)).met, True)
        self.assertIs(self.of("slowdown", 0.05, result(0.151)).met, False)

    def test_says_why_our_side_has_nothing(self):
        verdict = self.of("speed", 1, {"pairs": [], "errors": {"ours:read-1M": "WRONG BYTES"}})
        self.assertIs(verdict.met, False)
        self.assertIn("WRONG BYTES", verdict.reason)

    def test_is_withheld_when_the_incumbent_refuses(self):
        verdict = self.of("speed", 1, {"pairs": [{"ours:read-1M": sample(1)}], "errors": {"theirs:read-1M": "5027"}})
        self.assertIsNone(verdict.met)
        self.assertIn("5027", verdict.reason)

    def test_of_a_row_without_floors_is_none(self):
        (verdict,) = verdicts.judge_row("cached", floors.Row("read-1M"), pairs_of("read-1M", [3, 3], [1, 1]))
        self.assertIsNone(verdict.met)
        self.assertIsNone(verdict.floor)
        self.assertAlmostEqual(verdict.estimate, 3.0)

    def test_of_a_row_without_floors_tells_when_ours_failed(self):
        (verdict,) = verdicts.judge_row("cached", floors.Row("read-1M"),
                                        {"pairs": [], "errors": {"ours:read-1M": "WRONG BYTES"}})
        self.assertIs(verdict.met, False)
        self.assertIn("WRONG BYTES", verdict.reason)


class Bounds(unittest.TestCase):
    """References that are shown beside a row, without a floor."""

    def setUp(self):
        self.read = floors.row("read-1M", 1.0, link=0.8, beside=("link-kernel",))
        self.write = floors.row("write-4K", 1.0, beside_p50=("pwrite-4K",))

    @staticmethod
    def result(row, ours, theirs, references, errors=None):
        pair = {f"ours:{row}": ours, f"theirs:{row}": theirs,
                **{f"reference:{name}": measured for name, measured in references.items()}}
        return {"pairs": [pair] * 3, "errors": errors or {}}

    def cells(self, found, row, against):
        """What the table says of it, from our number on."""
        lines = [line for line in verdicts.verdict_table(found).splitlines() if f"| {row} | {against} |" in line]
        self.assertEqual(len(lines), 1, lines)
        return [cell.strip() for cell in lines[0].split("|")[4:-1]]

    def test_are_measured_in_the_same_turns(self):
        self.assertEqual(self.read.participants()[2:], [("reference", "link-h2d"), ("reference", "link-kernel")])
        self.assertEqual(self.write.participants()[2:], [("reference", "pwrite-4K")])

    def test_have_ratio_and_bound_and_no_verdict(self):
        # Far below the reference and far above it: neither says anything.
        for speed, ratio in ((2, 0.5), (8, 2.0)):
            references = {"link-h2d": sample(4), "link-kernel": sample(4)}
            found = verdicts.judge_row("cached", self.read, self.result("read-1M", sample(speed), sample(1), references))
            self.assertAlmostEqual(found[-1].estimate, ratio)
            self.assertAlmostEqual(found[-1].bound, ratio)
            self.assertIsNone(found[-1].floor)
            self.assertIsNone(found[-1].met)
            self.assertEqual(self.cells(found, "read-1M", "link-kernel"),
                             [str(speed), "4", f"{ratio:g}", f"{ratio:g}", f"{ratio:g}", "–", "–", ""])

    def test_of_latency_compare_medians_and_read_so(self):
        # Speeds say the opposite, so that they are not what was taken.
        found = verdicts.judge_row("cached", self.write, self.result("write-4K", sample(9, p50=14.0), sample(1),
                                                                     {"pwrite-4K": sample(1, p50=7.0)}))
        self.assertAlmostEqual(found[-1].estimate, 0.5)
        self.assertIsNone(found[-1].met)
        self.assertEqual(self.cells(found, "write-4K", "pwrite-4K's p50"), ["14", "7", "0.5", "0.5", "0.5", "–", "–", ""])

    def test_leave_the_incumbents_latency_its_name(self):
        row = floors.row("read-4K", latency=1.0)
        found = verdicts.judge_row("virtio", row, self.result("read-4K", sample(1), sample(1), {}))
        self.assertEqual(self.cells(found, "read-4K", "incumbent's p50")[-1], "met")

    def test_that_fail_do_not_fail_the_row(self):
        errors = {"reference:link-kernel": "this device runs no kernels"}
        found = verdicts.judge_row("cached", self.read, self.result("read-1M", sample(2), sample(1),
                                                                    {"link-h2d": sample(2)}, errors))
        self.assertEqual([(verdict.against, verdict.met) for verdict in found], [
            ("incumbent", True), ("link-h2d", True), ("incumbent's processor time", True), ("link-kernel", None)])
        self.assertEqual(self.cells(found, "read-1M", "link-kernel"),
                         ["–", "–", "–", "–", "–", "–", "–", "reference:link-kernel: this device runs no kernels"])

    def test_may_tell_of_processor_time(self):
        row = floors.beside_reading(floors.row("read-1M", 1.0))
        result = {"pairs": [{"ours:read-1M": sample(20, 50, 0.3), "theirs:read-1M": sample(6, 160, 0.2),
                             "reference:pread-256K-x8": sample(40, 50, 0.15)}] * 5, "errors": {}}
        against, shown = verdicts.judge_row("tmpfs", row, result)[-2:]
        self.assertEqual((against.against, shown.against, shown.met),
                         ("incumbent's processor time", "pread-256K-x8's processor time", None))
        self.assertAlmostEqual(shown.estimate, 0.5)

    def test_do_not_count_when_ours_fails(self):
        found = verdicts.judge_row("cached", self.read, {"pairs": [], "errors": {"ours:read-1M": "WRONG BYTES"}})
        self.assertEqual([verdict.met for verdict in found], [False, False, False, None])


class Floors(unittest.TestCase):
    def test_of_processor_time_depend_on_size_and_number(self):
        self.assertEqual([floors.processor_limit(name) for name in
                          ("read-64K", "read-256K", "read-4M", "read-16M", "read-1M-x8", "read-1M-unreg")],
                         [1.25, 2.0, 2.0, 1.25, 1.25, 2.0])

    def test_name_what_has_to_be_measured_with_a_row(self):
        (row,) = [row for row in floors.CACHED if row.name == "read-64M"]
        self.assertEqual(row.participants(), [("ours", "read-64M"), ("theirs", "read-64M"), ("reference", "link-h2d"),
                                              ("reference", "link-kernel")])

    def test_leave_the_incumbent_alone_where_a_number_in_itself_is_asked(self):
        measured = {row.name: [who for who, _ in row.participants()] for row in floors.KINDS["cached"]}
        self.assertEqual((measured["idle"], measured["held"], measured["first-1M"]), (["ours"],) * 3)
        self.assertEqual((measured["async-1M-x1"], measured["read-4K"]), (["ours", "theirs"],) * 2)

    def test_show_what_bounds_rows_of_cached_files(self):
        shown = {row.name: [(wanted.metric, wanted.row) for wanted in row.requirements if wanted.floor is None]
                 for row in floors.KINDS["cached"]}
        self.assertEqual({name: bounds for name, bounds in shown.items() if bounds}, {
            "read-64M": [("speed", "link-kernel")], "read-256M": [("speed", "link-kernel")],
            "read-16M-x8": [("speed", "link-kernel")],
            "batch-1M-x32": [("speed", "link-kernel"), ("speed", "pread-rand-1M-x12")],
            "read-64K": [("latency", "pread-64K"), ("latency", "copy-in-64K")],
            "read-256K": [("latency", "pread-256K")],
            "write-4K": [("latency", "pwrite-4K"), ("latency", "copy-out-4K")],
            "write-1M": [("latency", "pwrite-1M"), ("latency", "copy-out-512K")],
            "async-4K-x8-fixed": [("speed", "bell-4K-x8")],
            "cycle-4K": [("speed", "pcycle-4K")], "cycle-1M": [("speed", "pcycle-1M")],
            "cycle-16M": [("speed", "pcycle-16M")]})

    def test_show_the_halves_of_a_small_read_past_the_page_cache(self):
        shown = {row.name: [wanted.row for wanted in row.requirements if wanted.floor is None]
                 for row in floors.KINDS["virtio"]}
        self.assertEqual({name: bounds for name, bounds in shown.items() if bounds},
                         {"read-4K": ["pread-4K", "copy-in-4K"]})

    def test_ask_of_the_life_of_a_handle_to_be_no_slower_than_the_incumbent(self):
        asked = {row.name: [wanted.floor for wanted in row.requirements if wanted.against == "incumbent"]
                 for row in floors.KINDS["cached"] if row.name.startswith("cycle-")}
        self.assertEqual(asked, {"cycle-4K": [1.0], "cycle-1M": [1.0], "cycle-16M": [1.0]})

    def test_ask_nothing_of_random_places_and_do_not_look_at_them_on_tmpfs(self):
        names = {"read-rand-64K", "read-rand-256K", "write-rand-1M"}
        self.assertEqual({row.name for row in floors.KINDS["cached"] if row.name in names and not row.requirements},
                         names)
        self.assertFalse(names & {row.name for row in floors.KINDS["tmpfs"]})

    def test_show_what_reading_alone_takes_beside_large_reads_of_tmpfs(self):
        shown = {row.name: [wanted.row for wanted in row.requirements
                            if wanted.floor is None and wanted.metric == "processor"]
                 for row in floors.KINDS["tmpfs"]}
        self.assertEqual((shown["read-64K"], shown["read-256K"], shown["read-16M-unreg"], shown["write-1M"]),
                         ([], ["pread-256K-x8"], ["pread-256K-x8"], []))

    def test_name_each_row_of_a_kind_once(self):
        for kind, rows in floors.KINDS.items():
            names = [row.name for row in rows]
            self.assertEqual(len(names), len(set(names)), kind)


class Quiet(unittest.TestCase):
    def slices(self, *shares):
        """Samples of a tenth of a second in which others had that share of all processors."""
        processors = os.cpu_count() or 1
        return iter([{**sample(number), "seconds": 0.1, "stolen_seconds": 0.1 * processors * share}
                     for number, share in enumerate(shares, 1)])

    def test_slices_are_taken_as_they_come(self):
        slices = self.slices(0.009, 0)
        taken = quiet.measured(lambda: next(slices), 0.01, 5)
        self.assertEqual((taken["gib_per_s"], taken["again"], taken["disturbed"]), (1, 0, False))

    def test_slices_are_made_again_until_one_is_undisturbed(self):
        slices = self.slices(0.5, 0.02, 0.001, 0)
        taken = quiet.measured(lambda: next(slices), 0.01, 5)
        self.assertEqual((taken["gib_per_s"], taken["again"], taken["disturbed"]), (3, 2, False))

    def test_the_last_one_counts_and_is_told(self):
        slices = self.slices(0.5, 0.4, 0.3, 0)
        taken = quiet.measured(lambda: next(slices), 0.01, 2)
        self.assertEqual((taken["gib_per_s"], taken["again"], taken["disturbed"]), (3, 2, True))
        results = {"cached": {"read-1M": {"pairs": [{"ours:read-1M": taken, "theirs:read-1M": sample(1)}]}}}
        self.assertEqual(quiet.account(results), "2 slices; made again, since others had too much of the processors: 2; "
                                                 "disturbed to the end: 1")

    def test_machines_that_do_not_tell_are_undisturbed(self):
        self.assertFalse(quiet.measured(lambda: sample(1), 0.01, 5)["disturbed"])


class FakeClient:
    """Answers as a client would, and counts."""

    def __init__(self, speed, refused=(), opened=None):
        self.speed = speed
        self.refused = refused
        self.opened = opened if opened is not None else []
        self.runs = 0

    def command(self, text, _seconds):
        if text.startswith("open"):
            self.opened.append(self)
        if text.split()[1] in self.refused:
            raise Refused("not here")
        if text.startswith("run"):
            self.runs += 1
            return sample(self.speed)
        return {"compared": 1}

    def close(self):
        pass


class Libraries(unittest.TestCase):
    def test_are_told_without_the_folder_that_they_were_built_in(self):
        self.assertEqual(compare.told_library(pathlib.Path("/builds/sluice/build/release/lib/libcufile.so.0")),
                         "lib/libcufile.so.0")

    def test_of_the_system_are_told_whole(self):
        whole = "/usr/local/cuda-13.0/targets/x86_64-linux/lib/libcufile.so.1.15.1"
        self.assertEqual(compare.told_library(pathlib.Path(whole)), whole)

    def test_that_were_mapped_are_told_so(self):
        with tempfile.TemporaryDirectory() as folder:
            top = pathlib.Path(folder).resolve()
            clients = {}
            for who in ("ours", "theirs"):
                library = top / who / "libcufile.so.0"
                library.parent.mkdir()
                library.write_text(who, encoding="utf-8")
                clients[who] = FakeClient(1)
                clients[who].once = lambda *_, path=library: {"library": str(path)}
            options = argparse.Namespace(ours=str(top / "ours"), theirs=str(top / "theirs"), same=False)
            about, _ = compare.check_libraries(options, clients)
        self.assertEqual([about[who]["library"] for who in ("ours", "theirs")],
                         ["ours/libcufile.so.0", "theirs/libcufile.so.0"])


class Resuming(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name, "state.json")

    def comparison(self):
        sys.argv = ["compare.py", "--program", "x", "--ours", "x", "--theirs", "x", "--file", "cached=x",
                    "--state", str(self.path), "--settle", "0"]
        return compare.Comparison(compare.arguments(), compare.State(self.path))

    def test_goes_on_with_the_pairs_that_are_missing(self):
        row = floors.Row("read-1M")
        clients = {"ours": FakeClient(2), "theirs": FakeClient(1)}
        self.assertTrue(self.comparison().turns("cached", row, clients, 3))
        again = {"ours": FakeClient(2), "theirs": FakeClient(1)}
        self.assertTrue(self.comparison().turns("cached", row, again, 5))
        self.assertEqual((clients["ours"].runs, again["ours"].runs, again["theirs"].runs), (3, 2, 2))
        self.assertEqual(len(json.loads(self.path.read_text())["results"]["cached"]["read-1M"]["pairs"]), 5)

    def test_goes_without_a_reference_that_refuses(self):
        row = floors.row("read-1M", 1.0, link=0.8, beside=("link-kernel",))
        clients = {"ours": FakeClient(2), "theirs": FakeClient(1), "reference": FakeClient(2, refused=("link-kernel",))}
        self.assertTrue(self.comparison().turns("cached", row, clients, 3))
        result = json.loads(self.path.read_text())["results"]["cached"]["read-1M"]
        self.assertEqual(result["errors"], {"reference:link-kernel": "not here"})
        self.assertEqual([set(pair) for pair in result["pairs"]],
                         [{"ours:read-1M", "theirs:read-1M", "reference:link-h2d"}] * 3)

    def test_starts_the_other_process_first_halfway(self):
        opened = []
        clients = {"ours": FakeClient(2, opened=opened), "theirs": FakeClient(1, opened=opened),
                   "reference": FakeClient(1)}
        comparison = self.comparison()
        comparison.options.rows = "read-1M"
        comparison.client = lambda who, _kind: clients[who]
        for client in clients.values():
            client.once = lambda *_: {}
        self.assertTrue(comparison.run())
        self.assertEqual(opened, [clients["ours"], clients["theirs"], clients["theirs"], clients["ours"]])

    def test_does_not_repeat_what_is_complete(self):
        row = floors.Row("read-1M")
        self.comparison().turns("cached", row, {"ours": FakeClient(2), "theirs": FakeClient(1)}, 3)
        again = {"ours": FakeClient(2), "theirs": FakeClient(1)}
        self.comparison().turns("cached", row, again, 3)
        self.assertEqual(again["ours"].runs, 0)


if __name__ == "__main__":
    unittest.main()
