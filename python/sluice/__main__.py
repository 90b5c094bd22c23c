# SPDX-License-Identifier: Apache-2.0
"""python -m sluice: run a program on Sluice's library, or ask it something."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import runpy
import sys
import sysconfig
from typing import Callable

import sluice

from . import _cuda
from ._errors import SluiceError

NAME = "python -m sluice"


class Failure(Exception):
    """What was asked for cannot be done: the cause, a remedy, and the status to end with."""

    def __init__(self, cause: str, remedy: str = "", status: int = 1) -> None:
        super().__init__(f"{cause.rstrip('.')}. {remedy}".rstrip(" ") if remedy else cause)
        self.status = status


def _say(text: str, end: str = "\n") -> None:
    """An answer, on stdout. What cannot be written there is told, and not by Python's last words."""
    if sys.stdout is None:
        raise Failure("stdout is closed, and the answer has no place", "Leave it open, or send it to a file.")
    try:
        print(text, end=end, flush=True)
    except OSError as error:
        raise _no_place(error) from error


def _no_place(error: OSError) -> Failure:
    # What is still in the buffer is tried once more at the end of Python: nothing takes it then.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return Failure(f"The answer cannot be written to stdout: {error.strerror}", "Send it elsewhere.")


def _script_obstacle(path: str) -> str:
    """Why no script can be started from there; "" where one can, as far as can be seen."""
    if os.path.isdir(path):
        return "" if os.path.exists(os.path.join(path, "__main__.py")) else f"{path} is a folder without a __main__.py"
    try:
        with open(path, "rb"):
            return ""
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}"


def _module_obstacle(name: str) -> str:
    """The same of a module. What its packages raise when they are imported is theirs, and goes on."""
    if name.startswith("."):
        return f"{name} is no full name of a module"
    try:
        found = importlib.util.find_spec(name)
        if found is None:
            return f"There is no module {name} on this Python's path"
        if found.submodule_search_locations is not None and importlib.util.find_spec(f"{name}.__main__") is None:
            return f"{name} is a package without a __main__, and cannot be started"
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        return f"There is no module {error.name} on this Python's path"
    except ValueError:
        return f"{name} is no name of a module"
    return ""


def _program(words: "list[str]") -> "Callable[[], object] | None":
    """Installs the library and answers what runs a script or a module as python would; None where it is too late."""
    is_module = words[:1] == ["-m"]
    if len(words) < (2 if is_module else 1):
        raise Failure("run -m: the name of a module is missing" if is_module else "run: there is nothing to run",
                      f"Write {NAME} run SCRIPT, or {NAME} run -m MODULE.", 2)
    name = words[1] if is_module else words[0]
    if not is_module:
        obstacle = _script_obstacle(name)
        if obstacle:
            raise Failure(obstacle, "Check its path; a module is started by run -m MODULE.")
    if sluice.install() is None:
        return None
    if is_module:
        sys.argv = words[1:]  # packages around the module are imported to find it, and may look
        obstacle = _module_obstacle(name)
        if obstacle:
            raise Failure(obstacle, f"Install it for {sys.executable}, or check the name.")
        return lambda: runpy.run_module(name, run_name="__main__", alter_sys=True)
    sys.argv = words
    sys.path[0] = os.path.dirname(os.path.abspath(name))
    return lambda: runpy.run_path(name, run_name="__main__")


def _doctor(as_json: bool) -> int:
    about = sluice.doctor()
    if as_json:
        _say(json.dumps(about, indent=2))
    else:
        lines = [f"{name}: {', '.join(value) if isinstance(value, list) else value}"
                 for name, value in about.items() if name != "problems"]
        lines += [f"problem: {problem}" for problem in about["problems"]]  # type: ignore[attr-defined]
        _say("\n".join(lines if about["problems"] else [*lines, "no problem found"]))
    return 1 if about["problems"] else 0


