#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes one report of several runs of differential.py over different scripts, and tells which classes have no row.

    merge.py REPORT.json [REPORT.json ...] [--json FILE]

The text goes to standard output, the document to FILE. A class all of whose situations have a row in known.txt by now is
counted with that row. Leaves with 0 when every difference has a reason, 1 when one has none.
"""

import argparse
import json
import pathlib
import sys

import comparison
import reports


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports", nargs="+", type=pathlib.Path, metavar="REPORT.json")
    parser.add_argument("--known", default=comparison.KNOWN, type=pathlib.Path)
    parser.add_argument("--json", type=pathlib.Path, help="writes the merged report here, too")
    given = parser.parse_args()
    try:
        documents = [json.loads(path.read_text(encoding="utf-8")) for path in given.reports]
        merged = reports.merge(documents, comparison.Known(given.known))
    except (OSError, ValueError) as error:
        parser.error(str(error))
    print("\n".join(reports.lines_of(merged)))
    if given.json:
        given.json.write_text(json.dumps(merged, indent=1), encoding="utf-8")
    return 1 if reports.unexplained(merged) else 0


if __name__ == "__main__":
    sys.exit(main())
