# SPDX-License-Identifier: Apache-2.0
"""What is here, and what is wrong with it, as far as a Python process can see."""

from __future__ import annotations

import sys
from ctypes import create_string_buffer

from . import _abi, _cuda, _fast, _library
from ._abi import text_of
from ._errors import SluiceError
from ._install import foreign_libraries


def doctor() -> "dict[str, object]":
    """What is here, and what is wrong with it: `problems` is a list of sentences with remedies, empty when all is well.

    `python -m sluice doctor` prints it. The command `sluice doctor` of the full installation looks at the machine, too.
    """
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
    about["problems"] = list(dict.fromkeys(problems))
    return about


def _configuration(there: _library.Library, problems: "list[str]") -> "dict[str, object]":
    name = create_string_buffer(4096)
    there.check(there.calls.sluice_configuration_file(name, 4096), "asking for the configuration file")

    @_abi.NoteVisitor
    def note(text: bytes, _: object) -> None:
        problems.append(text_of(text))

    there.check(there.calls.sluice_configuration_notes(note, None), "reading the configuration")
    return {"configuration": name.value.decode(errors="replace") or "built-in values"}
