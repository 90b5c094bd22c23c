# SPDX-License-Identifier: Apache-2.0
"""Headers: sound ones are read, and those that lie are refused before anything is read by them."""

from __future__ import annotations

import json
import random
import struct
import unittest

from support import FULL, SEED, TestCase

from sluice import _fast
from sluice._header import MAX_HEADER, SafetensorError, parse_anything, parse_header
from sluice import safetensors as st

SOUND = {"a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
         "b": {"dtype": "BF16", "shape": [], "data_offsets": [24, 26]},
         "c": {"dtype": "U8", "shape": [0, 7], "data_offsets": [26, 26]},
         "d": {"dtype": "F4", "shape": [4], "data_offsets": [26, 28]}}

LIES = {
    "an end behind the data": {"data_offsets": [0, 32]},
    "a beginning behind the end": {"data_offsets": [24, 0]},
    "a negative beginning": {"data_offsets": [-24, 0]},
    "a shape that does not fit": {"shape": [2, 4]},
    "a negative shape": {"shape": [-2, -3]},
    "a shape beyond any file": {"shape": [1 << 62, 1 << 62]},
    "a shape that wraps around 64 bits": {"shape": [1 << 32, (1 << 32) + 6]},
    "more dimensions than any library has": {"shape": [1] * 65 + [6]},
    "a shape of texts": {"shape": ["2", "3"]},
    "a shape of truths": {"shape": [True, 6]},
    "a shape of fractions": {"shape": [2.0, 3.0]},
    "a type that is not known": {"dtype": "F31"},
    "a type that is a list": {"dtype": ["F32"]},
    "offsets of one number": {"data_offsets": [0]},
    "offsets of three numbers": {"data_offsets": [0, 24, 48]},
    "offsets of fractions": {"data_offsets": [0.0, 24.0]},
    "a hole": {"data_offsets": [1, 25]},
}


def text_of(head) -> bytes:
    return json.dumps(head).encode()


class Headers(TestCase):
    def test_a_sound_header_tells_entries_in_the_order_of_their_data(self):
        for head in (SOUND, dict(reversed(SOUND.items()))):
            found = parse_header(text_of(head) + b"   ", 28)
            self.assertEqual([entry.name for entry in found.entries], ["a", "b", "c", "d"])
            self.assertEqual(found.entries[0].shape, (2, 3))
            self.assertEqual((found.entries[3].begin, found.entries[3].end), (26, 28))
            self.assertIsNone(found.metadata)

    def test_metadata_is_a_map_of_texts(self):
        found = parse_header(text_of({"__metadata__": {"format": "pt", "ü": "\"\\"}, **SOUND}), 28)
        self.assertEqual(found.metadata, {"format": "pt", "ü": "\"\\"})
        for wrong in ({"a": 1}, [], "text", 5):
            with self.assertRaises(SafetensorError):
                parse_header(text_of({"__metadata__": wrong, **SOUND}), 28)

    def test_every_lie_is_refused(self):
        for what, lie in LIES.items():
            with self.subTest(what), self.assertRaises(SafetensorError):
                parse_header(text_of({**SOUND, "a": {**SOUND["a"], **lie}}), 28)

    def test_data_that_is_missing_or_left_over_is_refused(self):
        for size in (27, 29, 0, 1 << 60):
            with self.assertRaises(SafetensorError):
                parse_header(text_of(SOUND), size)

    def test_the_same_name_twice_is_a_hole(self):
        text = b'{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"a":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}}'
        with self.assertRaises(SafetensorError):
            parse_header(text, 8)

    def test_what_is_no_json_is_refused(self):
        for text in (b"", b"[]", b"{", b"{}x", b"null", b"{\"a\":" + b"[" * 100000, b"\xff\xfe{", b"{\"\xff\":{}}",
                     text_of(SOUND)[:-1], text_of(SOUND).decode().encode("utf-16")):
            with self.assertRaises(SafetensorError):
                parse_header(text, 28)

    def test_a_length_that_lies_is_refused(self):
        for name, length in (("huge", (1 << 64) - 1), ("large", MAX_HEADER + 1), ("behind the end", 1000)):
            path = self.folder / name
            path.write_bytes(struct.pack("<Q", length) + text_of(SOUND))
            with self.subTest(name), self.assertRaises(SafetensorError):
                st.load_file(path, framework="sluice")
        (self.folder / "short").write_bytes(b"1234567")
        with self.assertRaises(SafetensorError):
            st.load_file(self.folder / "short", framework="sluice")


def mutations(seed, count):
    """Texts near a sound header: bytes changed, cut out, doubled, numbers replaced; and other metadata, which stays sound."""
    draw = random.Random(seed)
    base = text_of({"__metadata__": {"format": "pt"}, **SOUND})
    numbers = [b"0", b"1", b"24", b"28", b"-1", b"9223372036854775807", b"18446744073709551616", b"1e3", b"007", b"null",
               b"[]", b"{}", b"true", b"NaN", b"1" * 400]
    for _ in range(count):
        text = bytearray(base)
        for _ in range(draw.randrange(1, 4)):
            at = draw.randrange(len(text))
            kind = draw.randrange(6)
            if kind == 5:
                text = text.replace(b'"pt"', b'"%c%c"' % (draw.randrange(97, 123), draw.randrange(97, 123)))
            elif kind == 0:
                text[at] = draw.randrange(256)
            elif kind == 1:
                del text[at:at + draw.randrange(1, 20)]
            elif kind == 2:
                text[at:at] = text[at:at + draw.randrange(1, 40)]
            else:
                digits = [i for i, byte in enumerate(text) if chr(byte).isdigit()] or [0]
                first = draw.choice(digits)
                last = first
                while last < len(text) and chr(text[last]).isdigit():
                    last += 1
                text[first:last] = draw.choice(numbers)
            if not text:
                text = bytearray(b"{")
        yield bytes(text)


class Fuzz(unittest.TestCase):
    def test_no_header_crashes_or_reaches_outside_of_its_file(self):
        count = 1_000_000 if FULL else 10_000
        sound = 0
        for text in mutations(SEED, count):
            for size in (28,):
                told = []
                for parse in (parse_header, parse_anything):
                    try:
                        found = parse(text, size)
                    except SafetensorError:
                        told.append(None)
                        continue
                    told.append(found)
                    for entry in found.entries:
                        self.assertTrue(0 <= entry.begin <= entry.end <= size, f"{text!r} (SLUICE_TEST_SEED={SEED})")
                self.assertEqual(told[0], told[1], f"{_fast.kind()} and Python differ: {text!r} (SLUICE_TEST_SEED={SEED})")
                sound += told[0] is not None
        self.assertGreater(sound, 0, "no mutation was sound: the fuzzer draws nothing of use")

class FuzzFiles(TestCase):
    def test_a_file_with_any_header_gives_what_it_has_or_is_refused(self):
        data, path = bytes(range(28)), self.folder / "any.safetensors"
        sound = 0
        for text in mutations(SEED + 1, 20_000 if FULL else 300):
            path.write_bytes(struct.pack("<Q", len(text)) + text + data)
            for engine in ("cufile", "plan"):
                try:
                    loaded = st.load_file(path, framework="sluice", engine=engine)
                except SafetensorError:
                    continue
                sound += 1
                held = sorted((bytes(tensor.tobytes()) for tensor in loaded.values()), key=data.find)
                self.assertEqual(b"".join(held), data, f"{text!r} (SLUICE_TEST_SEED={SEED})")
        self.assertGreater(sound, 0, "no mutation was sound: the fuzzer draws nothing of use")


if __name__ == "__main__":
    unittest.main()
