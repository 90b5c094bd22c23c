# SPDX-License-Identifier: Apache-2.0
"""python -m sluice: run a program on Sluice's library, or ask it something."""

from __future__ import annotations

import argparse
import json
import os
import runpy
import sys
import sysconfig

import sluice


def _run(words: "list[str]") -> int:
    """Installs the library, then runs a script or a module as python would."""
    if not words:
        sys.exit("python -m sluice run: name a script, or -m and a module")
    if sluice.install() is None:
        return 1
    if words[0] == "-m":
        if len(words) < 2:
            sys.exit("python -m sluice run -m: name a module")
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = words
        sys.path[0] = os.path.dirname(os.path.abspath(words[0]))
        runpy.run_path(words[0], run_name="__main__")
    return 0


def _doctor(as_json: bool) -> int:
    about = sluice.doctor()
    if as_json:
        print(json.dumps(about, indent=2))
    else:
        for name, value in about.items():
            if name != "problems":
                print(f"{name}: {', '.join(value) if isinstance(value, list) else value}")
        for problem in about["problems"]:  # type: ignore[attr-defined]
            print(f"problem: {problem}")
        if not about["problems"]:
            print("no problem found")
    return 1 if about["problems"] else 0


def _explain(options: argparse.Namespace) -> int:
    told = [{"file": path, "answers": [one._asdict() for one in sluice.explain(path, options.gpu, options.write)]}
            for path in options.files]
    if options.json:
        print(json.dumps(told, indent=2))
        return 0
    for one in told:
        print(one["file"])
        for answer in one["answers"]:
            print(f"  {answer['path']} ({answer['reason']}): {answer['sentence']}")
            print(f"    {answer['remedy']}\n    {answer['facts']}")
    return 0


PTH = "sluice-install.pth"
PTH_TEXT = "import os; os.environ.get('SLUICE_INSTALL') == '1' and __import__('sluice').install()\n"


def _pth(options: argparse.Namespace) -> int:
    """A file that Python reads at each start; it does something only where SLUICE_INSTALL=1."""
    path = os.path.join(options.folder or sysconfig.get_paths()["purelib"], PTH)
    if options.state == "on":
        with open(path, "w", encoding="utf-8") as file:
            file.write(PTH_TEXT)
        print(f"{path}: programs of this Python that start with SLUICE_INSTALL=1 in the environment use Sluice's library")
    elif os.path.exists(path):
        os.unlink(path)
        print(f"{path} is gone")
    return 0


def main(words: "list[str]") -> int:
    parser = argparse.ArgumentParser(prog="python -m sluice", description=(
        "Runs a program on Sluice's libcufile.so.0, also in packages that load one themselves: "
        "`python -m sluice run train.py --epochs 3`, `python -m sluice run -m package`."))
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    verbs.add_parser("run", help="run a script, or a module by -m, on Sluice's library", add_help=False)
    told = verbs.add_parser("doctor", help="what is here, and what is wrong with it")
    told.add_argument("--json", action="store_true", help="for machines")
    told = verbs.add_parser("explain", help="which way the bytes of files go, and why")
    told.add_argument("files", nargs="+")
    told.add_argument("--gpu", type=int, help="the device (default: 0 where there is one)")
    told.add_argument("--write", action="store_true", help="for writes, not reads")
    told.add_argument("--json", action="store_true", help="for machines")
    told = verbs.add_parser("pth", help="let every start of this Python with SLUICE_INSTALL=1 install the library")
    told.add_argument("state", choices=["on", "off"])
    told.add_argument("--folder", help="where the file goes (default: this Python's site-packages)")
    verbs.add_parser("version", help="the versions of the package and the library")
    if words[:1] == ["run"]:
        if words[1:2] in (["-h"], ["--help"]):
            print("usage: python -m sluice run SCRIPT [ARGUMENT...]\n       python -m sluice run -m MODULE [ARGUMENT...]\n\n"
                  "Runs a program of Python with Sluice's libcufile.so.0 loaded first, so that PyTorch, KvikIO,\n"
                  "fastsafetensors and cuda-python use it.")
            return 0
        return _run(words[1:])
    options = parser.parse_args(words)
    if options.verb == "doctor":
        return _doctor(options.json)
    if options.verb == "explain":
        return _explain(options)
    if options.verb == "pth":
        return _pth(options)
    print(f"sluice {sluice.__version__}, library {sluice.library().version()} ({sluice.library().path})")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
