# SPDX-License-Identifier: Apache-2.0
"""What grows: slopes of what a process holds, and whether they are more than chance."""

NAMES = ("memory", "allocated", "descriptors", "threads", "pinned")
MEBI = 1 << 20
# What the line through the samples may rise from its first to its last. Memory is what is resident, allocated what of the
# heaps is in use. Allocators, and threads that come and go, make samples differ; a leak of one descriptor a round, or of
# a kilobyte a handle, is beyond it within some rounds.
ALLOWED = {"memory": 8 * MEBI, "allocated": MEBI, "descriptors": 2, "threads": 4, "pinned": 0}
# So much of the samples is not looked at, and so many rounds at least: pools fill, and what is in them becomes resident as
# it is used to its end, which takes a round of everything some ten times.
WARM, WARM_ROUNDS = 1 / 3, 12
FEWEST = 8  # samples that make a slope


def slope(points):
    """Of the line that fits best, by the unit of x."""
    count = len(points)
    mean_x = sum(x for x, _ in points) / count
    mean_y = sum(y for _, y in points) / count
    width = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / width if width else 0.0


def judged(samples):
    """samples: (seconds, memory, allocated, descriptors, threads, pinned). For each name: (by hour, rise, allowed), or
    nothing where there are too few."""
    samples = samples[max(int(len(samples) * WARM), WARM_ROUNDS):]
    if len(samples) < FEWEST:
        return {}
    told = {}
    span = samples[-1][0] - samples[0][0]
    for place, name in enumerate(NAMES, start=1):
        by_second = slope([(sample[0], sample[place]) for sample in samples])
        told[name] = (by_second * 3600, by_second * span, ALLOWED[name])
    return told


def grown(told):
    """Names of what has grown by more than is allowed."""
    return [name for name, (_, rise, allowed) in told.items() if rise > allowed + 1e-6]
