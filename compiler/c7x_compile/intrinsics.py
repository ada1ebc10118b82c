# SPDX-License-Identifier: Apache-2.0
"""Lowerings of math intrinsics that TVM's target "c" lacks, by TVM's own registry."""

import functools

from tvm import tirx
from tvm.tirx.op import register_intrin_lowering

_LEVEL = 20  # above TVM's own rules
_ALL_WIDTHS = ("fabs", "exp2", "exp10", "fmod")
_HALF_ONLY = (
    "exp log log2 log10 log1p tan cos cosh sin sinh asin acos atan acosh asinh atanh atan2 tanh "
    "sqrt erf floor ceil round nearbyint trunc pow hypot copysign"
).split()


@functools.cache
def register():
    """Registers the lowerings; harmless when repeated."""
    for name in (*_ALL_WIDTHS, *_HALF_ONLY):
        # ONNX rounds halves to even; C's round does not.
        function = "nearbyint" if name == "round" else name
        register_intrin_lowering(f"tirx.{name}", target="c", f=_libm(function), level=_LEVEL)


def _libm(name):
    def lower(call):
        dtype = str(call.ty.dtype) if hasattr(call.ty, "dtype") else str(call.dtype)
        arguments = list(call.args)
        if dtype == "float64":
            return tirx.call_pure_extern("float64", name, *arguments)
        if dtype == "float32":
            return tirx.call_pure_extern("float32", name + "f", *arguments)
        if dtype == "float16":
            wide = [tirx.Cast("float32", argument) for argument in arguments]
            return tirx.Cast("float16", tirx.call_pure_extern("float32", name + "f", *wide))
        return call

    return lower
