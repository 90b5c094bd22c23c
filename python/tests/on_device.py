#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Python package beside the real packages, on a machine with a GPU: torch.cuda.gds, safetensors, transformers,
torch.distributed.checkpoint, CuPy, JAX. Prints a line for each; what is not installed is named. No pytest, no network.

    on_device.py [FOLDER]
"""

from __future__ import annotations

import gc
import importlib
import os
import pathlib
import shutil
import sys
import tempfile
import time
import traceback

import sluice

INSTALLED = sluice.install()

import torch  # noqa: E402

import sluice.safetensors as st  # noqa: E402

FOLDER = pathlib.Path(tempfile.mkdtemp(prefix="sluice-device-", dir=sys.argv[1] if len(sys.argv) > 1 else None))


def some_state():
    torch.manual_seed(4711)
    return {"w": torch.randn(1000, 513, device="cuda", dtype=torch.bfloat16), "small": torch.arange(7, device="cuda"),
            "f8": torch.randn(64, 64, device="cuda").to(torch.float8_e4m3fn), "scalar": torch.tensor(2.5, device="cuda"),
            "empty": torch.empty(0, 3, device="cuda"), "big": torch.randn(5000, 5000, device="cuda")}


def same(one, other):
    return one.shape == other.shape and one.dtype == other.dtype and torch.equal(
        one.contiguous().flatten().view(torch.uint8), other.to(one.device).contiguous().flatten().view(torch.uint8))


def library_is_ours():
    assert INSTALLED is not None
    path = FOLDER / "gds"
    source = torch.randint(0, 256, (1 << 20,), dtype=torch.uint8, device="cuda")
    target = torch.zeros_like(source)
    before = sluice.stats()["read_bytes"]
    file = torch.cuda.gds.GdsFile(str(path), os.O_CREAT | os.O_RDWR)
    file.save_storage(source.untyped_storage())
    file.load_storage(target.untyped_storage())
    assert torch.equal(source, target)
    assert sluice.stats()["read_bytes"] > before, "torch.cuda.gds did not go through Sluice"


def safetensors_agree():
    from safetensors import safe_open
    from safetensors.torch import load_file, save_file

    state, ours, theirs = some_state(), FOLDER / "ours.safetensors", FOLDER / "theirs.safetensors"
    st.save_file(state, ours, {"format": "pt"})
    save_file(state, theirs, {"format": "pt"})
    for path in (ours, theirs):
        one, other = st.load_file(path, "cuda"), load_file(path, "cuda")
        assert set(one) == set(other) == set(state) and all(same(one[name], other[name]) for name in state)
        with safe_open(path, "pt", "cuda") as a, st.safe_open(path, "pt", "cuda") as b:
            assert a.keys() == b.keys() and a.metadata() == b.metadata() and a.offset_keys() == b.offset_keys()
            for index in (slice(3, 9), (slice(None), slice(2, 5)), 4, ...):
                assert same(a.get_slice("w")[index], b.get_slice("w")[index]), index


def tensors_own_their_memory():
    state, path = some_state(), FOLDER / "own.safetensors"
    st.save_file(state, path)
    kept = st.load_file(path, "cuda")["w"]
    gc.collect()
    torch.cuda.empty_cache()
    poison = [torch.full((1 << 28,), 0xA5, dtype=torch.uint8, device="cuda") for _ in range(4)]
    torch.cuda.synchronize()
    assert same(kept, state["w"])
    del poison


def load_into_converts():
    state, path = some_state(), FOLDER / "into.safetensors"
    st.save_file(state, path)
    targets = {name: torch.zeros_like(tensor) for name, tensor in state.items()}
    targets["w"] = torch.zeros(1000, 513, device="cuda")
    targets["small"] = torch.zeros(7, dtype=torch.int64)
    targets["big"] = torch.zeros(5000, 5000, device="cuda").t()
    report = st.load_into(targets, path)
    assert all(torch.equal(targets[name].cuda().float(), state[name].float()) for name in state if name != "f8")
    assert same(targets["f8"], state["f8"]) and len(report.notes) == 2, report.notes
    try:
        st.load_into({**targets, "big": torch.zeros(3, device="cuda")}, path)
        raise AssertionError("a wrong shape was taken")
    except st.Mismatch as error:
        assert "big" in str(error)
    model = torch.nn.Linear(513, 1000, bias=False, device="meta")
    try:
        st.load_into(model, path, strict=False)
    except st.Mismatch:
        raise AssertionError("nothing of the file fits, and strict is off") from None


def a_full_device_is_an_error():
    free = torch.cuda.mem_get_info()[0]
    hold = torch.empty(max(free - (3 << 30), 1), dtype=torch.uint8, device="cuda")
    path = FOLDER / "full.safetensors"
    st.save_file({"w": torch.zeros(1 << 30, dtype=torch.uint8)}, path)
    try:
        st.load_files([path], "cuda")  # fits, or does not, by a hair
        torch.cuda.empty_cache()
        more = torch.empty(torch.cuda.mem_get_info()[0] - (512 << 20), dtype=torch.uint8, device="cuda")
        try:
            st.load_file(path, "cuda")
            raise AssertionError("a full device was not told")
        except sluice.DeviceMemoryError as error:
            assert "iterate()" in str(error)
        del more
    finally:
        del hold
        torch.cuda.empty_cache()


def transformers_loads():
    from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

    torch.manual_seed(1)
    model = LlamaForCausalLM(LlamaConfig(hidden_size=512, intermediate_size=1024, num_hidden_layers=4,
                                         num_attention_heads=8, vocab_size=4000)).to(torch.bfloat16)
    model.save_pretrained(FOLDER / "llama", max_shard_size="20MB")
    before = sluice.stats()["read_bytes"]
    with sluice.patch(device="cuda") as patched:
        began = time.perf_counter()
        loaded = AutoModelForCausalLM.from_pretrained(FOLDER / "llama", dtype=torch.bfloat16, device_map="cuda")
        taken = time.perf_counter() - began
    read = sluice.stats()["read_bytes"] - before
    expected = model.state_dict()
    assert all(same(tensor, expected[name]) for name, tensor in loaded.state_dict().items())
    assert read > 20 << 20, f"only {read} bytes went through Sluice; patched: {patched.patched}"
    print(f"   {read} bytes in {taken:.2f} s; patched: {', '.join(patched.patched)}")


def checkpoint_round_trip():
    import torch.distributed.checkpoint as dcp

    from sluice.adapters.checkpoint import Reader, Writer

    state = {**{name: tensor for name, tensor in some_state().items() if name != "f8"}, "step": 3, "text": "note"}
    dcp.save(state, storage_writer=Writer(FOLDER / "dcp"), no_dist=True)
    target = {name: torch.zeros_like(one) if isinstance(one, torch.Tensor) else None for name, one in state.items()}
    dcp.load(target, storage_reader=Reader(FOLDER / "dcp"), no_dist=True)
    assert all(same(target[name], one) for name, one in state.items() if isinstance(one, torch.Tensor))
    assert target["step"] == 3 and target["text"] == "note"
    dcp.save(state, checkpoint_id=FOLDER / "theirs", no_dist=True)
    target["w"].zero_()
    dcp.load(target, storage_reader=Reader(FOLDER / "theirs"), no_dist=True)
    assert same(target["w"], state["w"])


def other_packages_read_our_tensors():
    path = FOLDER / "dlpack.safetensors"
    data = torch.randn(100, 30, device="cuda")
    st.save_file({"a": data}, path)
    tensor = st.load_file(path, "cuda", framework="sluice")["a"]
    assert same(torch.from_dlpack(tensor), data)
    for name in ("cupy", "jax.dlpack"):
        try:
            array = importlib.import_module(name).from_dlpack(tensor)
        except ImportError:
            print(f"   {name} is not installed")
            continue
        assert same(torch.from_dlpack(array), data), name
    target = torch.zeros_like(data)
    with sluice.File(path) as file:
        assert file.read(target, file_offset=os.path.getsize(path) - data.nbytes) == data.nbytes
        assert file.pread(target, file_offset=os.path.getsize(path) - data.nbytes).get() == data.nbytes
        stream = torch.cuda.Stream()
        assert file.raw_read_async(target, stream, file_offset=os.path.getsize(path) - data.nbytes).get() == data.nbytes
    assert same(target, data)


def main() -> int:
    failed = 0
    for test in (library_is_ours, safetensors_agree, tensors_own_their_memory, load_into_converts, transformers_loads,
                 checkpoint_round_trip, other_packages_read_our_tensors, a_full_device_is_an_error):
        try:
            test()
            print("passed", test.__name__, flush=True)
        except ImportError as error:
            print("skipped", test.__name__, error, flush=True)
        except Exception:  # noqa: B902 - the others are of use, too
            failed += 1
            print("FAILED", test.__name__, flush=True)
            traceback.print_exc()
    shutil.rmtree(FOLDER, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
