# SPDX-License-Identifier: Apache-2.0
"""The types of safetensors files, and what each is called elsewhere."""

from __future__ import annotations

from typing import NamedTuple


class DType(NamedTuple):
    """One type: its size in bits, its names, and its DLPack code."""

    name: str
    bits: int
    torch: str
    numpy: str
    dlpack_code: int
    typestr: str  # of __cuda_array_interface__; "" where that has none

    @property
    def packed(self) -> bool:
        """Are several elements packed into a byte?"""
        return self.bits % 8 != 0


INT, UINT, FLOAT, BFLOAT, COMPLEX, BOOL = 0, 1, 2, 4, 5, 6

DTYPES = {dtype.name: dtype for dtype in (
    DType("BOOL", 8, "bool", "bool", BOOL, "|b1"),
    DType("U8", 8, "uint8", "uint8", UINT, "|u1"),
    DType("I8", 8, "int8", "int8", INT, "|i1"),
    DType("U16", 16, "uint16", "uint16", UINT, "<u2"),
    DType("I16", 16, "int16", "int16", INT, "<i2"),
    DType("U32", 32, "uint32", "uint32", UINT, "<u4"),
    DType("I32", 32, "int32", "int32", INT, "<i4"),
    DType("U64", 64, "uint64", "uint64", UINT, "<u8"),
    DType("I64", 64, "int64", "int64", INT, "<i8"),
    DType("F16", 16, "float16", "float16", FLOAT, "<f2"),
    DType("BF16", 16, "bfloat16", "bfloat16", BFLOAT, ""),
    DType("F32", 32, "float32", "float32", FLOAT, "<f4"),
    DType("F64", 64, "float64", "float64", FLOAT, "<f8"),
    DType("C64", 64, "complex64", "complex64", COMPLEX, "<c8"),
    DType("F8_E4M3", 8, "float8_e4m3fn", "float8_e4m3fn", 10, ""),
    DType("F8_E5M2", 8, "float8_e5m2", "float8_e5m2", 12, ""),
    DType("F8_E4M3FNUZ", 8, "float8_e4m3fnuz", "float8_e4m3fnuz", 11, ""),
    DType("F8_E5M2FNUZ", 8, "float8_e5m2fnuz", "float8_e5m2fnuz", 13, ""),
    DType("F8_E8M0", 8, "float8_e8m0fnu", "float8_e8m0fnu", 14, ""),
    DType("F6_E2M3", 6, "", "", 15, ""),
    DType("F6_E3M2", 6, "", "", 16, ""),
    DType("F4", 4, "float4_e2m1fn_x2", "", 17, ""),
)}

# Names that numpy has only with the package ml_dtypes.
_ML_DTYPES = ("bfloat16", "float8_")

_torch_types: "dict[str, object]" = {}
_numpy_types: "dict[str, object]" = {}


def torch_type(name: str) -> object:
    """PyTorch's dtype for a name of the format; TypeError where this PyTorch has none."""
    found = _torch_types.get(name)
    if found is None:
        import torch

        found = getattr(torch, DTYPES[name].torch or "-", None)
        if found is None:
            raise TypeError(f"PyTorch {torch.__version__} has no type for {name}. Read it with framework=\"sluice\", or "
                            "use a newer PyTorch.")
        _torch_types[name] = found
    return found


_names_of_torch: "dict[object, str]" = {}


def name_of_torch(dtype: object) -> str:
    """The format's name for a dtype of PyTorch."""
    found = _names_of_torch.get(dtype)
    if found is not None:
        return found
    text = str(dtype).replace("torch.", "")
    for known in DTYPES.values():
        if known.torch == text:
            _names_of_torch[dtype] = known.name
            return known.name
    raise TypeError(f"safetensors files have no type for {dtype}. Convert the tensor first.")


def numpy_type(name: str) -> object:
    """numpy's dtype for a name of the format; TypeError where there is none."""
    found = _numpy_types.get(name)
    if found is None:
        import numpy

        spelled = DTYPES[name].numpy
        try:
            if spelled.startswith(_ML_DTYPES):
                import ml_dtypes

                spelled = getattr(ml_dtypes, spelled)
            found = numpy.dtype(spelled) if spelled else None
        except (ImportError, AttributeError):
            found = None
        if found is None:
            raise TypeError(f"numpy has no type for {name}. Install ml_dtypes, or read it with framework=\"pt\" or "
                            "\"sluice\".")
        _numpy_types[name] = found
    return found


def name_of_numpy(dtype: object) -> str:
    """The format's name for a dtype of numpy."""
    text = str(dtype)
    for known in DTYPES.values():
        if known.numpy == text:
            return known.name
    raise TypeError(f"safetensors files have no type for numpy's {dtype}. Convert the array first.")
