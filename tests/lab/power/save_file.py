# SPDX-License-Identifier: Apache-2.0
"""The writer save_file of the power cut: saves one tensor after the other, and acknowledges each on the device for that.

  save_file.py FOLDER DEVICE FILE     FILE appears once it has acknowledged some

Names, contents and the acknowledgement are those of operations.cpp.
"""
import mmap
import os
import pathlib
import struct
import sys

from sluice.safetensors import save_file

WRITER, ENOUGH, SECTOR = 5, 5, 512


class Tensor(bytearray):
    """Bytes in host memory, as the package takes them from any library."""
    dtype = "uint8"

    @property
    def shape(self):
        return (len(self),)


def content_of(number):
    line = b"save_file %012d\n" % number
    size = 100000 + number * 7919 % 200000
    return (line * (size // len(line) + 1))[:size]


def main():
    folder, device, enough = sys.argv[1:]
    told = os.open(device, os.O_RDWR | os.O_DIRECT)
    sector = mmap.mmap(-1, SECTOR)
    number = 0
    while True:
        number += 1
        name = "again" if number % 2 == 0 else str(number)
        save_file({"tensor": Tensor(content_of(number))}, f"{folder}/save_file/{name}")
        sector[:24] = struct.pack("<8sQQ", b"SLCACK01", WRITER, number)
        os.pwritev(told, [sector], WRITER * 4096)
        if number == ENOUGH:
            pathlib.Path(enough).write_text("enough\n", encoding="utf-8")


main()
