# SPDX-License-Identifier: Apache-2.0
"""Small ONNX models and the command, for the tests."""

import contextlib
import io
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from c7x_compile import cli


def model(nodes, inputs, outputs, constants=None, opset=17, domains=()):
    """inputs, outputs: name -> shape (float32) or (shape, TensorProto type)."""

    def values(described):
        for name, spec in described.items():
            shape, kind = (
                spec if spec and isinstance(spec[0], (list, tuple)) else (spec, TensorProto.FLOAT)
            )
            yield helper.make_tensor_value_info(name, kind, shape)

    graph = helper.make_graph(
        nodes,
        "test",
        list(values(inputs)),
        list(values(outputs)),
        [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()],
    )
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def small_network():
    """A convolution, an activation with exp, a mean, a reshape, a bool input and two outputs."""
    generator = np.random.default_rng(7)
    weight = generator.normal(0, 0.2, (8, 3, 3, 3)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "weight"], ["c"], name="first_conv", pads=[1, 1, 1, 1]),
        helper.make_node("Sigmoid", ["c"], ["s"], name="gate"),
        helper.make_node("Mul", ["c", "s"], ["m"], name="scale"),
        helper.make_node("Where", ["keep", "m", "c"], ["w"], name="choose"),
        helper.make_node("ReduceMean", ["w"], ["mean"], name="pool", axes=[2, 3], keepdims=0),
        helper.make_node("Reshape", ["mean", "shape"], ["y"], name="flatten"),
        helper.make_node("Softmax", ["mean"], ["p"], name="probabilities", axis=1),
    ]
    return model(
        nodes,
        {"x": (1, 3, 16, 16), "keep": ((1, 1, 1, 1), TensorProto.BOOL)},
        {"y": (2, 4), "p": (1, 8)},
        {"weight": weight, "shape": np.array([2, 4])},
    )


@contextlib.contextmanager
def folder():
    with tempfile.TemporaryDirectory() as path:
        yield Path(path)


def save(onnx_model, path):
    onnx.save(onnx_model, path)
    return path


def run_cli(*arguments):
    """Runs c7x-compile in this process. Returns (exit code, stdout, stderr)."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = cli.main([str(argument) for argument in arguments])
        except SystemExit as stop:
            code = stop.code
    return code, out.getvalue(), err.getvalue()
