#!/usr/bin/env python3
"""The statistics of a comparison, its verdicts and its resuming: without a client, on numbers made for the purpose."""

import json
import math
import pathlib
import random
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import compare  # noqa: E402
import floors  # noqa: E402
import paired  # noqa: E402
import verdicts  # noqa: E402


def sample(speed, p50=10.0, processor=0.1):
    return {"gib_per_s": speed, "p50_us": p50, "cpu_s_per_gib": processor}


def pairs_of(row, ours, theirs):
    return {"pairs": [{f"ours:{row}": sample(a), f"theirs:{row}": sample(b)} for a, b in zip(ours, theirs)],
            "errors": {}}


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
        self.assertAlmostEqual(verdict.estimate, 3.0)


class Floors(unittest.TestCase):
    def test_of_processor_time_depend_on_size_and_number(self):
        self.assertEqual([floors.processor_limit(name) for name in
                          ("read-64K", "read-256K", "read-4M", "read-16M", "read-1M-x8", "read-1M-unreg")],
                         [1.25, 2.0, 2.0, 1.25, 1.25, 2.0])

    def test_name_what_has_to_be_measured_with_a_row(self):
        (row,) = [row for row in floors.CACHED if row.name == "read-64M"]
        self.assertEqual(row.participants(),
                         [("ours", "read-64M"), ("theirs", "read-64M"), ("reference", "link-h2d")])


class FakeClient:
    """Answers as a client would, and counts."""

    def __init__(self, speed):
        self.speed = speed
        self.runs = 0

    def command(self, text, _seconds):
        if text.startswith("run"):
            self.runs += 1
            return sample(self.speed)
        return {"compared": 1}

    def close(self):
        pass


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

    def test_does_not_repeat_what_is_complete(self):
        row = floors.Row("read-1M")
        self.comparison().turns("cached", row, {"ours": FakeClient(2), "theirs": FakeClient(1)}, 3)
        again = {"ours": FakeClient(2), "theirs": FakeClient(1)}
        self.comparison().turns("cached", row, again, 3)
        self.assertEqual(again["ours"].runs, 0)


if __name__ == "__main__":
    unittest.main()
