# SPDX-License-Identifier: Apache-2.0
"""A transformer decoder with random weights, for one token at a time; its caches are inputs and outputs.

Inputs: token [1,1] and position [1], int64; then of each layer the cache of keys and that of values, [1,3,256,64].
Outputs: logits [1,VOCABULARY]; then the caches with this token's keys and values at `position`.
"""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LAYERS = 30
HEADS, LENGTH, HEAD_SIZE = 3, 256, 64
CACHES = 2 * LAYERS
CACHE_SHAPE = (1, HEADS, LENGTH, HEAD_SIZE)
CACHE_BYTES = 4 * HEADS * LENGTH * HEAD_SIZE
VOCABULARY = 128

_HIDDEN = HEADS * HEAD_SIZE
_INNER = 256
_SEED = 20240607


class _Graph:
    """Nodes and constants under names of their own; every method returns the name of a value."""

    def __init__(self):
        self.nodes = []
        self.constants = []
        self._random = np.random.default_rng(_SEED)

    def op(self, kind, *inputs, name=None, **attributes):
        name = name or f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=f"{kind}_{len(self.nodes)}", **attributes))
        return name

    def constant(self, array, name=None):
        name = name or f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def weight(self, *shape):
        """Random, so scaled that products keep the size of their input."""
        scale = shape[0] ** -0.5
        return self.constant(self._random.normal(0, scale, shape).astype(np.float32))

    def norm(self, x):
        gain = self.constant(self._random.uniform(0.8, 1.2, _HIDDEN).astype(np.float32))
        mean = self.op("ReduceMean", self.op("Mul", x, x), axes=[-1], keepdims=1)
        size = self.op("Sqrt", self.op("Add", mean, self.constant(np.float32(1e-5))))
        return self.op("Mul", self.op("Div", x, size), gain)


def cache_names():
    """(inputs, outputs)"""
    kinds = [f"{kind}{layer}" for layer in range(LAYERS) for kind in ("key", "value")]
    return [f"past_{kind}" for kind in kinds], [f"present_{kind}" for kind in kinds]


def make():
    """The ONNX model."""
    graph = _Graph()
    places = graph.constant(np.arange(LENGTH))
    heads = graph.constant(np.array([1, HEADS, 1, HEAD_SIZE]), "heads")
    flat = graph.constant(np.array([1, 1, _HIDDEN]), "flat")
    column = graph.constant(np.array([1, 1, LENGTH, 1]), "column")
    row = graph.constant(np.array([1, 1, 1, LENGTH]), "row")
    here = graph.op("Reshape", graph.op("Equal", places, "position"), column)
    past = graph.op("Reshape", graph.op("LessOrEqual", places, "position"), row)
    never = graph.constant(np.float32(-1e9), "never")
    scale = graph.constant(np.float32(HEAD_SIZE ** -0.5), "scale")
    x = graph.op("Add", graph.op("Gather", graph.weight(VOCABULARY, _HIDDEN), "token"),
                 graph.op("Gather", graph.weight(LENGTH, _HIDDEN), "position"))
    inputs, outputs = cache_names()
    for layer in range(LAYERS):
        normal = graph.norm(x)
        query, key, value = (graph.op("Reshape", graph.op("MatMul", normal, graph.weight(_HIDDEN, _HIDDEN)), heads)
                             for _ in range(3))
        keys = graph.op("Where", here, key, inputs[2 * layer], name=outputs[2 * layer])
        values = graph.op("Where", here, value, inputs[2 * layer + 1], name=outputs[2 * layer + 1])
        scores = graph.op("MatMul", query, graph.op("Transpose", keys, perm=[0, 1, 3, 2]))
        seen = graph.op("Where", past, graph.op("Mul", scores, scale), never)
        mixed = graph.op("Reshape", graph.op("MatMul", graph.op("Softmax", seen, axis=-1), values), flat)
        x = graph.op("Add", x, graph.op("MatMul", mixed, graph.weight(_HIDDEN, _HIDDEN)))
        inner = graph.op("MatMul", graph.norm(x), graph.weight(_HIDDEN, _INNER))
        gated = graph.op("Mul", inner, graph.op("Sigmoid", inner))
        x = graph.op("Add", x, graph.op("MatMul", gated, graph.weight(_INNER, _HIDDEN)))
    last = graph.op("MatMul", graph.norm(x), graph.weight(_HIDDEN, VOCABULARY))
    logits_shape = graph.constant(np.array([1, VOCABULARY]), "logits_shape")
    graph.op("Reshape", last, logits_shape, name="logits")

    def floats(name, shape):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    model = helper.make_model(
        helper.make_graph(
            graph.nodes, "decoder",
            [helper.make_tensor_value_info("token", TensorProto.INT64, [1, 1]),
             helper.make_tensor_value_info("position", TensorProto.INT64, [1]),
             *(floats(name, CACHE_SHAPE) for name in inputs)],
            [floats("logits", [1, VOCABULARY]), *(floats(name, CACHE_SHAPE) for name in outputs)],
            graph.constants),
        opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model
