# SPDX-License-Identifier: Apache-2.0
"""Lowers ONNX LSTM layers to matrix products and elementwise operators, unrolled over time.

The importer has no LSTM. Weights must be constants and the sequence length static.
"""

import numpy as np
import onnx
from onnx import helper, numpy_helper

_SUPPORTED_ACTIVATIONS = ["Sigmoid", "Tanh", "Tanh"]


def lower_lstm(model):
    """Returns (model, number of LSTM nodes replaced).

    A layer that cannot be lowered (clipping, peepholes, other activations, weights computed at run
    time, batch-first layout, sequence lengths) stays, so that it is reported with the rest.
    """
    if not any(node.op_type == "LSTM" for node in model.graph.node):
        return model, 0
    model = onnx.shape_inference.infer_shapes(model)
    graph = model.graph
    shapes = _value_shapes(graph)
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute[0].HasField("t"):
            constants[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
    nodes, count = [], 0
    for node in graph.node:
        if node.op_type == "LSTM" and _can_lower(node, shapes, constants):
            nodes += _Lowering(node, shapes, constants, graph, count).run()
            count += 1
        else:
            nodes.append(node)
    del graph.node[:]
    graph.node.extend(nodes)
    del graph.value_info[:]
    return model, count


def _value_shapes(graph):
    values = [*graph.value_info, *graph.input, *graph.output]
    shapes = {v.name: tuple(d.dim_value for d in v.type.tensor_type.shape.dim) for v in values}
    shapes.update({tensor.name: tuple(tensor.dims) for tensor in graph.initializer})
    return shapes


def _attributes(node):
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def _optional_input(node, index):
    return node.input[index] if len(node.input) > index else ""


def _can_lower(node, shapes, constants):
    attributes = _attributes(node)
    directions = 2 if attributes.get("direction", b"forward") == b"bidirectional" else 1
    activations = [name.decode() for name in attributes.get("activations", [])]
    weights = [node.input[1], node.input[2], _optional_input(node, 3)]
    return (
        attributes.get("layout", 0) == 0
        and not attributes.get("input_forget", 0)
        and "clip" not in attributes
        and activations in ([], _SUPPORTED_ACTIVATIONS * directions)
        and not _optional_input(node, 4)
        and not _optional_input(node, 7)
        and all(name in constants for name in weights if name)
        and all(extent > 0 for extent in shapes.get(node.input[0], (0,)))
    )


class _Lowering:
    """Emits the nodes of one LSTM layer. X is [T, B, I]; Y [T, D, B, H]; Y_h and Y_c [D, B, H]."""

    def __init__(self, node, shapes, constants, graph, number):
        self._node = node
        self._constants = constants
        self._graph = graph
        self._prefix = f"{node.name or 'lstm'}_{number}_"
        self._nodes = []
        self._counter = 0
        attributes = _attributes(node)
        self._hidden = attributes["hidden_size"]
        self._direction = attributes.get("direction", b"forward").decode()
        self._time, self._batch, _ = shapes[node.input[0]]

    def run(self):
        directions = 2 if self._direction == "bidirectional" else 1
        sequences, hiddens, cells = zip(*(self._run_direction(d) for d in range(directions)))
        for index, (parts, axis) in enumerate(((sequences, 1), (hiddens, 0), (cells, 0))):
            name = self._node.output[index] if len(self._node.output) > index else ""
            if name:
                self._add("Concat", list(parts), output=name, axis=axis)
        return self._nodes

    def _run_direction(self, direction):
        hidden_size, batch = self._hidden, self._batch
        weights = self._constants[self._node.input[1]][direction].T
        recurrence = self._constant(self._constants[self._node.input[2]][direction].T)
        gates_x = self._add("MatMul", [self._node.input[0], self._constant(weights)])
        if _optional_input(self._node, 3):
            bias = self._constants[self._node.input[3]][direction]
            bias = bias[: 4 * hidden_size] + bias[4 * hidden_size :]
            gates_x = self._add("Add", [gates_x, self._constant(bias)])
        hidden = self._initial_state(5, direction)
        cell = self._initial_state(6, direction)
        backward = self._direction == "reverse" or direction == 1
        steps = reversed(range(self._time)) if backward else range(self._time)
        outputs = [None] * self._time
        for step in steps:
            hidden, cell = self._step(gates_x, step, hidden, cell, recurrence)
            outputs[step] = self._reshape(hidden, (1, 1, batch, hidden_size))
        sequence = self._add("Concat", outputs, axis=0)
        state_shape = (1, batch, hidden_size)
        return sequence, self._reshape(hidden, state_shape), self._reshape(cell, state_shape)

    def _step(self, gates_x, step, hidden, cell, recurrence):
        size = self._hidden
        if self._time > 1:
            now = self._add("Gather", [gates_x, self._constant(np.array(step))], axis=0)
        else:
            now = self._reshape(gates_x, (self._batch, 4 * size))
        gates = self._add("Add", [now, self._add("MatMul", [hidden, recurrence])])
        enter, leave, forget, candidate = (self._slice(gates, k * size, size) for k in range(4))
        kept = self._add("Mul", [self._add("Sigmoid", [forget]), cell])
        added = self._add("Mul", [self._add("Sigmoid", [enter]), self._add("Tanh", [candidate])])
        cell = self._add("Add", [kept, added])
        hidden = self._add("Mul", [self._add("Sigmoid", [leave]), self._add("Tanh", [cell])])
        return hidden, cell

    def _initial_state(self, index, direction):
        name = _optional_input(self._node, index)
        if not name:
            return self._constant(np.zeros((self._batch, self._hidden), np.float32))
        return self._add("Gather", [name, self._constant(np.array(direction))], axis=0)

    def _slice(self, name, start, size):
        bounds = [self._constant(np.array([value])) for value in (start, start + size, 1)]
        return self._add("Slice", [name, *bounds])

    def _reshape(self, name, shape):
        return self._add("Reshape", [name, self._constant(np.array(shape))])

    def _add(self, kind, inputs, output=None, **attributes):
        name = self._unique(kind.lower())
        output = output or name
        self._nodes.append(helper.make_node(kind, inputs, [output], name=name, **attributes))
        return output

    def _constant(self, array):
        name = self._unique("constant")
        self._graph.initializer.append(
            numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)
        )
        return name

    def _unique(self, kind):
        self._counter += 1
        return f"{self._prefix}{kind}_{self._counter}"
