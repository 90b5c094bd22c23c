# SPDX-License-Identifier: Apache-2.0
"""Holds Python's cyclic collector off while tens of thousands of objects are made that all stay.

Each few thousand new objects make the collector look at all there are, those of PyTorch among them: 5 us a tensor, twice
what its header and its view cost. Nothing of a load is in a cycle, so there is nothing to be found.
"""

from __future__ import annotations

import gc
import os
import threading

_lock = threading.Lock()
_holds = 0  # blocks under way, of all threads
_was_on = False  # before the first of them


class HeldOff:
    """A block without automatic collections, in the whole process; afterwards they are as they were when the first of the
    blocks that overlap began. Switched off by another thread meanwhile, they are on again afterwards."""

    def __enter__(self) -> None:
        global _holds, _was_on
        with _lock:
            if _holds == 0:
                _was_on = gc.isenabled()
            _holds += 1
            gc.disable()

    def __exit__(self, *_: object) -> None:
        global _holds
        with _lock:
            _holds -= 1
            if _holds == 0 and _was_on:
                gc.enable()


def _after_fork_in_child() -> None:
    """The threads that held it off are not there."""
    global _lock, _holds
    _lock = threading.Lock()
    if _holds and _was_on:
        gc.enable()
    _holds = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
