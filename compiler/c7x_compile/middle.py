# SPDX-License-Identifier: Apache-2.0
"""Lowers the Relax module to kernels and a VM executable.

Stock TVM passes only; the schedule is in schedule.py, the C around it in emit.py.
"""

import contextlib
import os
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import tvm
from tvm import relax

from . import intrinsics, schedule, vmfile
from .errors import CompileError
from .fast import regions
from .importer import node_index
from .simplify import simplify

_PASS_CONFIG = {
    # Vector types are not valid C; gcc vectorises the plain loops.
    "tirx.disable_vectorize": True,
    # The firmware checks the inputs against the manifest before the call.
    "tirx.disable_assert": True,
}
_BINARY = {
    f"relax.{name}"
    for name in ("add", "subtract", "multiply", "divide", "maximum", "minimum", "power")
}
_NHWC = {"relax.nn.conv2d": ["NHWC", "HWIO"]}
_TRANSPOSED = "relax.nn.conv2d_transpose"


@dataclass(frozen=True)
class Lowered:
    """kernel_source: C text of all kernels as TVM prints it; nodes: per kernel call of main, in
    order, (kernel name, indices of the ONNX nodes it computes); notes: lines for the user; fast: the
    kernels that TVM does not print."""

    kernel_source: str
    executable: vmfile.Executable
    nodes: list
    notes: list
    fast: regions.Plan


def lower(module, plain=False):
    """Compiles a Relax module as import_onnx returns it. plain: TVM's loops, with neither our schedule
    nor the fast kernels.

    Raises CompileError when a pass of TVM fails.
    """
    try:
        return _lower(module, plain)
    except CompileError:
        raise
    except Exception as error:
        lines = str(error).strip().splitlines()
        raise CompileError(
            f"TVM cannot lower the model: {lines[-1] if lines else error!r}"
        ) from error


def _lower(module, plain):
    intrinsics.register()
    notes = []
    target = tvm.target.Target("c")
    with _quiet(), target, tvm.transform.PassContext(opt_level=3, config=_PASS_CONFIG):
        module = _run(
            module, relax.transform.DecomposeOpsForInference(), relax.transform.FoldConstant()
        )
        fast = regions.Plan()
        if not plain:
            module, fast = regions.fuse(simplify(_channels_last(module, notes)))
        module = _ExactConstants(module).run()
        module = _run(
            module,
            relax.transform.LegalizeOps(),
            relax.transform.AnnotateTIROpPattern(),
            relax.transform.FoldConstant(),
        )
        fused = relax.transform.FuseOps()(module)
        nodes = _nodes_of_calls(module, fused, fast.calls)
        module = relax.transform.FuseTIR()(fused)
        module = schedule.apply(module, notes, plain)
        built = relax.build(module, target=target, exec_mode="bytecode")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.ro"
        built.mod.write_to_file(str(path), "ro")
        executable = vmfile.parse(path.read_bytes())
    source = "".join(imported.inspect_source() for imported in built.mod.imports)
    return Lowered(source, executable, nodes, notes, fast)


@contextlib.contextmanager
def _quiet():
    """Keeps the log of TVM's C++ side, which knows no names of the model, off stderr."""
    sys.stderr.flush()
    saved = os.dup(2)
    try:
        with open(os.devnull, "wb") as sink:
            os.dup2(sink.fileno(), 2)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(saved, 2)
        os.close(saved)


def _run(module, *passes):
    return tvm.transform.Sequential(list(passes))(module)


def _channels_last(module, notes):
    """NHWC around convolutions, where the channel loop is contiguous: for the whole network, or for each
    convolution when the pass gives up. TVM has transposed convolutions in NCHW alone, the fast path those
    of one form in NHWC."""
    calls = _operator_calls(module["main"])
    if not any(call.op.name in (*_NHWC, _TRANSPOSED) for call in calls):
        return module
    fast = all(regions.is_side_by_side(call) for call in calls if call.op.name == _TRANSPOSED)
    layouts = {**_NHWC, _TRANSPOSED: ["NHWC" if fast else "NCHW", "IOHW"]}
    try:
        return _run(module, relax.transform.ConvertLayout(layouts), relax.transform.FoldConstant())
    except Exception:  # It gives up on some operators, with errors of many types.
        notes.append("layout: each convolution is turned on its own")
        return relax.transform.FoldConstant()(_EachChannelsLast(module).run())


class _ModuleMutator(relax.expr_functor.PyExprMutator):
    """Rewrites all Relax functions of a module."""

    def run(self):
        """The rewritten module."""
        module = self.builder_.get()
        for variable, function in list(module.functions.items()):
            if isinstance(function, relax.Function):
                self.builder_.update_func(variable, self.visit_expr(function))
        return relax.transform.Normalize()(self.builder_.get())


@relax.expr_functor.mutator
class _ExactConstants(_ModuleMutator):
    """Makes scalars that TVM would print with too few digits into tensors, which keep every bit.

    Its C has seven digits; over a deep network that costs a digit of the result.
    """

    def visit_call_(self, call):
        call = super().visit_call_(call)
        if getattr(call.op, "name", "") not in _BINARY:
            return call
        ranks = [getattr(argument.ty, "ndim", 0) for argument in call.args]
        arguments = [_exact(argument, max(ranks)) for argument in call.args]
        return relax.Call(call.op, arguments, call.attrs)


