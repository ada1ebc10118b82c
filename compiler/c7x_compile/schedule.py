# SPDX-License-Identifier: Apache-2.0
"""Schedules reductions as plain loops that a C compiler vectorises well.

Two forms. Where an output dimension is contiguous in every operand that varies with it, the
reduction becomes a tile of accumulators: V lanes along that dimension times U rows along one that
reuses operands, kept in a small local array, with the elementwise operators behind it applied as the
tile is stored. Where only the reduction dimension is contiguous, partial results in W lanes. Any other
reduction, and every one in a plain build, only gets its initial value set in a loop of its own.
"""

import re

import tvm
from tvm import tirx
from tvm.s_tir import Schedule
from tvm.tirx.analysis import undefined_vars

_SPATIAL = 0
_REDUCTION = 2
_WORK_MIN = 2048  # iterations below which a reduction is left alone
_LANES_MAX = 32  # floats of one accumulator row
_ROWS_MAX = 8
_TILE_MAX = 256  # floats of one tile
_LANES_ALONE = 128  # accumulator row when no dimension reuses operands
_PARTIAL_MIN = 4
_PARTIAL_MAX = 32
_READS_MAX = 4  # of a cheap element, so that it is better computed each time than kept
# What TVM's text of a block has beside functions of mathematics.
_CHEAP = {"if_then_else", "Cast", "max", "min", "Select", "float32", "float64", "int32", "int64", "bool", "grid"}


def apply(module, notes, plain=False):
    """Schedules every kernel of the module. A reduction that TVM refuses to schedule stays as it is,
    with a note for the user. plain: initial values only."""
    for variable, function in list(module.functions.items()):
        if isinstance(function, tirx.PrimFunc):
            module[variable] = _schedule_function(variable.name_hint, function, notes, plain)
    return module


def _schedule_function(name, function, notes, plain):
    named = function.with_attr("global_symbol", "main")
    sch = Schedule(tvm.IRModule({"main": named}))
    if not _has_blocks(function):
        return function
    if not plain:
        _inline(sch)
    for block_name in [sch.get(b).name_hint for b in _blocks(sch) if _is_reduction(sch.get(b))]:
        trial = sch.copy()
        try:
            _schedule_reduction(trial, trial.get_sblock(block_name), plain)
            sch = trial
        except Exception as error:  # TVM refuses a step: this kernel keeps its plain loops.
            reason = str(error).strip().splitlines()
            notes.append(f"{name}: {block_name} not scheduled: {reason[-1] if reason else error}")
    scheduled = sch.mod["main"]
    if function.attrs is not None and "global_symbol" in function.attrs:
        return scheduled.with_attr("global_symbol", function.attrs["global_symbol"])
    return scheduled.without_attr("global_symbol")


def _has_blocks(function):
    """Whether a kernel is made of blocks; those of scatters are plain loops."""
    block = getattr(function.body, "block", None)
    return block is not None and block.name_hint == "root"


def _blocks(sch):
    return sch.get_child_blocks(sch.get_sblock("root"))


def _inline(sch):
    """Computes elements where they are read instead of keeping them: those that are read about once, and
    those that are only copied from elsewhere."""
    for block in _blocks(sch):
        try:
            if _is_plain_copy(sch.get(block)) or _is_read_once(sch, block):
                sch.compute_inline(block)
        except Exception:  # An output, a block with several writers, or one of unknown shape, stays.
            continue


def _is_read_once(sch, block):
    """Whether one block reads the elements, each about once, or a few times where they cost little. One
    that chooses among its inputs, as a concatenation does, shall have no more to do in its branches."""
    consumers = sch.get_consumers(block)
    if len(consumers) != 1 or _is_reduction(sch.get(block)):
        return False
    consumer = sch.get(consumers[0])
    if "if_then_else" in _functions_of(consumer):
        return False
    reads = _iteration_count(sch, consumers[0]) / _written_count(sch, block)
    is_cheap = _CHEAP.issuperset(_functions_of(sch.get(block)))
    return reads <= (_READS_MAX if is_cheap and not _is_reduction(consumer) else 1)


