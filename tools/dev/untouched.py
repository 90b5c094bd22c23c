#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tells the tests that show nothing of a change which others do not: their labels, one a line.

  untouched.py CHANGED
  untouched.py --list

CHANGED holds the files that have changed, one a line, as changed.py tells them. The check leaves out the tests of these labels,
and what only they need it does not build; `./run check --full` runs them. A file of no place below touches every test.
--list tells the labels with the places that touch each.
"""
import pathlib
import sys

# Through the library, as programs use it.
LIBRARY = {"callers", "contract", "differential", "direct", "failures", "fault", "fuzz", "gpu", "matrix", "model", "nvfs", "python",
           "rdma", "sick", "soak"}
# The driver for Kubernetes, its chart and its image.
CSI = {"csi"}
EVERY = LIBRARY | CSI

# Place: what a change in it touches. The longest that fits counts.
PLACES = {
    "include/": EVERY,
    "src/": LIBRARY,
    "src/CMakeLists.txt": EVERY,
    "src/base/": EVERY,  # these two the driver for Kubernetes is made of, too (tests/style/layers.json)
    "src/facts/": EVERY,
    "softgpu/": EVERY,
    "python/": {"python"},
    "deploy/": CSI,
    "tools/": CSI | {"gpu"},  # their tests ask the `sluice` command
    "tools/dev/": EVERY,
    "tests/": LIBRARY,
    "tests/CMakeLists.txt": EVERY,
    "tests/lab/guest/csi.sh": CSI,
    "tests/packaging/": CSI,  # its tests make containers with what lies there
    "tests/system/": CSI | {"gpu"},
    # Of these all tests run at every change.
    "tests/abi/": set(),
    "tests/examples/": set(),
    "tests/fixtures/": set(),
    "tests/lab/": set(),
    "tests/style/": set(),
    "tests/unit/": set(),
    ".github/": set(),
    "bench/": set(),
    "docs/": set(),
    "docs/guide/kubernetes.md": CSI,
    "docs/guide/python.md": {"python"},
    "examples/": set(),
    "packaging/": CSI | {"python"},
    "samples/": CSI,
    "CHANGELOG.md": set(),
    "CONTRIBUTING.md": set(),
    "README.md": set(),
    "SECURITY.md": set(),
}


def touched_by(path):
    places = [place for place in PLACES if path.startswith(place)]
    return PLACES[max(places, key=len)] if places else EVERY


def untouched(paths):
    return sorted(EVERY.difference(*map(touched_by, paths)))


def main():
    if sys.argv[1:] == ["--list"]:
        for label in sorted(EVERY):
            print(f"{label}: {' '.join(place for place in PLACES if label in PLACES[place])}")
        return 0
    if len(sys.argv) != 2:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    for label in untouched(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()):
        print(label)
    return 0


if __name__ == "__main__":
    sys.exit(main())
