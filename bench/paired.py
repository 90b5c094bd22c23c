# SPDX-License-Identifier: Apache-2.0
"""Statistics of paired measurements: what can be said with 95 % certainty of a ratio that was measured several times.

Two libraries are measured in turns; each turn gives one ratio. Ratios multiply, so their logarithms are averaged, and
the bound is Student's one-sided one: were the true ratio at the bound, chance alone would give an average as high as
the measured one in 5 % of all cases. Beside it stands the bound of the median, which asks nothing of the distribution.
"""

import functools
import math

CONFIDENCE = 0.95


def student_cdf(value, freedom):
    """The chance that Student's t with `freedom` degrees of freedom stays below `value`: its density, integrated."""
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(freedom * math.pi)

    def density(at):
        return scale * (1 + at * at / freedom) ** (-(freedom + 1) / 2)

    steps = 400
    width = abs(value) / steps
    inner = sum((4 if i % 2 else 2) * density(i * width) for i in range(1, steps))
    area = (density(0) + inner + density(abs(value))) * width / 3
    return 0.5 + math.copysign(area, value)


@functools.lru_cache
def student_quantile(share, freedom):
    """The value that Student's t stays below with that chance, for a share above one half."""
    low, high = 0.0, 1000.0
    for _ in range(60):
        middle = (low + high) / 2
        if student_cdf(middle, freedom) < share:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def mean(values):
    return math.fsum(values) / len(values)


def error_of_mean(values):
    center = mean(values)
    return math.sqrt(math.fsum((value - center) ** 2 for value in values) / (len(values) - 1) / len(values))


def lower_bound(values):
    """Below the true mean, with 95 % certainty. None for fewer than two values."""
    if len(values) < 2:
        return None
    return mean(values) - student_quantile(CONFIDENCE, len(values) - 1) * error_of_mean(values)


def upper_bound(values):
    bound = lower_bound([-value for value in values])
    return None if bound is None else -bound


def ratio(pairs):
    """Of (ours, theirs) pairs of positive numbers: the geometric mean of ours / theirs, and its lower 95 % bound."""
    logarithms = [math.log(ours / theirs) for ours, theirs in pairs]
    bound = lower_bound(logarithms)
    return math.exp(mean(logarithms)), None if bound is None else math.exp(bound)


def median_bound(values):
    """Below the true median, with 95 % certainty, whatever the distribution: a single value far off does not move it,
    where it moves a mean and widens its error. None for fewer than five values, of which even the least may be above."""
    ordered = sorted(values)
    above = 0.0  # the chance that no more than `rank` values lie below the true median
    bound = None
    for rank, value in enumerate(ordered):
        above += math.comb(len(ordered), rank) / 2 ** len(ordered)
        if above > 1 - CONFIDENCE:
            break
        bound = value
    return bound


def median_upper_bound(values):
    bound = median_bound([-value for value in values])
    return None if bound is None else -bound


def median(values):
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