def _iteration_count(sch, block):
    count = 1
    for loop in sch.get_loops(block):
        count *= _constant_extent(sch, loop) or 1
    return count


def _functions_of(statement):
    """What a block calls beside arithmetic, by TVM's names."""
    return set(re.findall(r"\bT\.(\w+)\(", str(statement.body)))


def _is_plain_copy(statement):
    value = getattr(statement.body, "value", None)
    if type(value).__name__ != "TensorLoad" or len(value.indices) != len(statement.iter_vars):
        return False
    return all(
        getattr(index, "name", None) == iterator.var.name
        for index, iterator in zip(value.indices, statement.iter_vars)
    )


class _Reduction:
    """What the forms need to know of a reduction block."""

    def __init__(self, sch, block):
        self.block = block
        self.loops = sch.get_loops(block)
        self.extents = [_constant_extent(sch, loop) for loop in self.loops]
        statement = sch.get(block)
        self.iters = statement.iter_vars
        self.kinds = [int(i.iter_type) for i in self.iters]
        names = [i.var.name for i in self.iters]
        written = statement.writes[0].source.name
        self.reads = [
            [
                {names.index(v.name) for v in undefined_vars(r.min, []) if v.name in names}
                for r in region.region
            ]
            for region in statement.reads
            if region.source.name != written
        ]
        self.reads = [dims for dims in self.reads if dims]

    @property
    def regular(self):
        return None not in self.extents and len(self.iters) == len(self.loops)

    @property
    def work(self):
        total = 1
        for extent in self.extents:
            total *= extent
        return total

    def axes(self, kind):
        return [k for k, value in enumerate(self.kinds) if value == kind]

    def contiguous(self, axis):
        """Every operand that varies with the axis varies with it in its last dimension only."""
        return all(
            axis in dims[-1] and not any(axis in d for d in dims[:-1])
            for dims in self.reads
            if any(axis in d for d in dims)
        )


def _constant_extent(sch, loop):
    extent = sch.get(loop).extent
    return int(extent) if isinstance(extent, (int, tirx.IntImm)) else None


def _is_reduction(statement):
    return any(int(i.iter_type) == _REDUCTION for i in statement.iter_vars)


def _schedule_reduction(sch, block, plain):
    """Applies the form that fits."""
    reduction = _Reduction(sch, block)
    if not reduction.regular:
        return
    wide = [k for k in reduction.axes(_SPATIAL) if reduction.extents[k] > 1]
    if plain or reduction.work < _WORK_MIN:
        _separate_initial_value(sch, reduction)
    elif wide and reduction.contiguous(wide[-1]):
        _tile(sch, reduction, wide)
    elif not _partial(sch, reduction):
        _separate_initial_value(sch, reduction)


def _separate_initial_value(sch, reduction):
    axes = reduction.axes(_REDUCTION)
    if axes == list(range(axes[0], len(reduction.loops))):
        sch.decompose_reduction(reduction.block, reduction.loops[axes[0]])