def _exact(argument, rank):
    if not isinstance(argument, tvm.ir.GenericConst) or argument.ty.ndim != 0 or rank == 0:
        return argument
    value = argument.value.numpy()
    if value.dtype.kind != "f" or value == value.dtype.type(f"{float(value):e}"):
        return argument
    return relax.const(value.reshape([1] * rank), str(value.dtype))


@relax.expr_functor.mutator
class _EachChannelsLast(_ModuleMutator):
    """Puts every NCHW convolution between transposes to and from NHWC."""

    def visit_call_(self, call):
        call = super().visit_call_(call)
        name = getattr(call.op, "name", "")
        transposed = name == _TRANSPOSED and regions.is_side_by_side(call)
        if not (transposed or name in _NHWC) or call.attrs.data_layout != "NCHW":
            return call
        attrs, weight = call.attrs, call.args[1]
        data = self.builder_.emit(relax.op.permute_dims(call.args[0], [0, 2, 3, 1]))
        if transposed:
            result = relax.op.nn.conv2d_transpose(
                data, weight, strides=attrs.strides, data_layout="NHWC", kernel_layout="IOHW"
            )
        else:
            result = relax.op.nn.conv2d(
                data,
                self.builder_.emit(relax.op.permute_dims(weight, [2, 3, 1, 0])),
                strides=attrs.strides,
                padding=attrs.padding,
                dilation=attrs.dilation,
                groups=attrs.groups,
                data_layout="NHWC",
                kernel_layout="HWIO",
            )
        return relax.op.permute_dims(self.builder_.emit(result), [0, 3, 1, 2])


def _operator_calls(function):
    calls = []

    def visit(expr):
        if isinstance(expr, relax.Call) and isinstance(expr.op, tvm.ir.Op):
            calls.append(expr)

    relax.analysis.post_order_visit(function, visit)
    return calls


@dataclass(frozen=True)
class _Step:
    """One binding of a Relax function that calls a kernel or a fused function; callee: of type
    GlobalVar, or the name of a fast kernel."""

    variable: relax.Var
    callee: object
    arguments: list
    is_kernel: bool

    def key(self, environment):
        """Equal for equal computations: the kernel and its arguments, renamed by environment."""
        arguments = tuple(environment.get(a, a) for a in self.arguments)
        return self.name, arguments

    @property
    def name(self):
        return self.callee if isinstance(self.callee, str) else self.callee.name_hint


def _steps(function):
    call_tir, packed_call = map(tvm.ir.Op.get, ("relax.call_tir", "relax.call_dps_packed"))
    for block in function.body.blocks:
        for binding in block.bindings:
            call = getattr(binding, "value", None)
            if not isinstance(call, relax.Call):
                continue
            if call.op in (call_tir, packed_call):
                callee, packed = call.args[0], call.args[1]
                callee = callee if call.op == call_tir else str(callee.global_symbol)
                arguments = list(packed) if isinstance(packed, relax.Tuple) else [packed]
                yield _Step(binding.var, callee, arguments, True)
            elif isinstance(call.op, tvm.ir.GlobalVar):
                yield _Step(binding.var, call.op, list(call.args), False)


def _nodes_of_calls(module, fused, fast_calls):
    """Which ONNX nodes each kernel call computes: list of (kernel name, sorted node indices). Those of
    fast kernels are known: fast_calls as in regions.Plan.

    Fusion keeps no names, so the fused functions are expanded again and their operators found in the
    unfused main by value numbering: same kernel on the same arguments.
    """
    values = _numbered_values(module["main"])
    environment, nodes = {}, []
    known = defaultdict(list)
    for name, indices, _ in fast_calls:
        known[name].append(indices)
    for step in _steps(fused["main"]):
        if step.is_kernel:
            inner, inner_steps = environment, [step]
        else:
            callee = fused[step.callee]
            inner = {p: environment.get(a, a) for p, a in zip(callee.params, step.arguments)}
            inner_steps = list(_steps(callee))
        indices = set()
        for inner_step in inner_steps:
            candidates = values[inner_step.key(inner)]
            value, index = candidates.pop(0) if candidates else (inner_step.variable, None)
            inner[inner_step.variable] = value
            indices.add(index)
        environment[step.variable] = inner[inner_steps[-1].variable]
        if known[step.name]:
            indices = set(known[step.name].pop(0))
        nodes.append((step.name, sorted(indices - {None})))
    return nodes


def _numbered_values(function):
    """Step key -> list of (variable, ONNX node index). A value without a node of its own is an inner
    step of the next node."""
    values = defaultdict(list)
    pending = []
    for step in _steps(function):
        pending.append(step)
        index = node_index(step.variable.name)
        if index is not None:
            for each in pending:
                values[each.key({})].append((each.variable, index))
            pending.clear()
    for each in pending:
        values[each.key({})].append((each.variable, None))
    return values
