# SPDX-License-Identifier: Apache-2.0
"""From samples to verdicts: each requirement of a row with its estimate, its 95 % bound and whether it is met."""

import dataclasses

import paired


@dataclasses.dataclass(frozen=True)
class Verdict:
    kind: str
    row: str
    metric: str
    against: str
    ours: float          # medians of what was measured, for the eye
    other: float
    estimate: float      # a ratio; for slowdown, first and idle the number itself
    bound: float         # of the estimate: lower for ratios, upper for numbers; None without enough pairs
    middle: float        # the same of the median of all pairs, which those that others disturbed hardly move
    middle_bound: float
    floor: float         # None: nothing is asked
    met: bool            # by the mean; None: nothing is asked, or nothing can be said
    reason: str = ""

    def is_met_in_the_middle(self):
        """Would it be met if the median were asked?"""
        if self.floor is None or self.middle_bound is None:
            return False
        return self.middle_bound >= self.floor if self.metric in RATES else self.middle_bound <= self.floor


# What a sample says for each metric, as a number that is better when it is larger.
RATES = {
    "speed": lambda sample: sample["gib_per_s"],
    "latency": lambda sample: 1 / sample["p50_us"],
    "processor": lambda sample: 1 / max(sample["cpu_s_per_gib"], 1e-9),
}
# As people read it.
SHOWN = {
    "speed": lambda sample: sample["gib_per_s"],
    "latency": lambda sample: sample["p50_us"],
    "processor": lambda sample: sample["cpu_s_per_gib"],
    "slowdown": lambda sample: sample["product_slowdown"],
    "first": lambda sample: sample["register_ms"] + sample["first_ms"],  # from the open driver to the first bytes
    "idle": lambda sample: sample["cpu_seconds"] / sample["seconds"] * 1e3,
}


def key(who, row):
    return f"{who}:{row}"


def other_key(requirement, row):
    who = {"incumbent": "theirs", "reference": "reference", "own": "ours"}[requirement.against]
    return key(who, requirement.row or row)


def judge(kind, row, requirement, result):
    """One requirement. `result`: {"pairs": [{key: sample}], "errors": {key: text}}."""
    mine = key("ours", row.name)
    others = None if requirement.against == "limit" else other_key(requirement, row.name)
    errors = result.get("errors", {})
    against = requirement.against if requirement.against in ("incumbent", "limit") else requirement.row
    if requirement.metric == "processor":
        against += "'s processor time"
    blank = dict(kind=kind, row=row.name, metric=requirement.metric, against=against, ours=None, other=None,
                 estimate=None, bound=None, middle=None, middle_bound=None, floor=requirement.floor, met=None)
    asked = requirement.floor is not None
    for wanted, met in ((mine, False if asked else None), (others, None)):
        if wanted in errors:
            return Verdict(**{**blank, "met": met, "reason": f"{wanted}: {errors[wanted]}"})
    pairs = [pair for pair in result.get("pairs", []) if mine in pair and (others is None or others in pair)]
    if not pairs:
        return Verdict(**{**blank, "reason": "not measured"})
    shown = SHOWN[requirement.metric]
    blank["ours"] = paired.median([shown(pair[mine]) for pair in pairs])
    if others:
        blank["other"] = paired.median([shown(pair[others]) for pair in pairs])
    if requirement.metric in RATES:
        rate = RATES[requirement.metric]
        rates = [(rate(pair[mine]), rate(pair[others])) for pair in pairs]
        estimate, bound = paired.ratio(rates)
        ratios = [ours / theirs for ours, theirs in rates]
        middle, middle_bound = paired.median(ratios), paired.median_bound(ratios)
        met = bound >= requirement.floor if asked and bound is not None else None
    else:
        values = [shown(pair[mine]) - (shown(pair[others]) if others else 0) for pair in pairs]
        estimate, bound = paired.mean(values), paired.upper_bound(values)
        middle, middle_bound = paired.median(values), paired.median_upper_bound(values)
        met = bound <= requirement.floor if asked and bound is not None else None
    return Verdict(**{**blank, "estimate": estimate, "bound": bound, "middle": middle,
                      "middle_bound": middle_bound, "met": met})


def judge_row(kind, row, result):
    """All requirements of a row; where it has none, its ratio to the incumbent, without a verdict unless ours fails."""
    if row.requirements:
        return [judge(kind, row, requirement, result) for requirement in row.requirements]
    from floors import Requirement
    found = judge(kind, row, Requirement("speed", "incumbent", row.name, None), result)
    return [dataclasses.replace(found, met=False if key("ours", row.name) in result.get("errors", {}) else None)]


def number(value, digits=3):
    if value is None:
        return "–"
    return f"{value:.0f}" if abs(value) >= 10000 else f"{value:.{digits}g}"


def verdict_table(verdicts):
    """Markdown, a line a requirement."""
    lines = ["| file | row | held against | ours | other | ratio | 95 % bound | median | its bound | floor | |",
             "|---|---|---|---|---|---|---|---|---|---|---|"]
    for verdict in verdicts:
        word = {True: "met", False: "NOT MET", None: ""}[verdict.met]
        if verdict.met is False and verdict.is_met_in_the_middle():
            word = "met by the median"
        sign = "≤ " if verdict.metric in ("slowdown", "first", "idle") else ""
        against = {"slowdown": f"{verdict.against}: product's slowdown", "first": "milliseconds",
                   "idle": "milliseconds a second",
                   "latency": f"{verdict.against}'s p50"}.get(verdict.metric, verdict.against)
        floor = "–" if verdict.floor is None else sign + number(verdict.floor)
        text = f"{word} {verdict.reason}".strip()
        lines.append(f"| {verdict.kind} | {verdict.row} | {against} | {number(verdict.ours)} | {number(verdict.other)} "
                     f"| {number(verdict.estimate)} | {number(verdict.bound)} | {number(verdict.middle)} "
                     f"| {number(verdict.middle_bound)} | {floor} | {text} |")
    return "\n".join(lines)


def sample_table(results):
    """Markdown: medians of every row that was measured, ours and theirs and the references."""
    lines = ["| file | row | whose | GiB/s | p50 µs | p99 µs | CPU s/GiB | pairs |", "|---|---|---|---|---|---|---|---|"]
    for kind, rows in results.items():
        for result in rows.values():
            for name in sorted({name for pair in result["pairs"] for name in pair}):
                samples = [pair[name] for pair in result["pairs"] if name in pair]
                if "gib_per_s" not in samples[0]:
                    continue
                who, row = name.split(":", 1)
                values = [paired.median([sample[field] for sample in samples])
                          for field in ("gib_per_s", "p50_us", "p99_us", "cpu_s_per_gib")]
                lines.append(f"| {kind} | {row} | {who} | " + " | ".join(number(value, 4) for value in values) +
                             f" | {len(samples)} |")
    return "\n".join(lines)
