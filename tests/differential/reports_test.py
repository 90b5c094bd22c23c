#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Several reports as one, and records of answers: what is added up, and what is refused."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import comparison
import records
import reports


def document(first, last, classes=(), known=()):
    return {"runs": [{"first": first, "last": last, "scripts": last - first + 1, "first_pass_seconds": 1.0, "seconds": 2.0,
                      "open_seconds": {"ours": 1.0, "theirs": 1.0}}],
            "scripts": last - first + 1, "calls": 10, "life": 0.2, "closed": 0.2, "danger": {}, "left_out": [],
            "counts": {"ours": {"open": {"scripts": 2, "us": 10}}}, "given_up": [],
            "known": [{"reason": reason, "pattern": pattern, "scripts": count} for reason, pattern, count in known],
            "classes": list(classes)}


def difference(scripts, verdict, situation, example=None):
    return {"call": "Read", "part": "errno", "ours": "1", "theirs": "5", "scripts": scripts, "verdict": verdict,
            "situations": {situation: scripts}, "example": example}


EXAMPLE = {"seed": 7, "mode": "open", "calls": ["Read h0 d0 1 0 0"], "confirmed": True, "situation": "a",
           "answers": [["1 Read ret=-1 errno=1"], ["1 Read ret=-1 errno=5"]]}


class Merged(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def known(self, text):
        path = self.folder / "known.txt"
        path.write_text(text, encoding="utf-8")
        return comparison.Known(path)

    def test_scripts_and_counts_are_added_up(self):
        both = reports.merge([document(1, 100), document(200, 299)], self.known(""))
        self.assertEqual(both["scripts"], 200)
        self.assertEqual(both["counts"]["ours"]["open"]["scripts"], 4)
        self.assertEqual([run["first"] for run in both["runs"]], [1, 200])

    def test_the_same_scripts_are_not_counted_twice(self):
        with self.assertRaises(ValueError):
            reports.merge([document(1, 100), document(100, 150)], self.known(""))

    def test_a_class_is_one_and_keeps_its_confirmed_example(self):
        both = reports.merge([document(1, 100, [difference(3, "not looked at", "a")]),
                              document(200, 299, [difference(4, "UNEXPLAINED", "b", EXAMPLE)])], self.known(""))
        self.assertEqual(len(both["classes"]), 1)
        self.assertEqual(both["classes"][0]["scripts"], 7)
        self.assertEqual(both["classes"][0]["example"], EXAMPLE)
        self.assertEqual(reports.unexplained(both), 1)
        self.assertIn("          theirs 1 Read ret=-1 errno=5", reports.lines_of(both))

    def test_a_class_has_a_reason_once_all_of_its_situations_have_a_row(self):
        runs = [document(1, 100, [difference(3, "UNEXPLAINED", "a", EXAMPLE)]),
                document(200, 299, [difference(4, "UNEXPLAINED", "b", EXAMPLE)])]
        self.assertEqual(reports.unexplained(reports.merge(runs, self.known(r"^Read errno.*\[a | on | why"))), 1)
        both = reports.merge(runs, self.known(r"^Read errno | on | why"))
        self.assertEqual(reports.unexplained(both), 0)
        self.assertEqual(both["known"], [{"reason": "why", "pattern": "^Read errno", "scripts": 7}])

    def test_records_are_read_as_they_were_written(self):
        parts = self.folder / "parts"
        parts.mkdir()
        for name in ("a", "b"):
            with records.writer(parts / f"{name}.xz") as record:
                records.add(record, name, "open", ["Read h0 d0 1 0 0"], ["1 Read ret=1"])
        records.gather(parts, self.folder)
        found = list(records.read(sorted(self.folder.glob("answers.*.xz"))))
        self.assertEqual([one[0] for one in found], ["a", "b"])
        self.assertEqual(found[0][1:], ["open", ["Read h0 d0 1 0 0"], ["1 Read ret=1"]])


if __name__ == "__main__":
    unittest.main()
