# SPDX-License-Identifier: Apache-2.0
"""Slices of a virtual machine whose host gives its processors to others now and then."""

import os


def share_stolen(sample):
    """Of the time of all processors, how much others had while the sample was taken."""
    return sample.get("stolen_seconds", 0) / (sample.get("seconds", 1) * (os.cpu_count() or 1))


def measured(measure, allowed, most):
    """The first sample of which others had no more than allowed, or the last one of so many more. It tells which."""
    for again in range(most + 1):
        sample = measure()
        sample["disturbed"] = share_stolen(sample) > allowed
        sample["again"] = again
        if not sample["disturbed"]:
            break
    return sample


def account(results):
    """A line about all that was measured."""
    samples = [sample for rows in results.values() for result in rows.values() for pair in result["pairs"]
               for sample in pair.values()]
    return (f"{len(samples)} slices; made again, since others had too much of the processors: "
            f"{sum(sample.get('again', 0) for sample in samples)}; disturbed to the end: "
            f"{sum(sample.get('disturbed', False) for sample in samples)}")
