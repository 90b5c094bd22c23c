# SPDX-License-Identifier: Apache-2.0
"""One loader in a process of its own: loads when told to, answers with what it took, one line of JSON each.

    worker.py LOADER DEVICE      commands on stdin: load FILE... | load_cold FILE... | verify | free | quit
"""

from __future__ import annotations

import gc
import json
import os
import pathlib
import resource
import sys
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent)]

import loaders  # noqa: E402


def processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def evict(paths: "list[str]") -> None:
    """Has the page cache forget the files."""
    for path in paths:
        with open(path, "rb", buffering=0) as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            try:
                os.preadv(file.fileno(), [bytearray(1)], 0, os.RWF_NOWAIT)
            except BlockingIOError:
                continue
            except OSError:  # of file systems that do not know it, tmpfs among them
                pass
        raise RuntimeError(f"{path} stays in memory: a cold load wants files on ext4 or xfs that no program maps")


class Worker:
    def __init__(self, name: str, device: str) -> None:
        import sluice
        from sluice import _fast

        sluice.install()
        import torch

        self.by = _fast.kind()
        self.torch, self.name, self.device = torch, name, device
        self.tensors = None
        self.paths: "list[str]" = []
        torch.empty(1, device=device)
        torch.cuda.synchronize(device)

    def load(self, paths: "list[str]", cold: bool = False) -> dict:
        torch = self.torch
        self.free()
        self.paths = paths
        if self.name == "sluice_into":  # the targets are there before
            loaders.LOADERS[self.name](paths, self.device)
        if cold:
            evict(paths)
        torch.cuda.reset_peak_memory_stats(self.device)
        before, free_before = processor_seconds(), torch.cuda.mem_get_info(self.device)[0]
        began = time.perf_counter()
        self.tensors = loaders.LOADERS[self.name](paths, self.device)
        torch.cuda.synchronize(self.device)
        seconds = time.perf_counter() - began
        size = sum(os.path.getsize(path) for path in paths)
        report = getattr(self.tensors, "report", None) or loaders.LAST_REPORT.pop("report", None)
        return {"seconds": seconds, "gb_per_second": size / seconds / 1e9, "bytes": size, "tensors": len(self.tensors),
                "processor_seconds": processor_seconds() - before,
                "device_bytes": free_before - torch.cuda.mem_get_info(self.device)[0],
                "peak_device_bytes": torch.cuda.max_memory_allocated(self.device),
                "peak_host_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
                "report": report.as_dict() if report is not None else None, "by": self.by}

    def free(self) -> dict:
        self.tensors = None
        loaders._Into.targets = None
        gc.collect()
        self.torch.cuda.empty_cache()
        return {}

    def verify(self) -> dict:
        """Compares every byte on the device with a plain read of the files."""
        torch = self.torch
        from sluice._header import read_header

        compared = 0
        for path in self.paths:
            whole = torch.from_file(path, size=os.path.getsize(path), dtype=torch.uint8)
            if path in self.tensors:  # bytes of the whole file
                pairs = [(self.tensors[path], whole)]
            else:
                with open(path, "rb") as file:
                    header = read_header(file.fileno(), path, os.path.getsize(path))
                pairs = [(self.tensors[entry.name], whole[header.data_begin + entry.begin:header.data_begin + entry.end])
                         for entry in header.entries]
            for there, here in pairs:
                if not torch.equal(there.contiguous().flatten().view(torch.uint8), here.to(self.device)):
                    return {"error": f"bytes of {path} differ"}
                compared += here.numel()
        return {"compared": compared}


def main() -> None:
    answers, sys.stdout = sys.stdout, sys.stderr
    try:
        worker = Worker(*sys.argv[1:3])
        first = {"ready": True}
    except Exception as error:  # noqa: B902 - told to the caller
        worker, first = None, {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(first), file=answers, flush=True)
    for line in sys.stdin:
        words = line.rstrip("\n").split("\t")
        if words[0] == "quit" or worker is None:
            return
        try:
            is_load = words[0] in ("load", "load_cold")
            answer = worker.load(words[1:], words[0] == "load_cold") if is_load else getattr(worker, words[0])()
        except ImportError as error:
            answer = {"missing": str(error)}
        except Exception as error:  # noqa: B902 - told to the caller
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
