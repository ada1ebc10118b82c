# SPDX-License-Identifier: Apache-2.0
"""Replaces convolutions, products, norms, softmax and pooling, and what is fused behind them, by calls of fast
kernels.

Products of two variables are among them. Batch sizes, strides, pads, dilations and groups are free.
"""

from dataclasses import dataclass, field

import numpy as np
import tvm
from tvm import relax

from ..importer import node_index
from . import generate
from .choose import (
    Convolution,
    Product,
    choose_convolution,
    choose_deconvolution,
    choose_layer_norm,
    choose_max_pool,
    choose_product,
    choose_softmax,
    choose_variable_product,
)
from .epilogue import Chain, array_of, is_float, operator_name, shape_of

_VARIABLE_ROWS_MIN = 4  # below, packing the second matrix costs more than it saves


@dataclass
class Plan:
    """kernels: name -> kernels.Kernel; calls: (kernel name, indices of its ONNX nodes, Choice) in
    program order; templates: files that the kernels need."""

    kernels: dict = field(default_factory=dict)
    calls: list = field(default_factory=list)
    templates: set = field(default_factory=set)

    def prelude(self):
        """The C that stands before the kernels; empty without any."""
        return generate.prelude(self.templates) if self.templates else ""


def fuse(module):
    """Returns the module with fast kernels called in main, and the Plan of them."""
    plan = Plan()
    main = module["main"]
    regions, dropped = {}, set()
    for block in main.body.blocks:
        _find(list(block.bindings), _uses(main), regions, dropped)
    if not regions:
        return module, plan
    return _Rewriter(module, plan, regions, dropped, _nodes(main)).run(), plan


@dataclass(frozen=True)
class _Region:
    call: relax.Call
    choice: object
    chain: Chain


def _find(bindings, uses, regions, dropped):
    """Adds the regions of one block: result variable -> _Region; dropped: the variables within."""
    for position, binding in enumerate(bindings):
        if binding.var in dropped or binding.var in regions:
            continue
        choice = _choice(binding.value)
        if choice is None:
            continue
        repeats = choice.arguments[4] if choice.function == "deconvolution" else None
        taken = dropped | set(regions)
        chain = Chain(binding, bindings[position + 1 :], uses, taken, repeats, choice.groups)
        *inner, last = chain.members
        regions[last] = _Region(binding.value, choice, chain)
        dropped.update(inner)


def _choice(value):
    """The Choice for an operator that the fast path computes, or None."""
    choose = _ANCHORS.get(operator_name(value))
    if choose is None or not all(is_float(each) for each in (value, *value.args)):
        return None
    return None if 0 in shape_of(value) else choose(value)


def is_side_by_side(call):
    """Whether a transposed convolution is one that the fast path computes, once it is in NHWC: its stride
    is its kernel, and nothing is cut off or added."""
    attributes, weight = call.attrs, array_of(call.args[1])
    return (
        weight is not None
        and all(is_float(each) for each in (call, *call.args))
        and list(weight.shape[2:]) == [int(stride) for stride in attributes.strides]
        and not any(int(each) for each in (*attributes.padding, *attributes.output_padding))
        and all(int(each) == 1 for each in (*attributes.dilation, attributes.groups))
        and 0 not in shape_of(call)
    )


def _deconvolution(value):
    if value.attrs.data_layout != "NHWC" or not is_side_by_side(value):
        return None
    return choose_deconvolution(shape_of(value.args[0]), array_of(value.args[1]))


def _softmax(value):
    shape = shape_of(value)
    if int(value.attrs.axis) not in (-1, len(shape) - 1):
        return None
    return choose_softmax(int(np.prod(shape[:-1])), shape[-1])


def _layer_norm(value):
    shape, (scale, shift) = shape_of(value), map(array_of, value.args[1:])
    axes = [int(axis) % len(shape) for axis in value.attrs.axes]
    if scale is None or shift is None or axes != [len(shape) - 1]:
        return None
    if not (value.attrs.center and value.attrs.scale):
        return None
    rows = int(np.prod(shape[:-1]))
    return choose_layer_norm(rows, scale.ravel(), shift.ravel(), float(value.attrs.epsilon))


def _max_pool(value):
    attributes = value.attrs
    if attributes.layout != "NHWC" or any(int(each) != 1 for each in attributes.dilation):
        return None
    return choose_max_pool(_window(value, tuple(map(int, attributes.pool_size)), depthwise=True))


def _matmul(value):
    weight = array_of(value.args[1])
    return _variable_product(value) if weight is None else _product(value, weight)


