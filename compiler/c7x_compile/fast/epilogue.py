# SPDX-License-Identifier: Apache-2.0
"""Grows the chain of elementwise operators behind a convolution or product into its epilogue."""

import numpy as np
import tvm
from tvm import relax

from .choose import BLOCK
from .generate import Epilogue

_CHAIN_MAX = 60  # bindings behind the anchor that are looked at
_OPERATORS = {
    "relax.add": "{0} + {1}",
    "relax.subtract": "{0} - {1}",
    "relax.multiply": "{0} * {1}",
    "relax.divide": "{0} / {1}",
    "relax.maximum": "vec_max({0}, {1})",
    "relax.minimum": "vec_min({0}, {1})",
    "relax.negative": "-{0}",
    "relax.nn.relu": "vec_max({0}, vec_splat(0.0f))",
    "relax.nn.silu": "{0} * vec_sigmoid({0})",
    "relax.sigmoid": "vec_sigmoid({0})",
    "relax.tanh": "vec_tanh({0})",
    "relax.exp": "vec_exp({0})",
    "relax.erf": "vec_erf({0})",
}
# Of these the result lies in memory as the argument does.
_VIEWS = ("relax.reshape", "relax.squeeze", "relax.expand_dims")


def shape_of(expression):
    """The static shape as a tuple of int, or None."""
    type_ = expression.ty
    if not isinstance(type_, relax.TensorType) or type_.shape is None:
        return None
    return tuple(int(extent) for extent in type_.shape)


def is_float(expression):
    return isinstance(expression.ty, relax.TensorType) and str(expression.ty.dtype) == "float32"


def operator_name(expression):
    """Name of the Relax operator that an expression calls, or ""."""
    if isinstance(expression, relax.Call) and isinstance(expression.op, tvm.ir.Op):
        return expression.op.name
    return ""


def array_of(expression):
    """The array of a constant, or None."""
    if not isinstance(expression, tvm.ir.GenericConst):
        return None
    return expression.value.numpy() if hasattr(expression.value, "numpy") else None


class Chain:
    """The region behind an anchor.

    members: the variables that the fused kernel replaces, the last of them its result; epilogue;
    operands: the expressions that are passed for its operands.
    """

    def __init__(self, anchor, following, uses, taken, repeats=None, groups=1):
        """following: the bindings behind the anchor's; uses: variable -> the variables (or None for the
        result of the function) whose bindings read it; taken: variables of other regions; repeats: of a
        template whose columns are the channels this many times, and whose rows are no pixels; groups: of
        one that is called for each group of columns."""
        self._repeats, self._groups = repeats, groups
        shape = shape_of(anchor.var)
        self._columns, self._size = shape[-1], int(np.prod(shape))
        self._values = {anchor.var: "value"}
        self._lines, self._numbers, self._each, self._operands = [], [], [], []
        self.members = [anchor.var]
        self._cut(anchor.var)
        for binding in following[:_CHAIN_MAX]:
            if binding.var in taken or not self._take(binding):
                continue
            members = list(self._values)
            inner = members[:-1]
            if all(uses.get(each, set()) <= set(members) for each in inner):
                self.members = members
                self._cut(binding.var)

    def _cut(self, last):
        self.operands = list(self._operands)
        self.epilogue = Epilogue(
            tuple(self._lines), self._values[last], tuple(self._numbers), tuple(self._each)
        )

    def _take(self, binding):
        """Adds a binding to the chain; False when it does not continue it."""
        call = binding.value
        if not is_float(binding.var) or not self._in_order(shape_of(binding.var)):
            return False
        if operator_name(call) in _VIEWS and call.args[0] in self._values:
            self._values[binding.var] = self._values[call.args[0]]
            return True
        pattern = _OPERATORS.get(operator_name(call))
        if pattern is None or not any(argument in self._values for argument in call.args):
            return False
        counts = len(self._numbers), len(self._operands)
        divides = operator_name(call) == "relax.divide"
        texts = [self._operand(a, divides and k == 1) for k, a in enumerate(call.args)]
        if None in texts:
            del self._numbers[counts[0] :], self._operands[counts[1] :], self._each[counts[1] :]
            return False
        if divides and texts[1].startswith("NUMBER"):
            pattern = _OPERATORS["relax.multiply"]
        name = f"value_{len(self._lines)}"
        self._lines.append(f"vec {name} = {pattern.format(*texts)};")
        self._values[binding.var] = name
        return True

    def _in_order(self, shape):
        """Whether a tensor of this shape has its elements where the anchor's result has them."""
        return bool(shape) and shape[-1] == self._columns and int(np.prod(shape)) == self._size

    def _operand(self, expression, inverted):
        """C of an operand, or None when an epilogue cannot read it. inverted: a number as 1 / number."""
        if isinstance(expression, relax.Var) and expression in self._values:
            return self._values[expression]
        array = array_of(expression)
        if array is not None:
            return self._constant(array, inverted)
        if not isinstance(expression, relax.Var) or not is_float(expression) or self._repeats:
            return None
        shape, columns = shape_of(expression), self._columns
        within = columns // self._groups
        if self._in_order(shape):
            index = self._add(expression, True)
            return f"vec_load_column(operands[{index}] + row * {columns}L, {within}, column)"
        if shape and shape[-1] == columns == int(np.prod(shape)):
            index = self._add(expression, False)
            return f"vec_load_column(operands[{index}], {within}, column)"
        return None

    def _constant(self, array, inverted):
        if array.dtype != np.float32 or not np.isfinite(array).all():
            return None
        columns = self._columns
        if array.size == 1:
            value = float(array.reshape(-1)[0])
            if inverted and abs(value) < np.finfo(np.float32).tiny:
                return None
            self._numbers.append(1 / value if inverted else value)
            return f"NUMBER({len(self._numbers) - 1})"
        if array.size != columns or array.shape[-1] != columns:
            return None
        row = np.tile(array.reshape(-1), self._repeats or 1)
        # The last vector of the last group may begin anywhere.
        padded = np.pad(row, (0, -row.size % BLOCK if self._groups == 1 else BLOCK))
        index = self._add(relax.const(padded, "float32"), False)
        return f"vec_load(operands[{index}] + column)"

    def _add(self, expression, each):
        self._operands.append(expression)
        self._each.append(each)
        return len(self._operands) - 1