def _explained(path: str, options: argparse.Namespace) -> "dict[str, object]":
    if os.path.isdir(path):
        raise Failure(f"{path} is a folder", "Name files: sluice explain of the full installation takes folders, too.")
    try:
        return {"file": path, "answers": [one._asdict() for one in sluice.explain(path, options.gpu, options.write)]}
    except SluiceError as error:
        there = _cuda.driver().count() if _cuda.is_there() else 0
        if options.gpu is not None and not 0 <= options.gpu < there:
            raise Failure(f"There is no GPU {options.gpu}: this process sees {there}",
                          f"Name one below {there}, or leave --gpu out." if there else "Leave --gpu out.") from error
        raise Failure(str(error), f"See what {NAME} doctor says.") from error
    except OSError as error:
        raise Failure(f"{path} cannot be opened: {error.strerror}", "Name files that are there and that you may "
                      f"{'write' if options.write else 'read'}.") from error


def _explain(options: argparse.Namespace) -> int:
    sluice.library()
    told = [_explained(path, options) for path in options.files]
    if options.json:
        _say(json.dumps(told, indent=2))
        return 0
    lines = []
    for one in told:
        lines.append(one["file"])
        for answer in one["answers"]:  # type: ignore[attr-defined]
            lines.append(f"  {answer['path']} ({answer['reason']}): {answer['sentence']}\n    {answer['remedy']}\n    {answer['facts']}")
    _say("\n".join(lines))  # type: ignore[arg-type]
    return 0


PTH = "sluice-install.pth"
PTH_TEXT = "import os; os.environ.get('SLUICE_INSTALL') == '1' and __import__('sluice').install()\n"


def _pth(options: argparse.Namespace) -> int:
    """A file that Python reads at each start; it does something only where SLUICE_INSTALL=1."""
    path = os.path.join(options.folder or sysconfig.get_paths()["purelib"], PTH)
    try:
        if options.state == "on":
            with open(path, "w", encoding="utf-8") as file:
                file.write(PTH_TEXT)
        elif os.path.exists(path):
            os.unlink(path)
        else:
            return 0
    except OSError as error:
        raise Failure(f"{path} cannot be {'written' if options.state == 'on' else 'removed'}: {error.strerror}",
                      "Name a folder that you may write to (--folder), or use an environment of your own.") from error
    _say(f"{path}: programs of this Python that start with SLUICE_INSTALL=1 in the environment use Sluice's library"
         if options.state == "on" else f"{path} is gone")
    return 0


def _answer(words: "list[str]") -> int:
    parser = argparse.ArgumentParser(prog=NAME, description=(
        "Runs a program on Sluice's libcufile.so.0, also in packages that load one themselves: "
        "`python -m sluice run train.py --epochs 3`, `python -m sluice run -m package`."))
    parser.add_argument("--version", action="version", version=f"sluice {sluice.__version__}",
                        help="the version of the package")
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
        _say("usage: python -m sluice run SCRIPT [ARGUMENT...]\n       python -m sluice run -m MODULE [ARGUMENT...]\n\n"
             "Runs a program of Python with Sluice's libcufile.so.0 loaded first, so that PyTorch, KvikIO,\n"
             "fastsafetensors and cuda-python use it.")
        return 0
    try:
        options = parser.parse_args(words)
    except OSError as error:  # of --help and --version
        raise _no_place(error) from error
    except SystemExit:
        if sys.stdout is not None:
            _say("", end="")
        raise
    if options.verb == "doctor":
        return _doctor(options.json)
    if options.verb == "explain":
        return _explain(options)
    if options.verb == "pth":
        return _pth(options)
    _say(f"sluice {sluice.__version__}, library {sluice.library().version()} ({sluice.library().path})")
    return 0


def main(words: "list[str]") -> int:
    try:
        if words[:1] != ["run"] or words[1:2] in (["-h"], ["--help"]):
            return _answer(words)
        program = _program(words[1:])
    except (Failure, SluiceError) as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return error.status if isinstance(error, Failure) else 1
    if program is None:
        return 1
    program()  # what goes wrong now is the program's, and is told as Python tells it
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
