# SPDX-License-Identifier: Apache-2.0
"""The C of a fast kernel: its epilogue and the call of its template."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..kernels import Kernel, function_name

_TEMPLATES = Path(__file__).parents[1] / "data" / "templates"
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
    *("vector.h", "math.h", "gemm.h", "product.h", "deconvolution.h"),
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
    wanted = {"vector.h", "math.h"}.union(*(_NEEDED[name] for name in templates))
    return "\n".join((_TEMPLATES / name).read_text() for name in _ORDER if name in wanted)


def kernel(name, choice, epilogue):
    """The Kernel called name that computes a Choice with an Epilogue behind it. Parameters: data,
    weights if it has any, operands, result."""
    operands = [f"operand_{index}" for index in range(len(epilogue.operands))]
    parameters = [*("data", "weights")[: choice.inputs], *operands, "out"]
    signature = [f"float *C7X_RESTRICT {parameter}" for parameter in parameters]
    if choice.scratch:
        signature.append("uint8_t *C7X_RESTRICT workspace")
    text = _epilogue_function(name, epilogue)
    text += f"static C7X_NOINLINE int32_t {function_name(name)}({', '.join(signature)}) {{\n"
    text += _body(name, choice, epilogue, operands)
    text += "  return 0;\n}\n"
    return Kernel(
        name, tuple(("float", parameter) for parameter in parameters), 4 * choice.scratch, text
    )


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


def _body(name, choice, epilogue, operands):
    scratch = ["(float *)(void *)workspace"] if choice.scratch else []
    if not scratch and choice.template == "convolution.h":
        scratch = ["NULL"]
    function = f"{name}_epilogue" if epilogue.lines else "epilogue_none"
    per_group = choice.groups > 1
    in_offset, out_offset, weights_offset = "", "", ""
    if choice.images > 1:
        in_offset, out_offset = f" + image * {choice.in_size}L", f" + image * {choice.out_size}L"
        weights_offset = f" + image * {choice.weights_size}L" if choice.weights_size else ""
    column_offset = ""
    if per_group:
        in_offset += f" + group * {choice.group_in}L"
        column_offset = f" + group * {choice.group_out}L"
        weights_offset = f" + group * {choice.weights_size}L"
    pointers = [
        operand + (out_offset if each else "") + column_offset
        for operand, each in zip(operands, epilogue.operands)
    ]
    data = [f"data{in_offset}", f"weights{weights_offset}"][: choice.inputs]
    data.append(f"out{out_offset}{column_offset}")
    arguments = [*map(_literal, choice.arguments), *data, *scratch, function, "operands"]
    lines = [
        f"const float *const operands[] = {{{', '.join(pointers) or 'NULL'}}};",
        f"{choice.function}({', '.join(arguments)});",
    ]
    if per_group:
        lines = _loop("group", choice.groups, lines)
    if choice.images > 1:
        lines = _loop("image", choice.images, lines)
    return "".join(f"  {line}\n" for line in lines)


def _loop(name, count, lines):
    head = [f"long {name};", f"for ({name} = 0; {name} < {count}; ++{name}) {{"]
    return [*head, *(f"  {line}" for line in lines), "}"]


def _literal(value):
    return _float_text(value) if isinstance(value, float) else str(value)


def _float_text(value):
    """A C literal with every bit of a float32."""
    text = f"{float(np.float32(value)):.9g}"
    return f"{text}f" if any(mark in text for mark in ".e") else f"{text}.0f"
