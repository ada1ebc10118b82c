# SPDX-License-Identifier: Apache-2.0
"""Rewrites of the folded ONNX graph into forms that lower to fast loops.

Each keeps the result; onnx_model.check_folded compares the whole with the original model. Nodes that
replace a node carry its name, so that messages and profiles still speak of the model's own nodes.
"""

import numpy as np
import onnx
from onnx import helper, numpy_helper

_LANES = 16  # floats in the widest vector register
_SAME = (b"SAME_UPPER", b"SAME_LOWER")
_ELEMENTWISE = ("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow")


def rewrite(model, fast=False):
    """Rewrites the model in place. Shapes must be static. fast: for the fast kernels, which need no
    channels and columns padded to whole vectors, and compute one form of transposed convolution if the
    model has no other."""
    shapes = _value_shapes(model)
    opset = next((each.version for each in model.opset_import if not each.domain), 1)
    graph = _Graph(model.graph, shapes, opset)
    pads = not fast
    transposed = [node for node in model.graph.node if node.op_type == "ConvTranspose"]
    keeps = fast and all(_is_side_by_side(graph, node) for node in transposed)
    for node in list(model.graph.node):
        _pad_explicitly(graph, node)
        if node.op_type == "ConvTranspose" and not keeps:
            graph.replace(node, _transposed_convolution(graph, node))
        elif node.op_type == "Conv":
            graph.replace(node, _convolution(graph, node, pads))
        elif node.op_type in ("MatMul", "Gemm") and pads:
            graph.replace(node, _product(graph, node))
        elif node.op_type in _ELEMENTWISE and len(node.input) == 2:
            _make_scalars(graph, node)


def _value_shapes(model):
    graph = onnx.shape_inference.infer_shapes(model).graph
    values = [*graph.value_info, *graph.input, *graph.output]
    shapes = {v.name: tuple(d.dim_value for d in v.type.tensor_type.shape.dim) for v in values}
    shapes.update({tensor.name: tuple(tensor.dims) for tensor in graph.initializer})
    return shapes


class _Graph:
    """The graph being rewritten: float constants by name, shapes by value name; opset: its version."""

    def __init__(self, graph, shapes, opset):
        self._graph = graph
        self.opset = opset
        self._initializers = {tensor.name: tensor for tensor in graph.initializer}
        self.shapes = shapes

    def constant(self, name):
        """The array of an initializer, or None."""
        tensor = self._initializers.get(name)
        return None if tensor is None else numpy_helper.to_array(tensor)

    def add_constant(self, name, array):
        """Adds an initializer under this name once; returns the name."""
        if name not in self._initializers:
            tensor = numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)
            self._initializers[name] = tensor
            self._graph.initializer.append(tensor)
            self.shapes[name] = array.shape
        return name

    def replace(self, node, nodes):
        """Puts nodes in the place of a node; None keeps it."""
        if nodes is None:
            return
        position = list(self._graph.node).index(node)
        self._graph.node.remove(node)
        for offset, new in enumerate(nodes):
            self._graph.node.insert(position + offset, new)


class _Chain:
    """Nodes that together replace one node. The one of its own type keeps its name, the others have a
    suffix."""

    def __init__(self, graph, node):
        self._graph = graph
        self._node = node
        self._base = node.name or node.output[0]
        self.nodes = []

    def add(self, kind, inputs, suffix, **attributes):
        output = f"{self._base}.{suffix}"
        name = self._base if kind == self._node.op_type else output
        self.nodes.append(helper.make_node(kind, inputs, [output], name=name, **attributes))
        return output

    def constant(self, suffix, array):
        return self._graph.add_constant(f"{self._base}.{suffix}", np.asarray(array))

    def add_along(self, kind, source, suffix, axis):
        """Adds an operator, Unsqueeze or Squeeze, that takes an axis."""
        if self._graph.opset < 13:
            return self.add(kind, [source], suffix, axes=[axis])
        return self.add(kind, [source, self.constant("axis", np.array([axis]))], suffix)

    def finish(self):
        """The nodes, the last of them producing the replaced node's output."""
        self.nodes[-1].output[0] = self._node.output[0]
        return self.nodes


