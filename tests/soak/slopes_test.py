#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A leak is noticed, and what only goes up and down is none."""
import random
import unittest

import slopes

MEBI = slopes.MEBI


def samples(count, **leaks):
    chance = random.Random(3)
    base = {"memory": 200 * MEBI, "allocated": 8 * MEBI, "descriptors": 40, "threads": 20, "pinned": 64 * MEBI}
    noise = {"memory": 2 * MEBI, "allocated": 50_000, "descriptors": 1, "threads": 2, "pinned": 0}
    return [(10.0 * number, *(base[name] + number * leaks.get(name, 0) + chance.uniform(-noise[name], noise[name])
                              for name in slopes.NAMES)) for number in range(count)]


class Slopes(unittest.TestCase):
    def test_noise_is_no_growth(self):
        self.assertEqual(slopes.grown(slopes.judged(samples(60))), [])

    def test_each_leak_is_noticed(self):
        for name, leak in (("memory", MEBI), ("allocated", 100_000), ("descriptors", 1), ("threads", 1), ("pinned", 4 * MEBI)):
            self.assertEqual(slopes.grown(slopes.judged(samples(60, **{name: leak}))), [name])

    def test_what_fills_while_it_gets_warm_is_no_leak(self):
        filling = [(sample[0], min(sample[0] * MEBI, 100 * MEBI), *sample[2:]) for sample in samples(60)]
        self.assertEqual(slopes.grown(slopes.judged(filling)), [])

    def test_a_short_soak_is_not_judged_by_its_first_rounds(self):
        filling = [(10.0 * number, min(number, 11) * 10 * MEBI, 0, 0, 0, 0) for number in range(24)]
        self.assertEqual(slopes.judged(filling[:15]), {})
        self.assertEqual(slopes.grown(slopes.judged(filling)), [])

    def test_the_slope_is_told_by_the_hour(self):
        straight = [(10.0 * number, number, 0, 0, 0, 0) for number in range(30)]
        self.assertAlmostEqual(slopes.judged(straight)["memory"][0], 360)

    def test_few_samples_say_nothing(self):
        self.assertEqual(slopes.judged(samples(4)), {})


if __name__ == "__main__":
    unittest.main()
