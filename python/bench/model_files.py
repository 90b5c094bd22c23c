# SPDX-License-Identifier: Apache-2.0
"""Model files to measure with: the shapes of known models, filled with bytes that nothing can compress.

The names and shapes follow published configurations; the contents are random.
"""

from __future__ import annotations

import json
import os
import struct

BLOCK = 64 << 20


def dense(layers: int = 32) -> "list[tuple[str, list[int]]]":
    """Llama-3-8B: 291 tensors, 16 GB in bfloat16."""
    hidden, inner, keys, words = 4096, 14336, 1024, 128256
    tensors = [("model.embed_tokens.weight", [words, hidden])]
    for layer in range(layers):
        at = f"model.layers.{layer}."
        tensors += [(at + "input_layernorm.weight", [hidden]), (at + "mlp.down_proj.weight", [hidden, inner]),
                    (at + "mlp.gate_proj.weight", [inner, hidden]), (at + "mlp.up_proj.weight", [inner, hidden]),
                    (at + "post_attention_layernorm.weight", [hidden]), (at + "self_attn.k_proj.weight", [keys, hidden]),
                    (at + "self_attn.o_proj.weight", [hidden, hidden]), (at + "self_attn.q_proj.weight", [hidden, hidden]),
                    (at + "self_attn.v_proj.weight", [keys, hidden])]
    return tensors + [("model.norm.weight", [hidden]), ("lm_head.weight", [words, hidden])]


def experts(layers: int = 48, count: int = 128) -> "list[tuple[str, list[int]]]":
    """Qwen3-30B-A3B: 18,867 tensors, 61 GB in bfloat16, nearly all of them experts of 3 MiB."""
    hidden, inner, words = 2048, 768, 151936
    tensors = [("model.embed_tokens.weight", [words, hidden])]
    for layer in range(layers):
        at = f"model.layers.{layer}."
        tensors += [(at + "input_layernorm.weight", [hidden]), (at + "post_attention_layernorm.weight", [hidden]),
                    (at + "self_attn.q_proj.weight", [4096, hidden]), (at + "self_attn.k_proj.weight", [512, hidden]),
                    (at + "self_attn.v_proj.weight", [512, hidden]), (at + "self_attn.o_proj.weight", [hidden, 4096]),
                    (at + "self_attn.q_norm.weight", [128]), (at + "self_attn.k_norm.weight", [128]),
                    (at + "mlp.gate.weight", [count, hidden])]
        for expert in range(count):
            of = f"{at}mlp.experts.{expert}."
            tensors += [(of + "gate_proj.weight", [inner, hidden]), (of + "up_proj.weight", [inner, hidden]),
                        (of + "down_proj.weight", [hidden, inner])]
    return tensors + [("model.norm.weight", [hidden]), ("lm_head.weight", [words, hidden])]


def small(layers: int = 80) -> "list[tuple[str, list[int]]]":
    """8,000 tensors of 4 to 64 KiB."""
    return [(f"block.{layer}.part.{part}", [2048 * (1 + (7 * part + layer) % 16)])
            for layer in range(layers) for part in range(100)]


SHAPES = {"dense": (dense, 32, 4), "experts": (experts, 48, 16), "one": (dense, 30, 1), "small": (small, 80, 1)}


def make(kind: str, folder: str, layers: "int | None" = None, files: "int | None" = None) -> "list[str]":
    """Writes a model into a folder; its files. `layers` makes it smaller, `files` says in how many it comes."""
    shapes, all_layers, usual = SHAPES[kind]
    tensors = shapes(layers or all_layers)
    count = files or usual
    os.makedirs(folder, exist_ok=True)
    total = sum(_size(shape) for _, shape in tensors)
    parts: "list[list[tuple[str, list[int]]]]" = [[] for _ in range(count)]
    at = 0
    for name, shape in tensors:
        parts[min(at * count // total, count - 1)].append((name, shape))
        at += _size(shape)
    paths = []
    noise = os.urandom(BLOCK)
    for number, part in enumerate(parts):
        path = os.path.join(folder, f"model-{number + 1:05d}-of-{count:05d}.safetensors")
        _write(path, part, memoryview(noise), number)
        paths.append(path)
    return paths


def _size(shape: "list[int]") -> int:
    size = 2
    for extent in shape:
        size *= extent
    return size


def _write(path: str, tensors: "list[tuple[str, list[int]]]", noise: memoryview, seed: int) -> None:
    head, at = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in tensors:
        head[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + _size(shape)]}
        at += _size(shape)
    text = json.dumps(head, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    turn = 1 + seed
    with open(path, "wb", buffering=0) as file:
        file.write(struct.pack("<Q", len(text)) + text)
        while at:
            # Each pass begins elsewhere in the noise, so that no two places of a file look alike to a wrong offset.
            begin = turn * 7_919_111 % BLOCK
            turn += 1
            at -= file.write(noise[begin:begin + min(at, BLOCK - begin)])