def _attributes(node):
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def _is_float(*arrays):
    return all(array.dtype == np.float32 for array in arrays if array is not None)


def _padded_count(count):
    """Output channels to compute for count wanted: a whole number of vectors, where count itself
    splits into none."""
    if count < _LANES or count % 8 == 0:
        return count
    return -(-count // _LANES) * _LANES


def _pad_axis(array, axis, count):
    widths = [(0, count - extent if k == axis else 0) for k, extent in enumerate(array.shape)]
    return np.pad(array, widths)


def _bias(graph, node):
    """(whether the bias is absent or constant, its array or None)."""
    name = node.input[2] if len(node.input) > 2 else ""
    array = graph.constant(name) if name else None
    return not name or array is not None, array


def _pad_explicitly(graph, node):
    """Writes the padding of a window down, where an attribute says how it follows from the shapes. (TVM
    would put an operator of its own before the node.)"""
    attributes = _attributes(node)
    auto = attributes.get("auto_pad", b"NOTSET")
    extents = graph.shapes.get(node.input[0], ())[2:]
    kernel = attributes.get("kernel_shape")
    if kernel is None and node.op_type == "Conv":
        kernel = graph.shapes.get(node.input[1], ())[2:]
    if node.op_type not in ("Conv", "MaxPool", "AveragePool") or auto not in _SAME:
        return
    if not kernel or len(kernel) != len(extents) or not all(extents):
        return
    ones = [1] * len(kernel)
    strides, dilations = (attributes.get(name, ones) for name in ("strides", "dilations"))
    totals = [
        max((-(-extent // stride) - 1) * stride + (size - 1) * dilation + 1 - extent, 0)
        for extent, stride, size, dilation in zip(extents, strides, kernel, dilations)
    ]
    less, more = ([total // 2 for total in totals], [total - total // 2 for total in totals])
    first, last = (less, more) if auto == b"SAME_UPPER" else (more, less)
    kept = [each for each in node.attribute if each.name not in ("auto_pad", "pads")]
    del node.attribute[:]
    node.attribute.extend([*kept, helper.make_attribute("pads", first + last)])


def _convolution(graph, node, pads):
    """One-dimensional convolutions become two-dimensional ones; channels are padded to vectors."""
    weight = graph.constant(node.input[1])
    known, bias = _bias(graph, node)
    attributes = _attributes(node)
    if weight is None or not known or not _is_float(weight, bias):
        return None
    flat = weight.ndim == 3
    count = weight.shape[0]
    pads = pads and attributes.get("group", 1) == 1 and weight.ndim <= 4
    padded = _padded_count(count) if pads else count
    if not flat and padded == count:
        return None
    chain = _Chain(graph, node)
    source = node.input[0]
    if flat:
        source = chain.add_along("Unsqueeze", source, "rows", 2)
        weight = weight[:, :, None, :]
        attributes = _with_rows(attributes)
    weight = _pad_axis(weight, 0, padded)
    attributes["kernel_shape"] = weight.shape[2:]
    operands = [source, chain.constant("weight", weight)]
    if bias is not None:
        operands.append(chain.constant("bias", _pad_axis(bias, 0, padded)))
    result = chain.add("Conv", operands, "padded", **attributes)
    if padded != count:
        bounds = [
            chain.constant(s, np.array([v]))
            for s, v in (("first", 0), ("count", count), ("channel", 1))
        ]
        result = chain.add("Slice", [result, *bounds], "channels")
    if flat:
        chain.add_along("Squeeze", result, "flat", 2)
    return chain.finish()


def _with_rows(attributes):
    """The attributes of a one-dimensional convolution for data with one row."""
    attributes = dict(attributes)
    for name in ("strides", "dilations"):
        if name in attributes:
            attributes[name] = [1, *attributes[name]]
    if "pads" in attributes:
        begin, end = attributes["pads"]
        attributes["pads"] = [0, begin, 0, end]
    return attributes


def _is_side_by_side(graph, node):
    """Whether a transposed convolution's stride is its kernel size, and nothing is cut off or added."""
    weight = graph.constant(node.input[1])
    known, bias = _bias(graph, node)
    attributes = _attributes(node)
    shape = graph.shapes.get(node.input[0], ())
    return (
        weight is not None
        and weight.ndim == 4
        and known
        and _is_float(weight, bias)
        and len(shape) == 4
        and all(shape)
        and attributes.get("group", 1) == 1
        and list(attributes.get("strides", [1, 1])) == list(weight.shape[2:])
        and not any(attributes.get("pads", []))
        and not any(attributes.get("output_padding", []))
        and all(d == 1 for d in attributes.get("dilations", []))
        and attributes.get("auto_pad", b"NOTSET") == b"NOTSET"
        and "output_shape" not in attributes
    )


def _transposed_convolution(graph, node):
    """A transposed convolution whose stride is its kernel size is a product per pixel, whose results
    are then put side by side."""
    if not _is_side_by_side(graph, node):
        return None
    weight = graph.constant(node.input[1])
    _, bias = _bias(graph, node)
    batch, _, height, width = graph.shapes[node.input[0]]
    inputs, outputs, rows, columns = weight.shape
    chain = _Chain(graph, node)
    # [I, O, r, c] -> [(r, c, O), I, 1, 1]: channels that belong together stay together.
    pointwise = weight.transpose(2, 3, 1, 0).reshape(rows * columns * outputs, inputs, 1, 1)
    operands = [node.input[0], chain.constant("weight", pointwise)]
    if bias is not None:
        operands.append(chain.constant("bias", np.tile(bias, rows * columns)))
    result = chain.add("Conv", operands, "pointwise", kernel_shape=[1, 1])
    result = chain.add("Transpose", [result], "channels_last", perm=[0, 2, 3, 1])
    split = chain.constant("split", np.array([batch, height, width, rows, columns, outputs]))
    result = chain.add("Reshape", [result, split], "split_channels")
    result = chain.add("Transpose", [result], "side_by_side", perm=[0, 5, 1, 3, 2, 4])
    merged = chain.constant("merged", np.array([batch, outputs, height * rows, width * columns]))
    chain.add("Reshape", [result, merged], "image")
    return chain.finish()


def _product(graph, node):
    """Matrix products with a constant right side: its columns are padded to vectors."""
    weight = graph.constant(node.input[1])
    known, bias = _bias(graph, node)
    attributes = _attributes(node)
    if weight is None or weight.ndim != 2 or not known or not _is_float(weight, bias):
        return None
    if attributes.get("transA", 0):
        return None
    if attributes.get("transB", 0):
        weight = weight.T
        attributes["transB"] = 0
    count = weight.shape[1]
    padded = _padded_count(count)
    rank = len(graph.shapes.get(node.input[0], ()))
    if padded == count or rank < 2:
        return None
    chain = _Chain(graph, node)
    operands = [node.input[0], chain.constant("weight", _pad_axis(weight, 1, padded))]
    if bias is not None:
        whole = (
            np.broadcast_to(bias, (*bias.shape[:-1], count)) if bias.ndim else np.full(count, bias)
        )
        operands.append(chain.constant("bias", _pad_axis(whole, whole.ndim - 1, padded)))
    result = chain.add(node.op_type, operands, "padded", **attributes)
    bounds = [
        chain.constant(s, np.array([v]))
        for s, v in (("first", 0), ("count", count), ("column", rank - 1))
    ]
    chain.add("Slice", [result, *bounds], "columns")
    return chain.finish()


def _make_scalars(graph, node):
    """Turns one-element constants into scalars: as [1, 1, 1, 1] each would need a transpose on both
    sides when the layout changes."""
    for index, name in enumerate(node.input):
        array = graph.constant(name)
        other_rank = len(graph.shapes.get(node.input[1 - index], ()))
        if array is not None and array.ndim and array.size == 1 and other_rank >= array.ndim:
            node.input[index] = graph.add_constant(f"{name}.scalar", array.reshape(()))
