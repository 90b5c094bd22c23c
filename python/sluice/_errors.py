# SPDX-License-Identifier: Apache-2.0
"""What goes wrong, as exceptions that name the cause and a remedy."""

from __future__ import annotations

import os


class SluiceError(RuntimeError):
    """A call of the library, or of CUDA, failed; the text names the cause."""

    def __init__(self, text: str, code: int = 0) -> None:
        super().__init__(text)
        self.code = code


class DeviceMemoryError(SluiceError, MemoryError):
    """The device has no room for what was asked; the text tells how much was asked and what is free."""


class Cancelled(SluiceError):
    """A plan was cancelled before this range was carried."""

    def __init__(self) -> None:
        super().__init__("The plan was cancelled before all of its ranges were carried.")


def cut_short(path: str, at: int) -> SluiceError:
    return SluiceError(f"{path} ended at {at}, before all that its header told of: the file was cut while it was read.")


def io_error(what: str, code: int, path: "str | None" = None, detail: str = "") -> Exception:
    """The exception for an errno, or a cuFile code above 5000, of a transfer."""
    # The library's sentence may end with the code; it is named once.
    detail = detail.removesuffix(f" ({code})").removesuffix(f" (-{code})")
    text = f"{what}: {detail}" if detail else what
    if 0 < code < 5000:
        return OSError(code, f"{os.strerror(code)} ({text})", path)
    return SluiceError(f"{text} (cuFile code {code})" + (f", file {path}" if path else ""), code)
