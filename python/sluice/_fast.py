"""The extension for what is done per tensor and per request, or the same in Python where it cannot be loaded."""

from __future__ import annotations

try:
    from . import _native as native  # type: ignore[attr-defined]
except ImportError:
    native = None


def kind() -> str:
    """"native" or "ctypes"."""
    return "ctypes" if native is None else "native"