def _product(value, weight):
    shape = shape_of(value.args[0])
    if weight.ndim != 2 or len(shape) < 2 or 0 in shape:
        return None
    rows = int(np.prod(shape[:-1]))
    return choose_product(Product(rows, *weight.shape), weight)


def _variable_product(value):
    data, weight = (shape_of(argument) for argument in value.args)
    if len(data) < 2 or data[:-2] != weight[:-2] or 0 in data + weight:
        return None
    if data[-2] < _VARIABLE_ROWS_MIN or not isinstance(value.args[0], relax.Var):
        return None
    return choose_variable_product(Product(*data[-2:], weight[-1], int(np.prod(data[:-2]))))


def _convolution(value):
    attributes, weight = value.attrs, array_of(value.args[1])
    if weight is None or attributes.data_layout != "NHWC":
        return None
    groups, channels = int(attributes.groups), shape_of(value.args[0])[-1]
    depthwise = groups > 1 and groups == channels == weight.shape[3]
    shape = _window(
        value,
        tuple(weight.shape[:2]),
        depthwise=depthwise,
        dilations=tuple(int(each) for each in attributes.dilation),
        groups=1 if depthwise else groups,
    )
    return choose_convolution(shape, weight)


def _window(value, kernel, **more):
    """The Convolution of an operator in NHWC that has strides and padding."""
    _, *out = shape_of(value)
    top, left = (int(pad) for pad in value.attrs.padding[:2])
    strides = tuple(int(stride) for stride in value.attrs.strides)
    return Convolution(*shape_of(value.args[0]), kernel, strides, (top, left), *out, **more)


_ANCHORS = {
    "relax.nn.conv2d": _convolution,
    "relax.nn.conv2d_transpose": _deconvolution,
    "relax.matmul": _matmul,
    "relax.nn.softmax": _softmax,
    "relax.nn.layer_norm": _layer_norm,
    "relax.nn.max_pool2d": _max_pool,
}


def _uses(function):
    """Variable -> the variables whose bindings read it; None stands for the function's result."""
    uses = {}

    def note(expression, reader):
        def visit(each):
            if isinstance(each, relax.Var):
                uses.setdefault(each, set()).add(reader)

        relax.analysis.post_order_visit(expression, visit)

    for block in function.body.blocks:
        for binding in block.bindings:
            note(binding.value, binding.var)
    note(function.body.body, None)
    return uses


def _nodes(function):
    """Variable -> the index of the ONNX node that it is a part of, if any. A value without a node of its
    own is an inner step of the next node."""
    nodes, pending = {}, []
    for block in function.body.blocks:
        for binding in block.bindings:
            pending.append(binding.var)
            index = node_index(binding.var.name)
            if index is not None:
                nodes.update((variable, index) for variable in pending)
                pending = []
    return nodes


@relax.expr_functor.mutator
class _Rewriter(relax.expr_functor.PyExprMutator):
    """Puts a call of a fast kernel in the place of each region's last binding."""

    def __init__(self, module, plan, regions, dropped, nodes):
        super().__init__(module)
        self._plan, self._regions, self._dropped, self._nodes = plan, regions, dropped, nodes
        self._names = {}

    def run(self):
        main = self.builder_.get().get_global_var("main")
        self.builder_.update_func(main, self.visit_expr(self.builder_.get()["main"]))
        return relax.transform.Normalize()(self.builder_.get())

    def visit_var_binding_(self, binding):
        if binding.var in self._dropped:
            return
        region = self._regions.get(binding.var)
        if region is not None:
            binding = relax.VarBinding(binding.var, self._call(binding.var, region))
        super().visit_var_binding_(binding)

    def _call(self, variable, region):
        name = self._kernel(region)
        nodes = {self._nodes[each] for each in region.chain.members if each in self._nodes}
        self._plan.calls.append((name, sorted(nodes), region.choice))
        inputs = list(region.call.args)
        if region.choice.weights is not None:
            inputs = [inputs[0], relax.const(region.choice.weights)]
        arguments = [*inputs, *region.chain.operands]
        return relax.op.call_dps_packed(name, relax.Tuple(arguments), variable.ty)

    def _kernel(self, region):
        """The name of the kernel of a region; equal ones share one."""
        choice, epilogue = region.choice, region.chain.epilogue
        key = (choice.function, choice.arguments, choice.images, choice.groups, epilogue)
        if key not in self._names:
            name = f"{choice.function}_{len(self._names)}"
            self._names[key] = name
            self._plan.kernels[name] = generate.kernel(name, choice, epilogue)
            self._plan.templates.add(choice.template)
        return self._names[key]
