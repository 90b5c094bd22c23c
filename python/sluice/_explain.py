# SPDX-License-Identifier: Apache-2.0
"""Which way the bytes of a file go, and why: thin wraps of sluice.h."""

from __future__ import annotations

import os
from typing import NamedTuple

from . import _abi, _cuda, _library
from ._abi import text_of
from ._errors import SluiceError
from ._open_file import OpenFile


class Explanation(NamedTuple):
    """One reason for a path: names, why in a sentence, what would change it, and the facts it rests on."""

    path: str
    reason: str
    sentence: str
    remedy: str
    facts: str

    def __str__(self) -> str:
        return f"{self.path} ({self.reason}): {self.sentence} {self.remedy}".strip()


def explain_handle(handle: object, gpu: int, write: bool = False) -> "list[Explanation]":
    """Every reason of a registered file, the one that holds first. gpu -1: of a GPU that is not there."""
    found: "list[Explanation]" = []
    there = _library.library()
    if not there.is_sluice:
        return found

    @_abi.ExplanationVisitor
    def visit(one: object, facts: bytes, _: object) -> None:
        told = one.contents  # type: ignore[attr-defined]
        found.append(Explanation(text_of(told.path_name), text_of(told.reason_name), text_of(told.sentence),
                                 text_of(told.remedy), text_of(facts)))

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
