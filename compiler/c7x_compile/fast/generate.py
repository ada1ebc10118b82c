# SPDX-License-Identifier: Apache-2.0
"""The C of a fast kernel: its epilogue and the call of its template."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..kernels import Kernel, function_name

_TEMPLATES = Path(__file__).parents[1] / "data" / "templates"
# A kernel that takes less is not shared by threads: to begin and to end together costs about 1 us.
_SHARED_US_MIN = 4
# So many images or groups, and tasks share those and not the work of each; each task has scratch of its
# own, which is there for so many.
_MANY = 4
_TASKS_MAX = 8
_NEEDED = {
    "gemm.h": ("gemm.h",),
    "product.h": ("gemm.h", "product.h"),
    "deconvolution.h": ("gemm.h", "deconvolution.h"),
    "convolution.h": ("gemm.h", "convolution.h"),
    "winograd.h": ("gemm.h", "winograd.h"),
    "depthwise.h": ("depthwise.h",),
    "softmax.h": ("softmax.h",),
    "layernorm.h": ("layernorm.h",),
    "pool.h": ("pool.h",),
}
_ORDER = (
    *("vector.h", "math.h", "share.h", "gemm.h", "product.h", "deconvolution.h"),
    *("convolution.h", "winograd.h", "depthwise.h", "softmax.h", "layernorm.h"),
    "pool.h",
)


@dataclass(frozen=True)
class Epilogue:
    """What is done to each vector of results.

    lines: C statements on `value`; result: the C name of what is stored; numbers: scalars that lines
    name NUMBER(index); operands: per operand whether it has a value for each result (True) or one for
    each column (False).
    """

    lines: tuple = ()
    result: str = "value"
    numbers: tuple = ()
    operands: tuple = ()


def prelude(templates):
    """The text of the templates that kernels of these files need, in order."""
    wanted = {"vector.h", "math.h"}.union(*(("share.h", *_NEEDED[name]) for name in templates))
    return "\n".join((_TEMPLATES / name).read_text() for name in _ORDER if name in wanted)


def kernel(name, choice, epilogue, is_shared=None):
    """The Kernel called name that computes a Choice with an Epilogue behind it. Parameters: data,
    weights if it has any, operands, result. is_shared: whether threads share its work; None: if that
    is likely to pay."""
    if is_shared is None:
        is_shared = choice.expected_us >= _SHARED_US_MIN
    operands = [f"operand_{index}" for index in range(len(epilogue.operands))]
    parameters = [*("data", "weights")[: choice.inputs], *operands, "out"]
    write = _shared if is_shared else _alone
    slots = min(_count(choice), _TASKS_MAX) if is_shared and _count(choice) >= _MANY else 1
    return Kernel(
        name,
        tuple(("float", parameter) for parameter in parameters),
        4 * choice.scratch * slots,
        _epilogue_function(name, epilogue) + write(name, choice, epilogue, parameters, operands),
    )


def _count(choice):
    return choice.images * choice.groups


def _signature(parameters, scratch):
    texts = [f"float *C7X_RESTRICT {parameter}" for parameter in parameters]
    return ", ".join([*texts, "uint8_t *C7X_RESTRICT workspace"] if scratch else texts)


def _alone(name, choice, epilogue, parameters, operands):
    """One function that computes all."""
    signature = _signature(parameters, choice.scratch)
    lines = _loop("step", choice.steps, _call(name, choice, epilogue, operands, "{0, step, 0, 1}"))
    lines = _loop("image", choice.images, _loop("group", choice.groups, lines))
    return _function(
        f"static C7X_NOINLINE int32_t {function_name(name)}({signature})", [*lines, "return 0;"]
    )


def _shared(name, choice, epilogue, parameters, operands):
    """A function that launches tasks, a task, and the function that computes its share."""
    function, scratch = function_name(name), choice.scratch
    is_many = _count(choice) >= _MANY
    compute, steps = (_many_share, 1) if is_many else (_share, _count(choice) * choice.steps)
    unpacked = [f"call->tensors[{index}]" for index in range(len(parameters))]
    unpacked += ["call->workspace"] if scratch else []
    return "".join(
        [
            _function(
                f"static C7X_NOINLINE void {function}_share({_signature(parameters, scratch)}, "
                "int at, int task, int tasks)",
                compute(name, choice, epilogue, operands),
            ),
            _function(
                f"static int {function}_task(int task, TVMParallelGroupEnv *env, void *data)",
                [
                    "const struct fast_call *call = (const struct fast_call *)data;",
                    f"{function}_share({', '.join(unpacked)}, call->step, task, env->num_task);",
                    "return 0;",
                ],
            ),
            _function(
                f"static C7X_NOINLINE int32_t {function}({_signature(parameters, scratch)})",
                [
                    f"float *const tensors[] = {{{', '.join(parameters)}}};",
                    f"return fast_launch({function}_task, tensors, "
                    f"{'workspace' if scratch else 'NULL'}, {steps});",
                ],
            ),
        ]
    )


def _share(name, choice, epilogue, operands):
    """Of one step of one image and group, in order `at`, the share of a task."""
    lines = []
    if choice.steps > 1:
        lines.append(f"const int step = at % {choice.steps};")
    if choice.groups > 1:
        lines.append(f"const int group = at / {choice.steps} % {choice.groups};")
    if choice.images > 1:
        lines.append(f"const int image = at / {choice.steps * choice.groups};")
    if len(lines) == 0:
        lines.append("(void)at;")
    step = "step" if choice.steps > 1 else "0"
    return [*lines, *_call(name, choice, epilogue, operands, f"{{1, {step}, task, tasks}}")]


def _many_share(name, choice, epilogue, operands):
    """Of all images and groups those of a task, each with all of its steps, in scratch of the task's.
    Where there are more tasks than that is for, some have nothing to do."""
    count = _count(choice)
    slots = min(count, _TASKS_MAX)
    calls = _loop("step", choice.steps, _call(name, choice, epilogue, operands, "{0, step, 0, 1}"))
    lines = [f"const struct fast_share share = {{1, at, task, fast_smaller(tasks, {slots})}};"]
    lines += ["if (task >= share.tasks) {", "  return;", "}"]
    if choice.scratch:
        lines.append(f"workspace += task * {4 * choice.scratch}L;")
    return [
        *lines,
        "int each;",
        f"for (each = share_from({count}, share); each < share_to({count}, share); ++each) {{",
        *([f"  const int image = each / {choice.groups};"] if choice.images > 1 else []),
        *([f"  const int group = each % {choice.groups};"] if choice.groups > 1 else []),
        *(f"  {line}" for line in calls),
        "}",
    ]


def _epilogue_function(name, epilogue):
    if not epilogue.lines:
        return ""
    lines = "\n".join(f"  {line}" for line in epilogue.lines)
    lines = lines.replace("NUMBER(", f"{name.upper()}_NUMBER(")
    numbers = ""
    if epilogue.numbers:
        values = ", ".join(_float_text(number) for number in epilogue.numbers)
        numbers = f"static float {name}_numbers[] FAST_IN_MEMORY = {{{values}}};\n"
        numbers += f"#define {name.upper()}_NUMBER(index) vec_splat({name}_numbers[index])\n"
    return (
        f"{numbers}FAST_INLINE vec {name}_epilogue(vec value, long row, int column, "
        "const float *const *operands) {\n"
        f"{lines}\n  (void)row;\n  (void)column;\n  (void)operands;\n"
        f"  return {epilogue.result};\n}}\n"
    )


def _call(name, choice, epilogue, operands, share):
    """The call of the template, where `image` and `group` say which, if there are several."""
    scratch = ["(float *)(void *)workspace"] if choice.scratch else []
    if not scratch and choice.template == "convolution.h":
        scratch = ["NULL"]
    function = f"{name}_epilogue" if epilogue.lines else "epilogue_none"
    in_offset, out_offset, column_offset, weights_offset = "", "", "", ""
    if choice.images > 1:
        in_offset, out_offset = f" + image * {choice.in_size}L", f" + image * {choice.out_size}L"
        weights_offset = f" + image * {choice.weights_size}L" if choice.weights_size else ""
    if choice.groups > 1:
        in_offset += f" + group * {choice.group_in}L"
        column_offset = f" + group * {choice.group_out}L"
        weights_offset = f" + group * {choice.weights_size}L"
    pointers = [
        operand + (out_offset if each else "") + column_offset
        for operand, each in zip(operands, epilogue.operands)
    ]
    data = [f"data{in_offset}", f"weights{weights_offset}"][: choice.inputs]
    data.append(f"out{out_offset}{column_offset}")
    arguments = [*map(_literal, choice.arguments), *data, *scratch, function, "operands", "part"]
    return [
        f"const float *const operands[] = {{{', '.join(pointers) or 'NULL'}}};",
        f"const struct fast_share part = {share if choice.steps > 1 else share.replace('step', '0')};",
        f"{choice.function}({', '.join(arguments)});",
    ]


def _loop(name, count, lines):
    if count == 1:
        return lines
    head = [f"int {name};", f"for ({name} = 0; {name} < {count}; ++{name}) {{"]
    return [*head, *(f"  {line}" for line in lines), "}"]


def _function(head, lines):
    return "".join([f"{head} {{\n", *(f"  {line}\n" for line in lines), "}\n"])


def _literal(value):
    return _float_text(value) if isinstance(value, float) else str(value)


def _float_text(value):
    """A C literal with every bit of a float32."""
    text = f"{float(np.float32(value)):.9g}"
    return f"{text}f" if any(mark in text for mark in ".e") else f"{text}.0f"
