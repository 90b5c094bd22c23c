#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's torch.cuda.gds on our library: storages of 1 byte to 1 GiB to a file and back, every byte compared.

Run it as `sluice run -- python3 tests/gpu/torch_gds.py [FOLDER]`. Ends with 77 and the reason where there is no PyTorch
or no GPU.
"""

import os
import sys
import tempfile

SIZES = [1, 511, 512, 4095, 4096, 4097, 65536, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 33 << 20, 1 << 30]


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


try:
    import torch
except ImportError:
    skip("PyTorch is not installed")
if not torch.cuda.is_available():
    skip("PyTorch sees no GPU")


def mapped_library():
    with open("/proc/self/maps", encoding="utf-8") as maps:
        found = {line.split()[-1] for line in maps if "libcufile.so" in line}
    return ", ".join(sorted(found)) or "none"


def check(size, register, folder):
    path = os.path.join(folder, f"torch-{size}")
    generator = torch.Generator().manual_seed(size)
    data = torch.randint(0, 256, (size,), dtype=torch.uint8, generator=generator)
    source = data.cuda()
    target = torch.full((size,), 0x5A, dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
    if register:
        torch.cuda.gds.gds_register_buffer(source.untyped_storage())
        torch.cuda.gds.gds_register_buffer(target.untyped_storage())
    try:
        file = torch.cuda.gds.GdsFile(path, os.O_CREAT | os.O_RDWR)
        file.save_storage(source.untyped_storage(), 0)
        file.load_storage(target.untyped_storage(), 0)
        torch.cuda.synchronize()
        assert os.path.getsize(path) == size, f"the file has {os.path.getsize(path)} bytes, not {size}"
        written = torch.from_file(path, size=size, dtype=torch.uint8)
        assert torch.equal(written, data), f"the file's bytes differ (size {size}, registered {register})"
        assert torch.equal(target.cpu(), data), f"the GPU's bytes differ (size {size}, registered {register})"
        del file
    finally:
        if register:
            torch.cuda.gds.gds_deregister_buffer(source.untyped_storage())
            torch.cuda.gds.gds_deregister_buffer(target.untyped_storage())
        os.unlink(path)


def main():
    where = sys.argv[1] if len(sys.argv) > 1 else None
    with tempfile.TemporaryDirectory(dir=where) as folder:
        for size in SIZES:
            for register in (False, True):
                check(size, register, folder)
            print(f"{size:>11} bytes: written, read and compared, unregistered and registered")
    print(f"PyTorch {torch.__version__} on {torch.cuda.get_device_name()}, libcufile: {mapped_library()}")


main()
