# SPDX-License-Identifier: Apache-2.0
"""Turns the folded ONNX model into Relax, keeping track of which node each value comes from."""

import contextlib
import io
import re

import onnx
from tvm import relax, tirx
from tvm.relax.frontend.onnx.onnx_frontend import ONNXGraphImporter

from .errors import CompileError, UnsupportedOperators
from .onnx_model import graph_inputs, node_name, numpy_dtype, static_shape

_NODE_VARIABLE = re.compile(r"onnx_(\d+)_")
_SORTS = ("relax.topk", "relax.sort", "relax.argsort")
_TVM_HAS_NO = "no converter for this operator"


class _Importer(ONNXGraphImporter):
    """Names each node's result onnx_<index>_ and collects all nodes that fail, not only the first.

    A failed node's outputs become variables of the type that ONNX infers, so that what follows can
    still be tried; nodes that depend on an output of unknown type are left out of the verdict.
    """

    def __init__(self, model):
        super().__init__({}, "float32")
        inferred = onnx.shape_inference.infer_shapes(model).graph
        self._values = {v.name: v for v in [*inferred.value_info, *inferred.output]}
        self._order = {}
        for index, node in enumerate(model.graph.node):
            # The importer hands over the name alone: it must identify the node.
            self._order[node.name] = (index, node)
        self._unknown = set()
        self.failed = []

    def _check_for_unsupported_ops(self, graph):
        """Nothing: each such operator is reported with its node's name when it is reached."""

    def _convert_operator(self, op_name, inputs, attrs, opset):
        index, node = self._order.get(attrs["tvm_custom"]["name"], (None, None))
        if node is None:
            return super()._convert_operator(op_name, inputs, attrs, opset)
        if self._unknown.intersection(node.input):
            return self._placeholder(node)
        wrong = _converted_wrongly(node, attrs)
        if wrong:
            self.failed.append((node_name(node), op_name, wrong))
            return self._placeholder(node)
        try:
            result = self._convert_own(op_name, inputs, attrs)
            if result is None:
                with contextlib.redirect_stdout(io.StringIO()):
                    result = super()._convert_operator(op_name, inputs, attrs, opset)
        except NotImplementedError:
            self.failed.append((node_name(node), op_name, _TVM_HAS_NO))
            return self._placeholder(node)
        except Exception as error:
            lines = str(error).strip().splitlines()
            detail = f"{type(error).__name__} {lines[-1] if lines else ''}".strip()
            self.failed.append((node_name(node), op_name, f"TVM cannot convert it: {detail}"))
            return self._placeholder(node)
        reason = _why_not(node, result)
        if reason:
            self.failed.append((node_name(node), op_name, reason))
            return self._placeholder(node)
        if isinstance(result, relax.Call):
            result = self.bb.emit(result, name_hint=f"onnx_{index}_")
        return result

    def _convert_own(self, op_name, inputs, attrs):
        """Operators that TVM's importer turns into opaque loops, as Relax operators, which the layout
        pass can see through; None for all others."""
        if op_name == "Clip" and "min" not in attrs and "max" not in attrs:
            result = inputs[0]
            for bound, operator in ((1, relax.op.maximum), (2, relax.op.minimum)):
                if len(inputs) > bound and inputs[bound] is not None:
                    result = self.bb.normalize(operator(result, inputs[bound]))
            return result
        if op_name in ("Max", "Min"):
            operator = relax.op.maximum if op_name == "Max" else relax.op.minimum
            result = inputs[0]
            for other in list(inputs)[1:]:
                result = self.bb.normalize(operator(result, other))
            return result
        if op_name == "HardSigmoid" and inputs[0].ty.dtype == "float32":
            slope = relax.const(attrs.get("alpha", 0.2), "float32")
            offset = relax.const(attrs.get("beta", 0.5), "float32")
            line = relax.op.add(relax.op.multiply(inputs[0], slope), offset)
            zero, one = relax.const(0.0, "float32"), relax.const(1.0, "float32")
            return self.bb.normalize(relax.op.minimum(relax.op.maximum(line, zero), one))
        return None

    def _placeholder(self, node):
        variables = []
        for name in node.output:
            value = self._values.get(name)
            shape = static_shape(value) if value is not None else (None,)
            if None in shape:
                self._unknown.add(name)
                variables.append(relax.Var(name or "none", relax.TensorType(dtype="float32")))
            else:
                dtype = str(numpy_dtype(value))
                variables.append(relax.Var(name, relax.TensorType(shape, dtype)))
        return variables[0] if len(variables) == 1 else relax.Tuple(variables)


