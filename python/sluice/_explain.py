# SPDX-License-Identifier: Apache-2.0
"""Which way bytes go, and why; counters; a look at the machine. Thin wraps of sluice.h."""

from __future__ import annotations

import os
import sys
from ctypes import byref, c_size_t, create_string_buffer
from typing import NamedTuple

from . import _abi, _cuda, _library
from ._errors import SluiceError


class Explanation(NamedTuple):
    """One reason for a path: names, why in a sentence, what would change it, and the facts it rests on."""

    path: str
    reason: str
    sentence: str
    remedy: str
    facts: str

    def __str__(self) -> str:
        return f"{self.path} ({self.reason}): {self.sentence} {self.remedy}".strip()


def _text(value: "bytes | None") -> str:
    return (value or b"").decode(errors="replace")


def explain_handle(handle: object, gpu: int, write: bool = False) -> "list[Explanation]":
    """Every reason of a registered file, the one that holds first. gpu -1: of a GPU that is not there."""
    found: "list[Explanation]" = []
    there = _library.library()
    if not there.is_sluice:
        return found

    @_abi.ExplanationVisitor
    def visit(one: object, facts: bytes, _: object) -> None:
        told = one.contents  # type: ignore[attr-defined]
        found.append(Explanation(_text(told.path_name), _text(told.reason_name), _text(told.sentence),
                                 _text(told.remedy), _text(facts)))

    there.check(there.calls.sluice_explain_all(handle, None, gpu, _abi.WRITE if write else _abi.READ, 0, 0, visit, None),
                "explaining the file")
    return found


def explain(path: "str | os.PathLike[str]", gpu: "int | None" = None, write: bool = False,
            direct: bool = True) -> "list[Explanation]":
    """Which way the bytes of a file go to or from memory of a GPU, and why.

    The first answer is the one that holds; the others come to light as remedies are applied. Without `gpu` device 0 is
    meant where there is one, else a GPU that is not there. `direct` opens the file with O_DIRECT where it can be.

    >>> print(sluice.explain("model.safetensors")[0])                            # doctest: +SKIP
    posix (memory_file_system): The file lies in memory ...
    """
    from ._engine import OpenFile

    if gpu is None:
        gpu = 0 if _cuda.is_there() else -1
    flags = os.O_RDWR if write else os.O_RDONLY
    try:
        file = OpenFile(path, flags, direct=direct)
    except (OSError, SluiceError):
        if not direct:
            raise
        file = OpenFile(path, flags)
    with file:
        return explain_handle(file.handle, gpu, write)


def stats() -> "dict[str, object]":
    """What this process has moved so far, by path and reason; and what loaders have moved beside the library, through
    pinned windows and the copy engine (`staged`)."""
    from ._staged import carried

    there = _library.library()
    if not there.is_sluice:
        raise SluiceError(f"{there.path} is not Sluice's library and keeps no such counters.")
    count = c_size_t()
    counters = (_abi.PathCounter * 256)()
    there.check(there.calls.sluice_path_counters(counters, 256, byref(count)), "reading the counters")
    rows = [{"path": _text(there.calls.sluice_path_name(one.path)),
             "reason": _text(there.calls.sluice_reason_name(one.reason)), "reads": one.reads,
             "read_bytes": one.read_bytes, "writes": one.writes, "written_bytes": one.written_bytes,
             "errors": one.errors} for one in counters[:min(count.value, 256)]]
    return {"paths": rows, "staged": carried(), **{what: sum(row[what] for row in rows)
                              for what in ("reads", "read_bytes", "writes", "written_bytes", "errors")}}


def doctor() -> "dict[str, object]":
    """What is here, and what is wrong with it: `problems` is a list of sentences with remedies, empty when all is well.

    `python -m sluice doctor` prints it. The command `sluice doctor` of the full installation looks at the machine, too.
    """
    from . import _fast
    from ._install import foreign_libraries

    problems: "list[str]" = []
    about: "dict[str, object]" = {"python": sys.version.split()[0], "extension": _fast.kind()}
    try:
        there = _library.library()
        about["library"], about["version"] = there.path, there.version()
        if not there.is_sluice:
            problems.append(f"{there.path} is not Sluice's: call sluice.install() before other packages load it.")
        else:
            about.update(_configuration(there, problems))
    except (SluiceError, OSError) as error:
        problems.append(str(error))
    problems += [f"{path} is mapped beside Sluice's library: programs that loaded it use it. Call sluice.install() before "
                 "importing them, or start by `python -m sluice run`." for path in foreign_libraries()]
    try:
        about["devices"] = [_cuda.name_of(number) for number in range(_cuda.driver().count())]
        about["driver"] = "soft" if _cuda.driver().is_soft else "cuda"
        if not about["devices"]:
            problems.append("The CUDA driver sees no device: look at CUDA_VISIBLE_DEVICES and at nvidia-smi.")
    except SluiceError as error:
        about["devices"] = []
        problems.append(str(error))
    about["problems"] = problems
    return about


def _configuration(there: _library.Library, problems: "list[str]") -> "dict[str, object]":
    name = create_string_buffer(4096)
    there.check(there.calls.sluice_configuration_file(name, 4096), "asking for the configuration file")

    @_abi.NoteVisitor
    def note(text: bytes, _: object) -> None:
        problems.append(_text(text))

    there.check(there.calls.sluice_configuration_notes(note, None), "reading the configuration")
    return {"configuration": name.value.decode(errors="replace") or "built-in values"}
