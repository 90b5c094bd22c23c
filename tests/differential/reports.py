# SPDX-License-Identifier: Apache-2.0
"""The report of a run, as a document and as text; and several runs as one."""

import collections

VERDICTS = {"UNEXPLAINED": "without", "unconfirmed": "that fresh processes did not show",
            "not looked at": "not confirmed for lack of time"}
SITUATIONS = 50  # kept of each class
EXAMPLES = 3  # kept of each reason to give a process up


def verdict_of(example):
    return "not looked at" if not example else "UNEXPLAINED" if example["confirmed"] else "unconfirmed"


def in_order(classes):
    return sorted(classes, key=lambda one: (list(VERDICTS).index(one["verdict"]), -one["scripts"]))


def document_of(given, known, passed, examples, seconds, first_seconds):
    """What a run has shown; report.json is this."""
    classes = [{"call": key[0], "part": key[1], "ours": key[2], "theirs": key[3], "scripts": count,
                "verdict": verdict_of(examples.get(key)), "situations": dict(situations.most_common(SITUATIONS)),
                "example": examples.get(key)}
               for key, (count, situations, _) in passed.classes.items()]
    counts = {side: {} for side in passed.counts}
    for side, counted in passed.counts.items():
        for (mode, what), count in sorted(counted.items()):
            counts[side].setdefault(mode, {})[what] = count
    return {
        "runs": [{"first": given.seed, "last": max(given.seed, passed.last - 1), "scripts": passed.scripts,
                  "first_pass_seconds": round(first_seconds, 1), "seconds": round(seconds, 1),
                  "open_seconds": {side: round(took, 1) for side, took in passed.open_seconds.items()}}],
        "scripts": passed.scripts, "calls": passed.calls, "life": given.life, "closed": given.closed,
        "danger": given.danger, "left_out": given.left_out, "counts": counts,
        "given_up": [{"side": side, "mode": mode, "why": why, "examples": some}
                     for (side, mode, why), some in sorted(passed.given_up.items())],
        "known": [{"reason": known.rows[row][2], "pattern": known.rows[row][0].pattern, "scripts": count}
                  for row, count in passed.rows.most_common()],
        "classes": in_order(classes),
    }


def merge_classes(documents):
    classes = {}
    for document in documents:
        for one in document["classes"]:
            key = one["call"], one["part"], one["ours"], one["theirs"]
            if key not in classes:
                classes[key] = {**one, "situations": dict(one["situations"])}
                continue
            mine = classes[key]
            mine["scripts"] += one["scripts"]
            both = collections.Counter(mine["situations"]) + collections.Counter(one["situations"])
            mine["situations"] = dict(both.most_common(SITUATIONS))
            if list(VERDICTS).index(one["verdict"]) < list(VERDICTS).index(mine["verdict"]):
                mine["verdict"], mine["example"] = one["verdict"], one["example"]
    return list(classes.values())


def explain(classes, known, rows):
    """The classes that have no row, now: one has one when all of its situations have. Counts the others in `rows`."""
    left = []
    for one in classes:
        texts = [f"{one['call']} {one['part']}: ours {one['ours']}, theirs {one['theirs']} [{situation}]"
                 for situation in one["situations"]]
        found = [known.row(text)[0] for text in texts]
        if not found or None in found:
            left.append(one)
            continue
        _, _, reason = known.rows[found[0]]
        rows[known.rows[found[0]][0].pattern, reason] += one["scripts"]
    return left


def merge(documents, known):
    """Several runs as one; their numbers must not overlap."""
    runs = sorted((run for document in documents for run in document["runs"]), key=lambda run: run["first"])
    for one, other in zip(runs, runs[1:]):
        if other["first"] <= one["last"]:
            raise ValueError(f"the scripts from {other['first']} on were played in two of the runs: "
                             f"one had {one['first']} to {one['last']}")
    rows, counts, given_up = collections.Counter(), {}, {}
    for document in documents:
        for row in document["known"]:
            rows[row["pattern"], row["reason"]] += row["scripts"]
        for side, modes in document["counts"].items():
            for mode, counted in modes.items():
                mine = counts.setdefault(side, {}).setdefault(mode, collections.Counter())
                mine.update(counted)
        for one in document["given_up"]:
            kept = given_up.setdefault((one["side"], one["mode"], one["why"]), [])
            kept += one["examples"][:EXAMPLES - len(kept)]
    classes = explain(merge_classes(documents), known, rows)
    left_out = sorted({call for document in documents for call in document["left_out"]})
    return {**documents[0], "runs": runs, "left_out": left_out, "counts": counts,
            "scripts": sum(document["scripts"] for document in documents),
            "calls": sum(document["calls"] for document in documents),
            "given_up": [{"side": side, "mode": mode, "why": why, "examples": some}
                         for (side, mode, why), some in sorted(given_up.items())],
            "known": [{"reason": reason, "pattern": pattern, "scripts": count}
                      for (pattern, reason), count in rows.most_common()],
            "classes": in_order(classes)}


