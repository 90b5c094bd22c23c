# SPDX-License-Identifier: Apache-2.0
"""The loaders that are compared: each a function of files and a device that returns the tensors by name.

One that is not installed raises ImportError, and the table says so.
"""

from __future__ import annotations

import ctypes
import os
import threading


def sluice(paths, device):
    import sluice.safetensors

    return sluice.safetensors.load_files(paths, device, framework="pt")


def sluice_cufile(paths, device):
    import sluice.safetensors

    return sluice.safetensors.load_files(paths, device, framework="pt", engine="cufile")


def sluice_tuned(paths, device):
    """The copy engine with the best windows of a sweep: TUNED names its JSON."""
    import json

    import sluice.safetensors
    from sluice import _staged

    with open(os.environ["TUNED"], encoding="utf-8") as file:
        best = max((row for row in json.load(file) if row.get("way") == "copy engine"), key=lambda row: row["gb_per_second"])
    _staged.WINDOWS, _staged.STREAMS = best["windows"], best["streams"]
    return sluice.safetensors.load_files(paths, device, framework="pt", engine="staged", threads=best["threads"],
                                         slice_size=int(best["window_mib"]) << 20)


def sluice_plan(paths, device):
    import sluice.safetensors

    return sluice.safetensors.load_files(paths, device, framework="pt", engine="plan")


def sluice_direct(paths, device):
    """Past the page cache."""
    import sluice.safetensors

    return sluice.safetensors.load_files(paths, device, framework="pt", direct=True)


def sluice_plan_direct(paths, device):
    import sluice.safetensors

    return sluice.safetensors.load_files(paths, device, framework="pt", direct=True, engine="plan")


def sluice_staged(paths, device):
    import sluice.safetensors

    return sluice.safetensors.load_files(paths, device, framework="pt", engine="staged")


LAST_REPORT: "dict[str, object]" = {}  # of a loader of ours whose result does not carry it


def sluice_iterate(paths, device):
    import sluice.safetensors
    from sluice.safetensors import Report

    report = LAST_REPORT["report"] = Report("iterate", int(device.split(":")[1]))
    return dict(sluice.safetensors.iterate(paths, device, framework="pt", report=report))


class _Into:
    """The target parameters are made by the first load, outside the time."""

    targets = None


def sluice_into(paths, device):
    import sluice.safetensors

    if _Into.targets is None:
        _Into.targets = dict(sluice.safetensors.load_files(paths, device, framework="pt"))
        for tensor in _Into.targets.values():
            tensor.zero_()
    LAST_REPORT["report"] = sluice.safetensors.load_into(_Into.targets, paths)
    return _Into.targets


def safetensors(paths, device):
    from safetensors.torch import load_file

    tensors = {}
    for path in paths:
        tensors.update(load_file(path, device=device))
    return tensors


def safetensors_pread(paths, device):
    from safetensors.torch import load_file

    tensors = {}
    for path in paths:
        tensors.update(load_file(path, device=device, backend="pread"))
    return tensors


def threads_of_pread(paths, device):
    """What a careful programmer writes without a library: threads that read into pinned memory and copy."""
    import torch

    from sluice._header import read_header
    from sluice._layout import groups_of
    from sluice._memory import allocate
    from sluice._tensors import maker

    piece, tensors, work = 16 << 20, {}, []
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        header = read_header(descriptor, path, os.fstat(descriptor).st_size)
        for group in groups_of(header.entries, 2 << 30):
            buffer = allocate(group.size, int(device.split(":")[1]), "pt")
            make = maker(buffer, "pt")
            tensors.update((entry.name, make(entry, place)) for entry, place in group.places)
            for begin, size, place in group.runs:
                work += [(descriptor, header.data_begin + begin + at, buffer.owner, place + at, min(piece, size - at))
                         for at in range(0, size, piece)]
    lock, left = threading.Lock(), iter(work)

    def run():
        pinned = torch.empty(piece, dtype=torch.uint8, pin_memory=True)
        view = memoryview(pinned.numpy())
        stream = torch.cuda.Stream(device)
        while True:
            with lock:
                part = next(left, None)
            if part is None:
                return
            descriptor, offset, target, place, size = part
            os.preadv(descriptor, [view[:size]], offset)
            with torch.cuda.stream(stream):
                target[place:place + size].copy_(pinned[:size], non_blocking=True)
            stream.synchronize()

    workers = [threading.Thread(target=run) for _ in range(16)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for descriptor in {part[0] for part in work}:
        os.close(descriptor)
    return tensors


def plain_cufile(paths, device):
    """Some lines of ctypes: one cuFileRead a file, one buffer a file, no tensors but bytes."""
    import torch

    from sluice._open_file import OpenFile
    from sluice._library import library

    read, tensors = library().calls.cuFileRead, {}
    for path in paths:
        with OpenFile(path) as file:
            size = file.size()
            memory = torch.empty(size, dtype=torch.uint8, device=device)
            done = read(file.handle, ctypes.c_void_p(memory.data_ptr()), size, 0, 0)
            if done != size:
                raise OSError(f"cuFileRead of {path} answered {done}")
            tensors[path] = memory
    return tensors


def fastsafetensors_gds(paths, device):
    return _fastsafetensors(paths, device, nogds=False)


def fastsafetensors_nogds(paths, device):
    return _fastsafetensors(paths, device, nogds=True)


def _fastsafetensors(paths, device, nogds):
    from fastsafetensors import SafeTensorsFileLoader, SingleGroup

    loader = SafeTensorsFileLoader(SingleGroup(), device, nogds=nogds)
    loader.add_filenames({0: list(paths)})
    buffers = loader.copy_files_to_device()
    tensors = {name: buffers.get_tensor(name).clone() for name in loader.get_keys()}
    buffers.close()
    loader.close()
    return tensors


def instanttensor(paths, device):
    from instanttensor import safe_open

    with safe_open(list(paths), framework="pt", device=device) as file:
        return {name: tensor.clone() for name, tensor in file.tensors()}


def runai_streamer(paths, device):
    from runai_model_streamer import SafetensorsStreamer

    with SafetensorsStreamer() as streamer:
        streamer.stream_files(list(paths))
        return {name: tensor.to(device) for name, tensor in streamer.get_tensors()}


LOADERS = {function.__name__: function for function in (
    sluice, sluice_cufile, sluice_plan, sluice_direct, sluice_plan_direct, sluice_staged, sluice_tuned, sluice_into, sluice_iterate, safetensors, safetensors_pread,
    threads_of_pread, plain_cufile, fastsafetensors_gds, fastsafetensors_nogds, instanttensor, runai_streamer)}
