"""Sluice for Python: files into GPU memory and back, and the way they went.

    import sluice
    sluice.install()                        # before `import torch`: its cuFile calls are Sluice's from then on
    sluice.explain("model.safetensors")     # which way the bytes go, and why
    sluice.doctor()                         # what is here, and what is wrong with it

`sluice.safetensors` loads models; `sluice.File` reads and writes buffers. docs/guide/python.md shows both.
"""

from __future__ import annotations

from ._errors import DeviceMemoryError, SluiceError
from ._explain import Explanation, doctor, explain, stats
from ._install import TooLate, install
from ._library import library

__version__ = "0.1.0"
__all__ = ["DeviceMemoryError", "Explanation", "SluiceError", "TooLate", "doctor", "explain", "install", "library",
           "stats"]
