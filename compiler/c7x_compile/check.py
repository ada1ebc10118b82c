# SPDX-License-Identifier: Apache-2.0
"""Runs a module through c7x_compute on the emulator and compares it with onnxruntime."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from . import onnx_model
from .errors import CompileError

ERROR_LIMIT = 1e-4
_TIMEOUT_S = 600
_DTYPE_KINDS = {0: "int", 1: "uint", 2: "float"}


@dataclass(frozen=True)
class CheckResult:
    """worst: the largest max|a-b| / max|b| of any output of any run."""

    worst: float
    runs: int
    limit: float = ERROR_LIMIT


def find_c7x_compute():
    """Path of the command: $C7X_COMPUTE, beside the virtual environment, or on PATH."""
    named = os.environ.get("C7X_COMPUTE")
    beside = Path(sys.prefix).parent / "bin" / "c7x_compute"
    found = named or (str(beside) if beside.exists() else shutil.which("c7x_compute"))
    if not found or not Path(found).exists():
        raise CompileError("no c7x_compute: build the project, or name the command in C7X_COMPUTE")
    return found


def run_module(module, inputs, command="run", threads=1):
    """Runs a module once, on an emulator with so many threads. inputs: list of arrays in order. Returns
    (list of arrays, JSON reply).

    Raises CompileError with the command's own text when it fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        input_path, output_path = Path(folder) / "input.bin", Path(folder) / "output.bin"
        input_path.write_bytes(b"".join(np.ascontiguousarray(array).tobytes() for array in inputs))
        arguments = [find_c7x_compute(), command, str(module)]
        arguments += ["--input", str(input_path), "--output", str(output_path)]
        arguments += ["--shape", ";".join(",".join(map(str, array.shape)) for array in inputs)]
        arguments += ["--dtype", ";".join(str(array.dtype) for array in inputs)]
        try:
            result = subprocess.run(
                arguments,
                capture_output=True,
                text=True,
                timeout=_TIMEOUT_S,
                check=False,
                env={**os.environ, "C7X_THREADS": str(threads)},
            )
        except subprocess.TimeoutExpired as error:
            raise CompileError(f"c7x_compute {command} did not return in {_TIMEOUT_S} s") from error
        if result.returncode != 0:
            raise CompileError(result.stderr.strip() or f"c7x_compute {command} failed")
        reply = json.loads(result.stdout.strip().splitlines()[-1])
        return split_outputs(output_path.read_bytes(), reply), reply


def split_outputs(data, reply):
    """The arrays in the raw concatenation of all outputs, as the reply describes them."""
    arrays, offset = [], 0
    for output in reply["outputs"]:
        bits = output["dtype_bits"]
        code = output["dtype_code"]
        dtype = np.dtype(bool) if code == 6 else np.dtype(f"{_DTYPE_KINDS[code]}{bits}")
        size = output["data_size"]
        count = size // dtype.itemsize
        arrays.append(np.frombuffer(data, dtype, count, offset).reshape(output["shape"]))
        offset += size
    if offset != len(data):
        raise CompileError(f"the output file has {len(data)} bytes, the reply describes {offset}")
    return arrays


def worst_error(actual, expected):
    """The largest relative error over a list of outputs; inf when their number differs."""
    if len(actual) != len(expected):
        return float("inf")
    return max((onnx_model.relative_error(a, b) for a, b in zip(actual, expected)), default=0.0)


def check_module(result, module, seeds, input_files):
    """Compares on random inputs from seeds 0..seeds-1. input_files: input name -> .npy file.

    Returns CheckResult. result: the compile.Result of the module.
    """
    names = [tensor.name for tensor in result.inputs]
    for name in input_files:
        if name not in names:
            raise CompileError(f"no input named '{name}'; the inputs are: {', '.join(names)}")
    session = onnx_model.session(result.specialised)
    worst = 0.0
    for seed in range(seeds):
        arrays = onnx_model.random_inputs(result.specialised, seed)
        for name, path in input_files.items():
            arrays[name] = _load_input(name, path, arrays[name])
        outputs, _ = run_module(module, [arrays[name] for name in names])
        worst = max(worst, worst_error(outputs, session.run(None, arrays)))
    return CheckResult(worst, seeds)


def _load_input(name, path, like):
    try:
        array = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise CompileError(f"{path}: {error}") from error
    if array.shape != like.shape or array.dtype != like.dtype:
        raise CompileError(
            f"input '{name}' is {like.dtype}{list(like.shape)}, {path} has {array.dtype}{list(array.shape)}"
        )
    return array