def _converted_wrongly(node, attrs):
    """Why TVM's converter of an operator computes something else than ONNX, or None. Each was found
    with ONNX's own node tests."""
    kind = node.op_type
    if kind in ("BatchNormalization", "Dropout") and attrs.get("training_mode"):
        return "training mode"
    if kind == "Dropout" and len(node.input) > 2 and node.input[2]:
        return "training mode"
    if kind == "LayerNormalization" and any(node.output[1:]):
        return "outputs of mean and deviation"
    if kind == "IsInf" and not (
        attrs.get("detect_positive", 1) and attrs.get("detect_negative", 1)
    ):
        return "infinities of one sign only"
    if kind == "ConvTranspose" and "output_shape" in attrs:
        return "output_shape"
    if kind == "Resize" and (attrs.get("mode") == b"cubic" or attrs.get("antialias")):
        return "cubic or antialiased resizing"
    if kind == "SpaceToDepth" and attrs.get("mode", b"DCR") != b"DCR":
        return "mode CRD"
    if kind == "BitShift":
        return "shifts by the width or more"
    return None


def _why_not(node, result):
    """Why a converted operator cannot be part of a module, or None."""
    count = len(result.ty.fields) if isinstance(result.ty, relax.TupleType) else 1
    if len(node.output) > count:
        return f"only {count} of its {len(node.output)} outputs can be computed"
    if isinstance(result, relax.Call) and getattr(result.op, "name", "") in _SORTS:
        return "sorting needs a runtime function that modules do not have"
    types = result.ty.fields if isinstance(result.ty, relax.TupleType) else [result.ty]
    for each in types:
        if isinstance(each, relax.TensorType) and not _is_static(each.shape):
            return "its result has a shape that is known only at run time"
    return None


def _is_static(shape):
    values = getattr(shape, "values", None)
    return values is not None and all(isinstance(extent, tirx.IntImm) for extent in values)


def import_onnx(model):
    """Returns the Relax module of a static model. Its function main takes the model's inputs.

    Raises UnsupportedOperators with all nodes that cannot be converted.
    """
    _name_nodes(model.graph)
    for value in graph_inputs(model):
        if numpy_dtype(value).kind not in "fiub":
            raise CompileError(f"input '{value.name}' has a type that cannot be compiled")
    opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 1)
    importer = _Importer(model)
    try:
        module = importer.from_onnx(model.graph, opset)
    except Exception as error:
        if importer.failed:
            raise UnsupportedOperators(importer.failed) from error
        raise CompileError(f"the model cannot be imported: {error}") from error
    if importer.failed:
        raise UnsupportedOperators(importer.failed)
    return module


def output_types(module):
    """(shape, dtype name) of each output of main."""
    returned = module["main"].ret_ty
    types = returned.fields if isinstance(returned, relax.TupleType) else [returned]
    return [(tuple(int(extent) for extent in each.shape), str(each.dtype)) for each in types]


def _name_nodes(graph):
    """Gives each node a name of its own."""
    seen = set()
    for node in graph.node:
        base = name = node_name(node)
        count = 1
        while name in seen:
            count += 1
            name = f"{base}_{count}"
        node.name = name
        seen.add(name)


def node_index(variable_name):
    """The index of the ONNX node that a Relax variable is the result of, or None."""
    match = _NODE_VARIABLE.match(variable_name)
    return int(match.group(1)) if match else None
