# SPDX-License-Identifier: Apache-2.0
"""DLPack's type codes and numpy's dtypes."""

from __future__ import annotations

import numpy as np

_INT, _UINT, _FLOAT, _BFLOAT, _COMPLEX, _BOOL = 0, 1, 2, 4, 5, 6

# (DLPack code, bits) -> dtype, native byte order.
DTYPES = {
    **{(_INT, bits): np.dtype(f"i{bits // 8}") for bits in (8, 16, 32, 64)},
    **{(_UINT, bits): np.dtype(f"u{bits // 8}") for bits in (8, 16, 32, 64)},
    **{(_FLOAT, bits): np.dtype(f"f{bits // 8}") for bits in (16, 32, 64)},
    **{(_COMPLEX, bits): np.dtype(f"c{bits // 8}") for bits in (64, 128)},
    (_BOOL, 8): np.dtype(np.bool_),
}
_CODES = {dtype: code for code, dtype in DTYPES.items()}


def to_dtype(code: int, bits: int) -> np.dtype:
    """The dtype of a DLPack code. bfloat16 needs the package ml_dtypes. Raises TypeError."""
    if (code, bits) == (_BFLOAT, 16):
        return _bfloat16()
    try:
        return DTYPES[code, bits]
    except KeyError:
        raise TypeError(f"numpy has no dtype for DLPack code {code} of {bits} bits") from None


def from_dtype(dtype: np.dtype) -> tuple[int, int]:
    """(DLPack code, bits) of a dtype of native byte order. Raises TypeError."""
    if dtype.name == "bfloat16":
        return _BFLOAT, 16
    try:
        return _CODES[dtype]
    except KeyError:
        raise TypeError(f"dtype {dtype} has no counterpart on the device") from None


def _bfloat16() -> np.dtype:
    try:
        import ml_dtypes
    except ImportError:
        raise TypeError("bfloat16 needs the package ml_dtypes") from None
    return np.dtype(ml_dtypes.bfloat16)
