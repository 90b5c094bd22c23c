# SPDX-License-Identifier: Apache-2.0
"""The extension for what is done per tensor and per request, or the same in Python where it cannot be loaded."""

from __future__ import annotations

import os
from typing import Any

native: Any = None
if os.environ.get("SLUICE_PYTHON_NATIVE") != "0":  # 0: ctypes alone, to tell a fault of one from a fault of the other
    try:
        from . import _native as native  # type: ignore[attr-defined,no-redef]
    except ImportError:
        pass


def kind() -> str:
    """"native" or "ctypes"."""
    return "ctypes" if native is None else "native"
