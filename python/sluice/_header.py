# SPDX-License-Identifier: Apache-2.0
"""The header of a safetensors file: read with limits, checked, never believed.

A file is 8 bytes N (little-endian), N bytes of JSON, then the data. What the JSON says is checked against the file
before anything is read: every tensor lies in the data, its size fits its shape and type, and the tensors cover the data
without holes and without overlap.
"""

from __future__ import annotations

import json
import os
from typing import NamedTuple

from ._dtypes import DTYPES
from ._fast import native

MAX_HEADER = 100_000_000
MAX_RANK = 64
MAX_NUMBER = (1 << 63) - 1
_BITS = {name: dtype.bits for name, dtype in DTYPES.items()}

try:
    from safetensors import SafetensorError  # the same class, so that callers' handlers work
except ImportError:

    class SafetensorError(Exception):  # type: ignore[no-redef]
        """A file is no sound safetensors file, or was asked for what it has not."""


class Entry(NamedTuple):
    """One tensor. `begin` and `end` count from the beginning of the data."""

    name: str
    dtype: str
    shape: "tuple[int, ...]"
    begin: int
    end: int


class Header(NamedTuple):
    """A checked header. `entries` are in the order of their data; `data_begin` is where the data begins in the file."""

    entries: "list[Entry]"
    metadata: "dict[str, str] | None"
    data_begin: int
    data_size: int


def read_header(descriptor: int, path: str, size: int) -> Header:
    """Reads and checks the header of an open file of `size` bytes."""
    if size < 8:
        raise SafetensorError(f"{path} has {size} bytes: too few for a safetensors header")
    length = int.from_bytes(_pread(descriptor, 8, 0, path), "little")
    if length > MAX_HEADER:
        raise SafetensorError(f"{path}: a header of {length} bytes is larger than the format allows ({MAX_HEADER})")
    if length > size - 8:
        raise SafetensorError(f"{path}: the header says it has {length} bytes, the file has {size - 8} behind its "
                              "length: the file was cut, or is no safetensors file")
    return parse_header(_pread(descriptor, length, 8, path), size - 8 - length, path)


def _pread(descriptor: int, size: int, offset: int, path: str) -> bytes:
    parts = []
    while size:
        part = os.pread(descriptor, size, offset)
        if not part:
            raise SafetensorError(f"{path} ended while its header was read: another process cuts it")
        parts.append(part)
        size -= len(part)
        offset += len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def parse_header(text: bytes, data_size: int, path: str = "the file") -> Header:
    """Checks the JSON of a header for a file with `data_size` bytes of data."""
    if not text.startswith(b"{"):
        raise SafetensorError(f"{path}: the header does not begin with \"{{\": no safetensors file")
    plain = native.parse_header(text, data_size, _BITS, Entry) if native is not None else None
    if plain is not None:
        return Header(*plain, 8 + len(text), data_size)
    return parse_anything(text, data_size, path)


def parse_anything(text: bytes, data_size: int, path: str = "the file") -> Header:
    """As parse_header(), in Python alone: it decides what a sound header is, and says what is wrong with others."""
    try:
        told = json.loads(text.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise SafetensorError(f"{path}: the header is no valid JSON: {error}") from None
    metadata = told.pop("__metadata__", None)
    if metadata is not None and not (type(metadata) is dict and
                                     all(type(value) is str for value in metadata.values())):
        raise SafetensorError(f"{path}: __metadata__ is no map of texts")
    entries = [_entry(name, about, path) for name, about in told.items()]
    entries.sort(key=lambda entry: (entry.begin, entry.end))
    _check_cover(entries, data_size, path)
    return Header(entries, metadata, 8 + len(text), data_size)


def _entry(name: str, about: object, path: str) -> Entry:
    """One tensor's line, checked for itself."""
    try:
        dtype, shape, (begin, end) = about["dtype"], about["shape"], about["data_offsets"]  # type: ignore[index]
        bits = DTYPES[dtype].bits
    except (TypeError, KeyError, ValueError):
        raise SafetensorError(f"{path}: tensor {name!r} is described wrongly, or has a type that is not known: "
                              f"{str(about)[:200]}") from None
    if type(begin) is not int or type(end) is not int or type(shape) is not list or len(shape) > MAX_RANK:
        raise SafetensorError(f"{path}: tensor {name!r}: offsets or shape are wrong, or of more than {MAX_RANK} dimensions")
    for number in shape:
        if type(number) is not int or number < 0:
            raise SafetensorError(f"{path}: tensor {name!r}: {str(number)[:40]!r} is no dimension")
        bits *= number
        if bits > MAX_NUMBER and 0 not in shape:
            raise SafetensorError(f"{path}: tensor {name!r} is larger than any file")
    if not 0 <= begin <= end or (end - begin) * 8 != bits:
        raise SafetensorError(f"{path}: tensor {name!r}: shape {shape} of {dtype} does not fit bytes {begin} to {end}")
    return Entry(name, dtype, tuple(shape), begin, end)


def _check_cover(entries: "list[Entry]", data_size: int, path: str) -> None:
    """The tensors cover the data, one after the other."""
    at = 0
    for entry in entries:
        if entry.begin != at:
            raise SafetensorError(f"{path}: tensor {entry.name!r} begins at {entry.begin} where {at} is due: a hole or an "
                                  "overlap")
        at = entry.end
    if at != data_size:
        raise SafetensorError(f"{path}: the tensors end at {at}, the data at {data_size}: the file was cut, or has bytes "
                              "that nothing describes")
