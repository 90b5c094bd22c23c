#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What no row of known.txt may excuse, and what the situations tell that rows hold on to."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import comparison

READ = ["HandleRegister h0 r.rw 1 -", "Read h0 d0 512 0 0"]
OPENED = "1 HandleRegister err=0/0 handle=set use=1"


def first(calls, ours, theirs, mode="open"):
    return comparison.first_unknown(mode, calls, ours, theirs, comparison.Known())[0]


class Faults(unittest.TestCase):
    def test_of_ours_are_told_even_where_the_other_library_answers_the_same(self):
        for wrong in ("wrong=bytes got=1", "wrong=count got=1", "got=1 beyond=changed"):
            answers = [OPENED, f"2 Read ret=512 {wrong} use=1"]
            self.assertIsNotNone(first(READ, answers, answers), wrong)

    def test_of_theirs_have_a_row(self):
        ours = [OPENED, "2 Read ret=512 got=0000000000000001 beyond=kept use=1"]
        for theirs in ("wrong=bytes got=0000000000000002 beyond=kept", "got=0000000000000001 beyond=changed"):
            self.assertIsNone(first(READ, ours, [OPENED, f"2 Read ret=512 {theirs} use=1"]), theirs)

    def test_memory_may_have_changed_under_a_read_that_fails(self):
        answers = [OPENED, "2 Read ret=-1 errno=1 got=0000000000000000 beyond=changed use=1"]
        self.assertIsNone(first(READ, answers, answers))

    def test_a_count_comes_before_what_the_memory_holds(self):
        ours = [OPENED, "2 Read ret=-1 errno=5 got=0000000000000000 beyond=kept use=1"]
        theirs = [OPENED, "2 Read ret=512 same=yes got=0000000000000001 beyond=kept use=1"]
        self.assertEqual(first(READ, ours, theirs).part, "ret")

    def test_what_is_uncertain_excuses_the_rest_of_its_line(self):
        ours = [OPENED, "2 Read ret=uncertain got=0000000000000001 beyond=uncertain use=1"]
        self.assertIsNone(first(READ, ours, [OPENED, "2 Read ret=512 got=0000000000000002 beyond=kept use=1"]))


class Situations(unittest.TestCase):
    def of(self, calls, lines):
        return str(comparison.Situation("open", calls, len(calls), lines))

    def test_tell_of_a_registration_that_reaches_in(self):
        calls = ["BufRegister d0 65537 0", "Read h0 d1 4096 0 0"]
        self.assertIn("reached into", self.of(calls, ["1 BufRegister err=0/0 use=1"]))
        self.assertNotIn("reached into", self.of(["BufRegister d0 65536 0", calls[1]], ["1 BufRegister err=0/0 use=1"]))

    def test_tell_of_memory_that_is_registered(self):
        lines = ["1 BufRegister err=0/0 use=1"]
        self.assertIn("of registered memory", self.of(["BufRegister d0 4096 0", "BufRegister d0 1 0"], lines))
        self.assertNotIn("of registered memory", self.of(["BufRegister d0 4096 0", "BufRegister d0+1 1 0"], lines))

    def test_tell_of_transfers_by_stale_handles(self):
        calls = ["HandleRegister h0 r.rw 1 -", "HandleDeregister h0", "Read h0 d0 1 0 0", "UseCount"]
        lines = [OPENED, "2 HandleDeregister use=1", "3 Read ret=-1 errno=5027 use=1"]
        self.assertIn("after a stale transfer", self.of(calls, lines))

    def test_tell_the_alignment_of_huge_offsets(self):
        self.assertIn("offset huge unaligned", self.of(["WriteAsync h0 d0 4096 2147483647 0 s0 -"], []))
        self.assertIn("offset huge, ", self.of(["WriteAsync h0 d0 4096 2147483648 0 s0 -"], []))


if __name__ == "__main__":
    unittest.main()
