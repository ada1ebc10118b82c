# SPDX-License-Identifier: Apache-2.0
"""What a module declares, read from its file without any device."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Optional

import numpy as np

from c7x_compute._library import Library, PathLike, ffi, load_library
from c7x_compute.dtypes import to_dtype


@dataclass(frozen=True)
class TensorSpec:
    """One input or output: its name in the ONNX model, its shape and dtype."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype


@dataclass(frozen=True)
class Declaration:
    """Inputs and outputs of a module, in the order of the call."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]


def declaration(path: PathLike, so_path: Optional[PathLike] = None) -> Declaration:
    """Reads what the module at `path` declares.

    Raises FileNotFoundError for a missing file, C7xError (LOAD: not a module; SYMBOL: a module without a manifest) and
    TypeError for a dtype that numpy has not. so_path: the library, see find_c7x_arm_runtime_so.
    """
    library = load_library(so_path)
    if not os.path.exists(path):
        raise FileNotFoundError(f"no module at {os.fspath(path)}")
    return read_declaration(library, path)


def read_declaration(library: Library, path: PathLike) -> Declaration:
    """declaration() with a library that is loaded already."""
    out = ffi.new("struct c7x_module_declaration **")
    status = library.c.c7x_module_declaration_read(os.fsencode(path), out)
    if status != 0:
        raise library.last_error(status)
    c = library.c
    try:
        return Declaration(
            _tensors(c.c7x_module_declaration_input, out[0], c.c7x_module_declaration_input_count(out[0])),
            _tensors(c.c7x_module_declaration_output, out[0], c.c7x_module_declaration_output_count(out[0])))
    finally:
        c.c7x_module_declaration_free(out[0])


def _tensors(get, handle, count: int) -> tuple[TensorSpec, ...]:
    tensor = ffi.new("struct c7x_module_tensor *")
    tensor.struct_size = ffi.sizeof("struct c7x_module_tensor")
    specs = []
    for index in range(count):
        get(handle, index, tensor)  # in range, so it cannot fail
        specs.append(TensorSpec(ffi.string(tensor.name).decode(errors="replace"), tuple(tensor.shape[0:tensor.ndim]),
                                to_dtype(tensor.dtype_code, tensor.dtype_bits)))
    return tuple(specs)