def unexplained(document):
    return sum(one["verdict"] == "UNEXPLAINED" for one in document["classes"])


def lines_of_counts(counts):
    """How the processes of each library fared, and what took the time of their scripts."""
    lines = []
    for side, modes in counts.items():
        for mode, counted in sorted(modes.items()):
            of = dict(counted)
            starts, scripts = of.pop("starts", 0), of.pop("scripts", 0)
            start, busy = of.pop("start_us", 0) / 1e6, of.pop("us", 0) / 1e6
            reset, opened = of.pop("reset_us", 0) / 1e6, of.pop("opened", 0)
            took = {what[5:]: us for what, us in of.items() if what.startswith("took ")}
            times = {what[6:]: count for what, count in of.items() if what.startswith("times ")}
            ends = "; ".join(f"{what} ({count})" for what, count in sorted(of.items(), key=lambda item: -item[1])
                             if not what.startswith(("took ", "times ")))
            lines.append(f"{side} {mode}: {scripts} scripts at {1000 * busy / max(1, scripts):.2f} ms, "
                         f"{1000 * reset / max(1, scripts):.2f} ms of it to reset; opened again {opened} times; {starts} processes, "
                         f"{start / max(1, starts):.2f} s to start one{'; given up: ' if ends else ''}{ends}")
            slow = sorted(took.items(), key=lambda item: -item[1])[:8]
            lines.append("    " + ", ".join(f"{name} {us / 1e6:.1f} s ({us / 1000 / max(1, times[name]):.2f} ms each)"
                                            for name, us in slow))
    return lines


def lines_of_example(example):
    lines = [f"    script {example['seed']}, {example['mode']}{'' if example['confirmed'] else ', not so in fresh processes'}:"]
    ours, theirs = example["answers"] or ([], [])
    for number, call in enumerate(example["calls"]):
        lines.append(f"      {call}")
        if ours[number:number + 1] != theirs[number:number + 1]:
            lines.append(f"          ours   {ours[number] if number < len(ours) else 'nothing'}")
            lines.append(f"          theirs {theirs[number] if number < len(theirs) else 'nothing'}")
    for side, answers in (("ours", ours), ("theirs", theirs)):
        if ours[len(example["calls"]):] != theirs[len(example["calls"]):]:
            lines += [f"          {side} {line}" for line in answers[len(example["calls"]):]]
    return lines


def lines_of_run(run):
    pace = run["scripts"] / max(0.001, run["first_pass_seconds"])
    shares = ", ".join(f"{side} had played its share after {seconds:.0f} s" for side, seconds in run["open_seconds"].items())
    return (f"{run['scripts']} scripts from {run['first']} on in {run['first_pass_seconds']:.0f} s, {pace:.1f} scripts/s of "
            f"each library; {run['seconds']:.0f} s in all; {shares}")


def lines_of(document):
    """report.txt"""
    number = collections.Counter(one["verdict"] for one in document["classes"])
    head = [f"{document['scripts']} scripts, {2 * document['scripts']} over both libraries, {document['calls']} calls",
            *(lines_of_run(run) for run in document["runs"]),
            f"{len(document['classes'])} classes of differences have no row: "
            + ", ".join(f"{number[verdict]} {verdict} ({meaning})" for verdict, meaning in VERDICTS.items())
            + f"; {len(document['known'])} rows have a reason",
            *lines_of_counts(document["counts"])]
    for one in document["given_up"]:
        calls, told = one["examples"][0]
        head.append(f"given up {one['side']} {one['mode']}, {one['why']}: {told}")
        head += [f"      {call}" for call in calls]
    if document["left_out"]:
        head.append(f"left out, since one library alone has them: {', '.join(document['left_out'])}")
    head += [f"reason  {row['scripts']:7} scripts  {row['reason']}  ({row['pattern']})" for row in document["known"]]
    lines = []
    for one in document["classes"]:
        lines.append(f"{one['verdict']} {one['call']} {one['part']}: ours {one['ours']}, theirs {one['theirs']} "
                     f"({one['scripts']} scripts)")
        lines += [f"    where: {situation}" for situation in list(one["situations"])[:3]]
        lines += lines_of_example(one["example"]) if one["example"] else []
    return head + lines
