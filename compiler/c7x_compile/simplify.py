# SPDX-License-Identifier: Apache-2.0
"""Rewrites of the Relax module that leave less to compute, with the same result.

Slices of everything and transposes that move nothing go; a transpose before a softmax brings its dimension to the
end, where the fast path has it; a product of one-hot rows with a constant matrix becomes a look-up of its rows.
"""

import numpy as np
from tvm import relax

from .fast.epilogue import array_of, operator_name, shape_of


def simplify(module):
    """Returns the simplified module."""
    for mutator in (_Simplifier, _Aliases):
        module = _apply(mutator(module), module)
    return relax.transform.DeadCodeElimination()(module)


def _apply(mutator, module):
    for variable, function in list(module.functions.items()):
        if isinstance(function, relax.Function):
            mutator.builder_.update_func(variable, mutator.visit_expr(function))
    return relax.transform.Normalize()(mutator.builder_.get())


@relax.expr_functor.mutator
class _Aliases(relax.expr_functor.PyExprMutator):
    """Removes variables that only name another one. (TVM's own pass may keep the name without the ONNX
    node.)"""

    def visit_var_binding_(self, binding):
        if isinstance(binding.value, relax.Var) and isinstance(binding.var, relax.DataflowVar):
            self.set_var_remap(binding.var, self.visit_expr(binding.value))
        else:
            super().visit_var_binding_(binding)


@relax.expr_functor.mutator
class _Simplifier(relax.expr_functor.PyExprMutator):
    def visit_call_(self, call):
        shape = shape_of(call)
        call = super().visit_call_(call)
        rewrite = _REWRITES.get(operator_name(call))
        better = rewrite(call, shape, self._definition, self._emit) if rewrite else None
        return call if better is None else better

    def _definition(self, expression, name):
        """The call of this operator that a variable is bound to, or None."""
        value = self.lookup_binding(expression) if isinstance(expression, relax.Var) else None
        return value if operator_name(value) == name else None

    def _emit(self, expression):
        return self.builder_.emit(self.builder_.normalize(expression))


# Each: what replaces a call whose result has this shape, or None. definition, emit: of _Simplifier.


def _slice(call, shape, definition, emit):
    """A slice of the whole. Steps backwards would keep the shape, too."""
    steps = list(call.args[4]) if len(call.args) > 4 else []
    forward = all(int(getattr(step, "value", step)) > 0 for step in steps)
    return call.args[0] if forward and shape and shape_of(call.args[0]) == shape else None


def _transpose(call, shape, definition, emit):
    """A transpose, of a transpose or not, that moves no data: it keeps the order of all dimensions but
    those of one element."""
    source, order = call.args[0], _order(call)
    first = definition(source, "relax.permute_dims")
    if first is not None:
        source, order = first.args[0], [_order(first)[axis] for axis in order]
    extents = shape_of(source)
    long = [axis for axis in order if extents[axis] > 1]
    if long != sorted(long):
        return None
    return source if extents == shape else relax.op.reshape(source, shape)


def _softmax(call, shape, definition, emit):
    """A softmax of a transpose, along another dimension than the last: of a transpose that puts it there."""
    before = definition(call.args[0], "relax.permute_dims")
    axis = int(call.attrs.axis) % len(shape)
    if before is None or axis == len(shape) - 1:
        return None
    there = [each for each in range(len(shape)) if each != axis] + [axis]
    order = _order(before)
    source = emit(relax.op.permute_dims(before.args[0], [order[each] for each in there]))
    result = emit(relax.op.nn.softmax(source, axis=-1))
    back = [there.index(each) for each in range(len(shape))]
    return relax.op.permute_dims(result, back)


def _order(call):
    rank = len(shape_of(call.args[0]))
    axes = range(rank)[::-1] if call.attrs.axes is None else call.attrs.axes
    return [int(axis) % rank for axis in axes]


def _one_hot(call, shape, definition, emit):
    """cast(index == 0, 1, ... count - 1) times a matrix: row `index` of the matrix, or zeros."""
    matrix = array_of(call.args[1])
    cast = definition(call.args[0], "relax.astype")
    equal = None if cast is None else definition(cast.args[0], "relax.equal")
    classes = None if equal is None else array_of(equal.args[1])
    if matrix is None or matrix.ndim != 2 or matrix.dtype != np.float32 or classes is None:
        return None
    count, index = matrix.shape[0], equal.args[0]
    if classes.dtype != np.int32 or not np.array_equal(classes.ravel(), np.arange(count)):
        return None
    if classes.shape[-1] != count or shape_of(index)[-1:] != (1,):
        return None
    index = emit(relax.op.reshape(index, [int(np.prod(shape_of(index)))]))
    outside = relax.const(np.int32(count))
    bounded = emit(relax.op.minimum(index, outside))
    negative = emit(relax.op.less(index, relax.const(np.int32(0))))
    row = emit(relax.op.where(negative, outside, bounded))
    table = np.concatenate([matrix, np.zeros((1, matrix.shape[1]), np.float32)])
    return relax.op.reshape(emit(relax.op.take(relax.const(table), row, axis=0)), shape)


_REWRITES = {
    "relax.strided_slice": _slice,
    "relax.permute_dims": _transpose,
    "relax.nn.softmax": _softmax,
    "relax.matmul": _one_hot,
}
