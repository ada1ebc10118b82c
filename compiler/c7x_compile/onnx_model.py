# SPDX-License-Identifier: Apache-2.0
"""The ONNX front: static shapes, frozen inputs, folding by onnxruntime, recurrent layers lowered.

What comes out has only static shapes and computes what the original file computes; check_folded
compares the two in onnxruntime.
"""

import copy
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

from .errors import CompileError, UnsupportedOperators
from .lstm import lower_lstm
from .rewrite import rewrite

# Folding reorders float sums; on noise some networks amplify that (a detector of text by 1e-3).
FOLD_TOLERANCE = 2e-2


def load(path):
    """The model of an .onnx file. Raises CompileError when it cannot be read."""
    try:
        return onnx.load(path)
    except FileNotFoundError as error:
        raise CompileError(f"{path}: no such file") from error
    except Exception as error:
        raise CompileError(f"{path}: not a readable ONNX model: {error}") from error


def graph_inputs(model):
    """The graph inputs that are not initializers, in order (ValueInfoProto)."""
    initializers = {tensor.name for tensor in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in initializers]


def numpy_dtype(value):
    """The numpy dtype of a ValueInfoProto of tensor type."""
    return helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)


def static_shape(value):
    """The shape of a ValueInfoProto with None for dimensions that are not known."""
    return tuple(
        dim.dim_value if dim.dim_value > 0 else None for dim in value.type.tensor_type.shape.dim
    )


def specialise(model, shapes, constants):
    """A copy of the model with input shapes set and inputs frozen.

    shapes: name -> tuple of positive int; constants: name -> text of a scalar, or of a flat list of
    scalars separated by commas. Raises CompileError on unknown names, and when dimensions stay open.
    """
    model = copy.deepcopy(model)
    inputs = {value.name: value for value in graph_inputs(model)}
    for name in [*shapes, *constants]:
        if name not in inputs:
            raise CompileError(f"no input named '{name}'; the inputs are: {', '.join(inputs)}")
    for name, text in constants.items():
        _freeze(model, inputs.pop(name), text)
    for name, shape in shapes.items():
        if name in constants:
            raise CompileError(f"input '{name}' is both frozen and shaped")
        _set_shape(inputs[name], shape)
    _require_static(inputs.values())
    return model


def _freeze(model, value, text):
    dtype = numpy_dtype(value)
    try:
        if dtype == np.bool_:
            scalars = [
                {"true": True, "1": True, "false": False, "0": False}[word.lower()]
                for word in text.split(",")
            ]
        else:
            scalars = [float(word) if dtype.kind == "f" else int(word) for word in text.split(",")]
        shape = tuple(extent or 1 for extent in static_shape(value))
        array = np.array(scalars, dtype).reshape(shape)
    except (ValueError, KeyError, OverflowError) as error:
        raise CompileError(f"input '{value.name}' cannot be set to '{text}'") from error
    model.graph.input.remove(value)
    model.graph.initializer.append(numpy_helper.from_array(array, value.name))


def _set_shape(value, shape):
    rank = len(value.type.tensor_type.shape.dim)
    if value.type.tensor_type.HasField("shape") and rank != len(shape):
        raise CompileError(
            f"input '{value.name}' has {rank} dimensions, --shape gives {len(shape)}"
        )
    for extent, known in zip(shape, static_shape(value)):
        if known is not None and known != extent:
            raise CompileError(f"input '{value.name}' has a fixed dimension {known}, not {extent}")
    dims = value.type.tensor_type.shape
    del dims.dim[:]
    for extent in shape:
        dims.dim.add().dim_value = extent


def _require_static(values):
    for value in values:
        if not value.type.HasField("tensor_type"):
            raise CompileError(f"input '{value.name}' is not a tensor")
        shape = static_shape(value)
        if None in shape or not value.type.tensor_type.HasField("shape"):
            known = ",".join(str(extent or "?") for extent in shape)
            raise CompileError(
                f"input '{value.name}' has open dimensions ({known}); "
                f"give them with --shape {value.name}={known.replace('?', 'N')}"
            )


