# SPDX-License-Identifier: Apache-2.0
"""Adapters: other packages' loaders, carried by Sluice. Each is thin, and imports its package only when it is used.

    vllm            `--load-format sluice` (found by vLLM itself through the package's entry point)
    transformers    `with sluice.patch(device="cuda"): AutoModel.from_pretrained(...)`, accelerate too
    fastsafetensors a copier named "sluice"
    checkpoint      reader and writer for torch.distributed.checkpoint
    cufile          the module that LMCache imports: sluice.cufile, offered by sluice.install()
"""