def _tile(sch, reduction, wide):
    extents = reduction.extents
    lane_axis = wide[-1]
    row_axis = _reuse_axis(reduction, wide[:-1], lane_axis)
    lanes = _lane_count(extents[lane_axis], _LANES_MAX if row_axis is not None else _LANES_ALONE)
    rows = _row_count(extents[row_axis], lanes) if row_axis is not None else 1

    block = reduction.block
    _fuse_consumers(sch, block)
    store = sch.cache_write(block, 0, "local")
    _inline_into(sch, store)
    loops = sch.get_loops(block)
    lane_outer, lane_inner = sch.split(loops[lane_axis], [None, lanes])
    order = []
    row_inner = None
    for axis in reduction.axes(_SPATIAL):
        if axis == lane_axis:
            order.append(lane_outer)
        elif axis == row_axis and rows > 1:
            row_outer, row_inner = sch.split(loops[axis], [None, rows])
            order.append(row_outer)
        else:
            order.append(loops[axis])
    anchor = order[-1]
    order += [loops[axis] for axis in reduction.axes(_REDUCTION)]
    first_reduction = order[len(reduction.axes(_SPATIAL))]
    order += [row_inner] if row_inner is not None else []
    sch.reorder(*order, lane_inner)
    sch.reverse_compute_at(store, anchor)
    if row_inner is not None:
        sch.unroll(row_inner)
    sch.decompose_reduction(block, first_reduction)


def _reuse_axis(reduction, candidates, lane_axis):
    """The axis along which most operands stay the same, first of all those read by lanes."""
    if not candidates:
        return None

    def reuse(axis):
        unchanged = [dims for dims in reduction.reads if all(axis not in d for d in dims)]
        by_lanes = [dims for dims in unchanged if any(lane_axis in d for d in dims)]
        return (len(by_lanes), len(unchanged), axis)

    return max(candidates, key=reuse)


def _lane_count(extent, limit):
    divisors = [d for d in range(1, extent + 1) if extent % d == 0 and d <= limit]
    for multiple in (16, 8):
        whole = [d for d in divisors if d % multiple == 0]
        if whole and (multiple == 16 or 2 * max(whole) >= max(divisors)):
            return max(whole)
    return max(divisors)


def _row_count(extent, lanes):
    limit = min(_ROWS_MAX, _TILE_MAX // max(lanes, 16))
    return max(d for d in range(1, extent + 1) if extent % d == 0 and d <= limit)


def _fuse_consumers(sch, block):
    """Folds the chain of elementwise consumers into its last one."""
    while True:
        consumers = sch.get_consumers(block)
        if len(consumers) != 1 or not sch.get_consumers(consumers[0]):
            return
        try:
            sch.compute_inline(consumers[0])
        except Exception:  # Not elementwise, or used twice: it stays a loop of its own.
            return


def _inline_into(sch, store):
    """Applies the only consumer of the tile as it is stored, if it is elementwise."""
    consumers = sch.get_consumers(store)
    if len(consumers) != 1 or _written_count(sch, consumers[0]) != _written_count(sch, store):
        # TVM would also take a slice of the stored buffer, and then write past its rows.
        return
    try:
        sch.reverse_compute_inline(consumers[0])
    except Exception:  # Not elementwise: it reads the stored buffer.
        return


def _written_count(sch, block):
    """The number of elements of the buffer that a block writes."""
    count = 1
    for extent in sch.get(block).writes[0].source.shape:
        count *= int(extent)
    return count


def _partial(sch, reduction):
    """Sums in lanes of the last reduction axis, then over the lanes; False when it has no lanes."""
    axis = reduction.axes(_REDUCTION)[-1]
    lanes = _lane_count(reduction.extents[axis], _PARTIAL_MAX)
    if lanes < _PARTIAL_MIN:
        return False
    depth = len(reduction.axes(_SPATIAL))
    _, inner = sch.split(reduction.loops[axis], [None, lanes])
    partial = sch.rfactor(inner, factor_axis=depth)
    if depth:
        sch.compute_at(partial, sch.get_loops(reduction.block)[depth - 1])
        # Its loops are now in the order of its iterators: the lanes, then what is reduced.
        lane_loop, *reduced = sch.get_loops(partial)[depth:]
    else:
        *reduced, lane_loop = sch.get_loops(partial)
    if _constant_extent(sch, lane_loop) != lanes:
        raise ValueError("the lanes are not where they were expected")
    if reduced:
        sch.reorder(*reduced, lane_loop)
        sch.decompose_reduction(partial, reduced[0])
    return True