def fold(model, fast=False):
    """The model after onnxruntime's basic graph optimisation, with LSTM layers lowered and operators
    rewritten for speed. fast: as in rewrite."""
    folded, lowered = lower_lstm(_ort_basic(model))
    if lowered:
        folded = _ort_basic(folded)
    rewrite(folded, fast)
    return folded


def _ort_basic(model):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.log_severity_level = 4
    with tempfile.TemporaryDirectory() as folder:
        options.optimized_model_filepath = str(Path(folder) / "folded.onnx")
        try:
            onnxruntime.InferenceSession(
                model.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:
            foreign = _foreign_nodes(model.graph)
            if foreign:
                raise UnsupportedOperators(foreign) from error
            raise CompileError(f"onnxruntime refuses the model: {error}") from error
        return onnx.load(options.optimized_model_filepath)


def _foreign_nodes(graph):
    """Nodes whose operator is not ONNX's own; also in branches and loop bodies."""
    nodes = []
    for node in graph.node:
        if node.domain not in ("", "ai.onnx") or not onnx.defs.has(node.op_type):
            kind = f"{node.domain}:{node.op_type}" if node.domain else node.op_type
            nodes.append((node_name(node), kind, "not an operator of ONNX"))
        for attribute in node.attribute:
            if attribute.HasField("g"):
                nodes += _foreign_nodes(attribute.g)
    return nodes


def node_name(node):
    """The name of a node for messages: its own, else its first output's."""
    return node.name or (node.output[0] if node.output else node.op_type)


def random_inputs(model, seed):
    """Input arrays by name from a seed: floats uniform in [-1, 1), integers 0 or 1, bools."""
    generator = np.random.default_rng(seed)
    arrays = {}
    for value in graph_inputs(model):
        shape, dtype = static_shape(value), numpy_dtype(value)
        if dtype.kind == "f":
            arrays[value.name] = generator.uniform(-1, 1, shape).astype(dtype)
        else:
            arrays[value.name] = generator.integers(0, 2, shape).astype(dtype)
    return arrays


def session(model, threads=1):
    """An onnxruntime session on so many threads, for comparison."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def relative_error(actual, expected):
    """max|a-b| / max|b| over finite values; inf when shapes or non-finite values differ.

    An expected output of only zeros is compared absolutely.
    """
    actual, expected = np.asarray(actual), np.asarray(expected)
    if actual.shape != expected.shape:
        return float("inf")
    if expected.size == 0:
        return 0.0
    actual, expected = actual.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(expected)
    if not np.array_equal(actual[~finite], expected[~finite], equal_nan=True):
        return float("inf")
    if not finite.any():
        return 0.0
    difference = np.abs(actual[finite] - expected[finite]).max()
    scale = np.abs(expected[finite]).max()
    return (
        float(difference / scale if scale else difference)
        if np.isfinite(difference)
        else float("inf")
    )


def check_folded(original, folded):
    """Compares the folded model with the original in onnxruntime on one random input.

    Returns the shapes of the outputs, or None when the model cannot be run on random input (it then
    depends on values, such as sizes). Raises CompileError when an output differs in shape or by more
    than FOLD_TOLERANCE.
    """
    inputs = random_inputs(folded, seed=0)
    try:
        expected = session(original).run(None, inputs)
    except Exception:  # onnxruntime's own error types are many; the model rejects these values.
        return None
    actual = session(folded).run(None, inputs)
    for value, ours, theirs in zip(folded.graph.output, actual, expected):
        error = relative_error(ours, theirs)
        if error > FOLD_TOLERANCE:
            raise CompileError(f"folding changed output '{value.name}' (difference {error:.2g})")
    return [array.shape for array in expected]
