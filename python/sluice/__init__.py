# SPDX-License-Identifier: Apache-2.0
"""Sluice for Python: files into GPU memory and back, and the way they went.

    import sluice
    sluice.install()                        # before `import torch`: its cuFile calls are Sluice's from then on
    sluice.explain("model.safetensors")     # which way the bytes go, and why
    sluice.doctor()                         # what is here, and what is wrong with it

`sluice.safetensors` loads models; `sluice.File` reads and writes buffers; `sluice.Plan` many at once. docs/guide/python.md shows both.
"""

from __future__ import annotations

from ._doctor import doctor
from ._errors import DeviceMemoryError, SluiceError
from ._explain import Explanation, explain
from ._file import (File, Future, StreamFuture, memory_deregister, memory_register, stream_deregister,
                    stream_register)
from ._install import TooLate, install
from ._library import library
from ._plan import ItemResult, Plan, PlanProgress
from ._staged import free_staging
from ._stats import stats
from .adapters.transformers import patch

__version__ = "0.1.0"
__all__ = ["DeviceMemoryError", "Explanation", "File", "Future", "ItemResult", "Plan", "PlanProgress", "SluiceError", "StreamFuture", "TooLate", "doctor",
           "explain", "free_staging", "install", "library", "memory_deregister", "memory_register", "patch", "stats",
           "stream_deregister", "stream_register"]
