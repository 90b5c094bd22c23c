# SPDX-License-Identifier: Apache-2.0
"""Holds Python's cyclic collector off while tens of thousands of objects are made that all stay.

Each few thousand new objects make the collector look at all there are, those of PyTorch among them: 5 us a tensor, twice
what its header and its view cost. Nothing of a load is in a cycle, so there is nothing to be found.
"""

from __future__ import annotations

import gc


class HeldOff:
    """A block without automatic collections. One whose program has switched them off leaves that alone."""

    __slots__ = ("_was_on",)

    def __enter__(self) -> None:
        self._was_on = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        if self._was_on:
            gc.enable()
