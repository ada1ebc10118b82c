# SPDX-License-Identifier: Apache-2.0
"""Compares each kernel that modules import with a reference in numpy, over random shapes and the edges of int8.

Integers must be equal. Where the kernel calls a function of libm, one step of the output is allowed, but only if the
exact value lies within 1e-3 of a tie. Ends with `N passed, N failed`.
"""
import argparse
import ctypes
import shutil
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

import numpy as np

from reference import (QUANTIZATIONS, conv2d, dq, erfc, pool_windows, q, requantize, round_away, sigmoid, silu)

ROOT = Path(__file__).resolve().parent.parent.parent
GUARD = 64  # bytes on both sides of every output
F32 = np.float32

# One letter an argument: p pointer, i int32, f float.
SIGNATURES = {
    **dict.fromkeys(["c7x_int8_gelu", "c7x_int8_silu", "c7x_int8_hardsigmoid", "c7x_int8_hardswish",
                     "c7x_int8_rescale"], "ppiifif"),
    "c7x_int8_silu_f32out": "ppiif",
    "c7x_int8_relu": "ppii",
    "c7x_int8_clamp": "ppiii",
    "c7x_int8_requantize_clamp": "ppifii",
    "c7x_int8_residual_add_relu": "ppppii",
    "c7x_int16_residual_add_relu": "ppppii",
    "c7x_int8_quantize": "ppifi",
    "c7x_int8_quantize_rgb": "ppiiffffff",
    "c7x_int8_channel_scale_multiply": "pppiifififi",
    "c7x_int8_global_avg_pool": "ppiiiiifif",
    "c7x_int8_avg_pool": "pp" + "i" * 12 + "ifif",
    "c7x_int8_max_pool": "pp" + "i" * 12,
    "c7x_int8_max_pool_tidl": "pp" + "i" * 12,
    "c7x_int8_concat_rescale": "pifi" * 4 + "pifi",
    "c7x_int8_concat_sigmoid": "pifi" * 4 + "pi",
    "c7x_int8_resize2d_nearest2x": "ppiii",
    "c7x_int8_fpn_upsample_concat": "piiiifpiifpfi",
    "c7x_int8_fpn_upsample_concat_ex": "piiiifpiifpfip",
    "c7x_int8_layer_norm": "ppppiififif",
    "c7x_int8_dfl_softmax": "ppiiiiifif",
    "c7x_dequantize_vecmatmul": "ppppiii",
    "c7x_sdpa_decode": "pppppiiii",
    "c7x_topk": "pppiii",
    "mmalib_matmul_i8": "pppiiii",
    "mmalib_matmul_i16": "pppiiii",
    "mmalib_matmul_bias_i8": "ppppppiii",
    "mmalib_matmul_bias_i16": "ppppppiii",
    "mmalib_conv2d_i8": "pppppp" + "i" * 12,
    "mmalib_conv2d_i16": "pppppp" + "i" * 12,
    "mmalib_conv2d_i8_sliced": "pppppp" + "i" * 13,
    "mmalib_conv2d_i8_grouped_loop": "pppppp" + "i" * 13,
    "mmalib_depthwise_conv2d_i8": "pppppp" + "i" * 12,
    "mmalib_depthwise_conv2d_i16": "pppppp" + "i" * 12,
}
CTYPES = {"p": ctypes.c_void_p, "i": ctypes.c_int32, "f": ctypes.c_float}


class Kernels:
    """The kernels as functions of numpy arrays; arrays that a call changes are the outputs."""

    def __init__(self, path):
        self.library = ctypes.CDLL(str(path))
        self.called = set()

    def __call__(self, name, *arguments):
        function = getattr(self.library, name)
        function.restype = ctypes.c_int32
        function.argtypes = [CTYPES[letter] for letter in SIGNATURES[name]]
        self.called.add(name)
        return function(*[value.ctypes.data if isinstance(value, np.ndarray) else value for value in arguments])


KERNELS = None


def output(shape, dtype):
    """An output of that shape between guard bytes, 64-byte aligned, and the check of the guards."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    block = np.full(size + 2 * GUARD + 64, 0xA5, np.uint8)
    start = GUARD + -(block.ctypes.data + GUARD) % 64
    array = block[start:start + size].view(dtype).reshape(shape)

    def guards_stand():
        assert (block[:start] == 0xA5).all() and (block[start + size:] == 0xA5).all(), "written outside"
    return array, guards_stand


def aligned(array):
    """A copy whose data is 64-byte aligned, as MMALIB wants activations."""
    copy, _ = output(array.shape, array.dtype)
    copy[...] = array
    return copy


def run(name, *arguments, shape, dtype=np.int8):
    """Calls a kernel whose arguments hold one `...` for the output, which it returns."""
    out, guards_stand = output(shape, dtype)
    code = KERNELS(name, *[out if value is ... else value for value in arguments])
    assert code == 0, f"{name} returned {code}"
    guards_stand()
    return out


def same(got, expected, what=""):
    assert got.shape == expected.shape, f"{what}: shape {got.shape}, not {expected.shape}"
    wrong = np.argwhere(got != expected)
    assert len(wrong) == 0, (f"{what}: {len(wrong)} of {got.size} differ, first at {wrong[0]}: "
                             f"{got[tuple(wrong[0])]}, not {expected[tuple(wrong[0])]}")


def same_but_ties(got, exact, what=""):
    """exact: the output before rounding (zero point added), float64."""
    expected = np.clip(round_away(exact), -128, 127)
    near_tie = np.abs(np.abs(exact - np.trunc(exact)) - 0.5) < 1e-3
    wrong = np.where(near_tie, np.abs(got - expected) > 1, got != expected)
    assert not wrong.any(), (f"{what}: {wrong.sum()} of {got.size} differ, first {got[wrong].flat[0]}, "
                             f"not {exact[wrong].flat[0]} rounded")


def random_i8(rng, *shape):
    return rng.integers(-128, 128, shape).astype(np.int8)


def random_quantization(rng):
    return QUANTIZATIONS[rng.integers(len(QUANTIZATIONS))]


EVERY_I8 = np.arange(-128, 128).astype(np.int8)

# ---- Element by element ----


def unary(name, f, exact=False):
    """f on all 256 values, for every pair of quantisations; exact: f is float32 arithmetic alone."""
    for in_s, in_z in QUANTIZATIONS:
        for out_s, out_z in QUANTIZATIONS:
            got = run(name, EVERY_I8, ..., 256, in_z, in_s, out_z, out_s, shape=256)
            what = f"in {in_s} {in_z}, out {out_s} {out_z}"
            x = dq(EVERY_I8, in_s, in_z)
            with np.errstate(all="ignore"):
                y = f(x if exact else x.astype(np.float64))
                exact_value = np.clip(np.nan_to_num(y / np.float64(F32(out_s))), -1e9, 1e9) + out_z
            if exact:
                same(got, q(y, out_s, out_z), what)
            else:
                same_but_ties(got, exact_value, what)


def hardsigmoid(x):
    return np.clip(x / F32(6) + F32(0.5), F32(0), F32(1))


def test_rescale(_):
    unary("c7x_int8_rescale", lambda x: x, exact=True)


def test_hardsigmoid(_):
    unary("c7x_int8_hardsigmoid", hardsigmoid, exact=True)


def test_hardswish(_):
    unary("c7x_int8_hardswish", lambda x: x * hardsigmoid(x), exact=True)


def test_silu(_):
    unary("c7x_int8_silu", silu)


def test_gelu(_):
    unary("c7x_int8_gelu", lambda x: 0.5 * x * erfc(-x / np.sqrt(2)))


def test_lengths(rng):
    for n in (0, 1, 15, 16, 17, 1000):
        x = random_i8(rng, n)
        same(run("c7x_int8_rescale", x, ..., n, 3, 0.1, -3, 0.07, shape=n), q(dq(x, 0.1, 3), 0.07, -3))
        same(run("c7x_int8_clamp", x, ..., n, -5, 90, shape=n), np.clip(x, -5, 90))


def test_in_place(rng):
    x = random_i8(rng, 100)
    y = x.copy()
    assert KERNELS("c7x_int8_rescale", y, y, 100, 3, 0.1, -3, 0.07) == 0
    same(y, q(dq(x, 0.1, 3), 0.07, -3))


def test_silu_f32out(_):
    for scale, zero in QUANTIZATIONS:
        got = run("c7x_int8_silu_f32out", EVERY_I8, ..., 256, zero, scale, shape=256, dtype=F32)
        np.testing.assert_allclose(got, silu(dq(EVERY_I8, scale, zero).astype(np.float64)), rtol=1e-6, atol=1e-36)


def test_relu_and_clamp(_):
    limits = (-2**31, -129, -128, -1, 0, 5, 127, 128, 2**31 - 1)
    for low in limits:
        expected = np.clip(np.maximum(EVERY_I8.astype(np.int64), low), -128, 127)
        same(run("c7x_int8_relu", EVERY_I8, ..., 256, low, shape=256), expected, f"relu {low}")
        for high in [high for high in limits if high >= low]:
            expected = np.clip(np.clip(EVERY_I8.astype(np.int64), low, high), -128, 127)
            same(run("c7x_int8_clamp", EVERY_I8, ..., 256, low, high, shape=256), expected, f"{low} {high}")


def test_requantize_clamp(_):
    for scale in (1e-30, 1 / 256, 0.1, 0.5, 1.0, 1.5, 2.5, 3e38):
        for low, high in ((-128, 127), (0, 6), (-1000, 1000), (127, 127), (-500, -400), (400, 500)):
            with np.errstate(over="ignore"):
                value = round_away(EVERY_I8.astype(F32) * F32(scale))
            got = run("c7x_int8_requantize_clamp", EVERY_I8, ..., 256, scale, low, high, shape=256)
            same(got, np.clip(np.clip(value, low, high), -128, 127), f"scale {scale}, {low} {high}")


def residual(rng, dtype, name):
    limits = np.iinfo(dtype)
    for case in range(60):
        n = int(rng.integers(0, 70))
        x, skip = (rng.integers(limits.min, limits.max + 1, n).astype(dtype) for _ in range(2))
        scale = (2**31 - 1, 40000, 300)[case % 3]
        factors = rng.integers(-scale - (case % 3 == 0), scale, 2)
        shift = int(rng.integers(0, 63 if case % 2 else 16))
        zeros = rng.choice([-128, -1, 0, 5, 127], 3)
        params = np.zeros(17, np.uint8)
        params[1:13] = np.array([*factors, shift], np.int32).view(np.uint8)
        params[13:16] = zeros.astype(np.int8).view(np.uint8)
        total = [((int(a) - int(zeros[0])) * int(factors[0]) + (int(b) - int(zeros[1])) * int(factors[1])) >> shift
                 for a, b in zip(x, skip)]
        for relu in (0, 1):
            expected = [max(limits.min, min(limits.max, (max(t, 0) if relu else t) + int(zeros[2]))) for t in total]
            got = run(name, x, skip, params[1:], ..., n, relu, shape=n, dtype=dtype)
            same(got, np.array(expected, dtype), f"case {case}, relu {relu}")


def test_residual_i8(rng):
    residual(rng, np.int8, "c7x_int8_residual_add_relu")


def test_residual_i16(rng):
    residual(rng, np.int16, "c7x_int16_residual_add_relu")


def floats_at_the_edges(rng, n):
    ties = np.arange(-130, 131) + 0.5
    specials = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, 3e38, -3e38, np.nextafter(F32(0.5), F32(0))]
    return np.concatenate([ties, np.nextafter(ties.astype(F32), F32(0)), specials,
                           rng.normal(0, 60, n)]).astype(F32)


def test_quantize(rng):
    x = floats_at_the_edges(rng, 1000)
    for inverse in (1.0, 1e-30, 0.25, 12.7, 3e38):
        for zero in (-128, -1, 0, 127):
            with np.errstate(all="ignore"):
                expected = np.clip(round_away(x * F32(inverse)) + zero, -128, 127)
            same(run("c7x_int8_quantize", x, ..., len(x), inverse, zero, shape=len(x)), expected, f"{inverse} {zero}")


def test_quantize_rgb(rng):
    for batch, area in ((1, 1), (2, 37), (1, 0), (0, 5), (3, 600)):
        x = rng.choice(floats_at_the_edges(rng, 200), (batch, 3, area)).astype(F32)
        factors, offsets = (1.0, -0.5, 17.3), (0.0, -12.5, 127.25)
        with np.errstate(all="ignore"):
            value = x * np.array(factors, F32)[:, None] + np.array(offsets, F32)[:, None]
        pairs = [value for pair in zip(factors, offsets) for value in pair]
        got = run("c7x_int8_quantize_rgb", x, ..., batch, area, *pairs, shape=x.shape)
        same(got, np.clip(round_away(value), -128, 127))


def test_channel_scale_multiply(rng):
    for case in range(150):
        channels, area = (int(v) for v in rng.integers(0, 20, 2))
        (es, ez), (fs, fz), (os, oz) = (random_quantization(rng) for _ in range(3))
        e, f = random_i8(rng, channels), random_i8(rng, channels, area)
        with np.errstate(all="ignore"):
            expected = q(dq(e, es, ez)[:, None] * dq(f, fs, fz), os, oz)
        got = run("c7x_int8_channel_scale_multiply", e, f, ..., channels, area, es, ez, fs, fz, os, oz,
                  shape=f.shape)
        same(got, expected, f"case {case}")


# ---- Pooling ----


def test_global_avg_pool(rng):
    for case in range(100):
        n, c, h, w = (int(v) for v in rng.integers([0, 0, 1, 1], [3, 5, 9, 70]))
        (s, z), (os, oz) = random_quantization(rng), random_quantization(rng)
        x = random_i8(rng, n, c, h, w)
        total = (x.astype(np.int64) - z).sum((2, 3)).astype(F32)
        with np.errstate(all="ignore"):
            expected = q(total / F32(h * w) * F32(s), os, oz)
        got = run("c7x_int8_global_avg_pool", x, ..., n, c, h, w, z, s, oz, os, shape=(n, c))
        same(got, expected, f"case {case}")


def random_pool(rng):
    n, c, h, w = (int(v) for v in rng.integers(1, [3, 4, 12, 20]))
    kh, kw, sh, sw = (int(v) for v in rng.integers(1, [6, 6, 4, 4]))
    ph, pw = int(rng.integers(0, kh)), int(rng.integers(0, kw))
    # Beyond what a framework would ask for: windows that lie in the padding alone.
    oh, ow = (max(0, (size + 2 * pad - kernel) // stride + 1) + int(rng.integers(0, 2))
              for size, pad, kernel, stride in ((h, ph, kh, sh), (w, pw, kw, sw)))
    return random_i8(rng, n, c, h, w), (n, c, oh, ow), (n, c, h, w, oh, ow, kh, kw, sh, sw, ph, pw)


def test_max_pool(rng):
    for case in range(150):
        x, shape, sizes = random_pool(rng)
        expected = pool_windows(x, sizes, -128).max((-2, -1))
        for name in ("c7x_int8_max_pool", "c7x_int8_max_pool_tidl"):
            same(run(name, x, ..., *sizes, shape=shape), expected, f"case {case}: {sizes}")


def test_avg_pool(rng):
    for case in range(150):
        x, shape, sizes = random_pool(rng)
        (s, z), (os, oz) = random_quantization(rng), random_quantization(rng)
        windows = pool_windows(x, sizes, z).astype(np.int64) - z
        with np.errstate(all="ignore"):
            expected = q(windows.sum((-2, -1)).astype(F32) / F32(sizes[6] * sizes[7]) * F32(s), os, oz)
        got = run("c7x_int8_avg_pool", x, ..., *sizes, z, s, oz, os, shape=shape)
        same(got, expected, f"case {case}: {sizes}")


# ---- Concatenation and resizing ----


def random_slots(rng, shape_of):
    """Four inputs, some of them empty: (array, size, scale, zero)."""
    slots = []
    for _ in range(4):
        size = int(rng.choice([0, 1, 3, 17]))
        slots.append((random_i8(rng, *shape_of(size)), size, *random_quantization(rng)))
    return slots


def slot_arguments(slots):
    """An empty one gets a null pointer and no quantisation."""
    return [value for x, size, s, z in slots for value in ((x, size, s, z) if size else (None, 0, 0.0, 999))]


def test_concat_rescale(rng):
    for case in range(100):
        area, (os, oz) = int(rng.integers(0, 40)), random_quantization(rng)
        slots = random_slots(rng, lambda size: (size, area))
        with np.errstate(all="ignore"):
            expected = np.concatenate([q(dq(x, s, z), os, oz) for x, _, s, z in slots])
        got = run("c7x_int8_concat_rescale", *slot_arguments(slots), ..., area, os, oz, shape=expected.shape)
        same(got, expected, f"case {case}")


def test_concat_sigmoid(rng):
    for _ in range(100):
        channels = int(rng.integers(0, 12))
        slots = random_slots(rng, lambda size: (channels, size))
        expected = np.concatenate([sigmoid(dq(x, s, z).astype(np.float64)) for x, _, s, z in slots], 1)
        got = run("c7x_int8_concat_sigmoid", *slot_arguments(slots), ..., channels, shape=expected.shape, dtype=F32)
        np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-36)


def test_resize2d(rng):
    for shape in ((1, 1, 1), (3, 5, 7), (2, 0, 4), (0, 2, 2), (4, 16, 33)):
        x = random_i8(rng, *shape)
        expected = x.repeat(2, 1).repeat(2, 2)
        same(run("c7x_int8_resize2d_nearest2x", x, ..., *shape, shape=expected.shape), expected)


def test_fpn_upsample_concat(rng):
    for case in range(100):
        c1, c2, h, w = (int(v) for v in rng.integers(0, [6, 6, 7, 9]))
        (s1, z1), (s2, z2), (os, oz) = (random_quantization(rng) for _ in range(3))
        x1, x2 = random_i8(rng, c1, h, w), random_i8(rng, c2, 2 * h, 2 * w)
        with np.errstate(all="ignore"):
            value = silu(dq(x1, s1, z1).astype(np.float64))
            low = np.clip(np.nan_to_num(value / np.float64(F32(os))), -1e9, 1e9) + oz
            skip = q(dq(x2, s2, z2), os, oz)
        inputs = ((x1 if c1 else None), c1, h, w, z1, s1, (x2 if c2 else None), c2, z2, s2)
        shape = (c1 + c2, 2 * h, 2 * w)
        got = run("c7x_int8_fpn_upsample_concat", *inputs, ..., os, oz, shape=shape)
        same_but_ties(got[:c1], low.repeat(2, 1).repeat(2, 2), f"case {case}")
        same(got[c1:], skip, f"case {case}")
        exact, guards_stand = output((c1, h, w), F32)
        same(run("c7x_int8_fpn_upsample_concat_ex", *inputs, ..., os, oz, exact, shape=shape), got)
        guards_stand()
        np.testing.assert_allclose(exact, value, rtol=1e-6, atol=1e-36)


# ---- Normalisation ----


def test_layer_norm(rng):
    for case in range(150):
        outer, norm = (int(v) for v in rng.integers([0, 1], [6, 200]))
        (s, z), (os, oz) = random_quantization(rng), random_quantization(rng)
        epsilon = float(rng.choice([0.0, 1e-5, 1e-12, 1.0]))
        x = random_i8(rng, outer, norm) if case % 3 else np.full((outer, norm), case - 64, np.int8)
        w, b = (rng.normal(0, 1, norm).astype(F32) for _ in range(2))
        real = (x.astype(np.float64) - z) * np.float64(F32(s))
        centred = real - real.mean(1, keepdims=True) if case % 3 else np.zeros_like(real)
        spread = np.sqrt((centred ** 2).mean(1, keepdims=True) + np.float64(F32(epsilon)))
        y = np.divide(centred, spread, out=np.zeros_like(centred), where=spread > 0) * w + b
        got = run("c7x_int8_layer_norm", x, w, b, ..., outer, norm, epsilon, z, s, oz, os, shape=x.shape)
        same_but_ties(got, np.clip(y / np.float64(F32(os)), -1e9, 1e9) + oz, f"case {case}")


def test_dfl_softmax(rng):
    for case in range(100):
        b, a, k, n = (int(v) for v in rng.integers([1, 1, 1, 0], [3, 5, 20, 40]))
        (s, z), (os, oz) = random_quantization(rng), (float(rng.choice([1 / 256, 0.01, 1e-6])), -128)
        x = random_i8(rng, b, a, k, n)
        real = (x.astype(np.float64) - z) * np.float64(F32(s))
        e = np.exp(real - real.max(2, keepdims=True, initial=-np.inf))
        y = (e / e.sum(2, keepdims=True)).transpose(0, 2, 1, 3)
        got = run("c7x_int8_dfl_softmax", x, ..., b, a, k, n, z, s, oz, os, shape=y.shape)
        same_but_ties(got, np.clip(y / np.float64(F32(os)), -1e9, 1e9) + oz, f"case {case}")


# ---- Decoding ----


def test_dequantize_vecmatmul(rng):
    for _ in range(50):
        m, k, n = (int(v) for v in rng.integers(0, [4, 100, 30]))
        x, s = rng.normal(0, 1, (m, k)).astype(F32), rng.uniform(0.001, 1, n).astype(F32)
        w = random_i8(rng, n, k)
        got = run("c7x_dequantize_vecmatmul", x, w, s, ..., m, k, n, shape=(m, n), dtype=F32)
        size = np.abs(x.astype(np.float64)) @ np.abs(w.astype(np.float64)).T * s
        assert (np.abs(got - x.astype(np.float64) @ w.T * s) <= 1e-6 * size + 1e-30).all()


def test_sdpa_decode(rng):
    for case in range(50):
        kv, group, d, length = (int(v) for v in rng.integers([1, 1, 1, 1], [4, 4, 70, 60]))
        query = rng.normal(0, 2, (kv * group, d)).astype(F32)
        key, value = (rng.normal(0, 2, (kv, length, d)).astype(F32) for _ in range(2))
        mask = np.zeros(length, F32)
        mask[int(rng.integers(1, length + 1)):] = -np.inf if case % 2 else -3.4e38
        unused = value.copy()
        if case % 2:  # what a cache has not been filled with
            key[:, mask < 0], unused[:, mask < 0] = np.nan, np.nan
        scores = np.einsum("hd,htd->ht", query.astype(np.float64), key.repeat(group, 0)) / np.sqrt(d)
        scores = np.where(mask < 0, -np.inf, scores)
        weights = np.exp(scores - scores.max(1, keepdims=True))
        expected = np.einsum("ht,htd->hd", weights / weights.sum(1, keepdims=True), value.repeat(group, 0))
        got = run("c7x_sdpa_decode", query, key, unused, mask, ..., kv * group, kv, d, length,
                  shape=query.shape, dtype=F32)
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def test_sdpa_decode_of_nothing(rng):
    query, key = rng.normal(0, 1, (2, 4)).astype(F32), rng.normal(0, 1, (1, 3, 4)).astype(F32)
    mask = np.full(3, -np.inf, F32)
    for length in (0, 3):
        got = run("c7x_sdpa_decode", query, key, key, mask, ..., 2, 1, 4, length, shape=(2, 4), dtype=F32)
        same(got, np.zeros((2, 4), F32))


def test_topk(rng):
    for case in range(100):
        batch, n = (int(v) for v in rng.integers([0, 1], [4, 60]))
        k = int(rng.integers(0, n + 1))
        x = rng.normal(0, 1, (batch, n)).astype(F32)
        if case % 2:
            x = rng.choice(np.array([1, 2, 3, -np.inf, np.inf, np.nan], F32), (batch, n))
        order = np.argsort(np.where(np.isnan(x), 1, 0) * 1e9 - np.where(np.isnan(x), 0, np.clip(x, -9, 9)), axis=1,
                           kind="stable")[:, :k]
        values, guards_stand = output((batch, k), F32)
        indices = run("c7x_topk", x, values, ..., batch, n, k, shape=(batch, k), dtype=np.int64)
        guards_stand()
        same(indices, order, f"case {case}")
        np.testing.assert_array_equal(values, np.take_along_axis(x, order, 1))


# ---- MMALIB ----


def random_requantization(rng, channels, dtype):
    """(bias, scale, shift), each sometimes NULL, over the whole range of its type; bias stands at an odd address."""
    bias_type = np.int32 if dtype == np.int8 else np.int64
    limits = np.iinfo(bias_type)
    bits = int(rng.integers(8, limits.bits))
    bias = np.zeros(channels * limits.bits // 8 + 1, np.uint8)[1:].view(bias_type)
    bias[...] = rng.integers(-2**bits // 2, 2**bits // 2, channels)
    if channels > 1:
        bias[0] = limits.max
    scale, shift = (rng.integers(0, limit, channels).astype(np.uint8) for limit in (256, 63 if bits > 40 else 20))
    return tuple(value if rng.integers(5) else None for value in (bias, scale, shift))


def random_elements(rng, dtype, *shape):
    """Now and then the ends of the range alone."""
    limits = np.iinfo(dtype)
    if rng.integers(4) == 0:
        return rng.choice([limits.min, limits.max], shape).astype(dtype)
    return rng.integers(limits.min, limits.max + 1, shape).astype(dtype)


def matmul(rng, name, dtype, unit):
    for case in range(12):
        m, k, n = (int(v) * unit for v in rng.integers(1, 4, 3))
        a, b = aligned(random_elements(rng, dtype, m, k)), aligned(random_elements(rng, dtype, k, n))
        shift = int(rng.integers(0, 30))
        expected = requantize(a.astype(np.int64) @ b.astype(np.int64), None, None, np.full(n, shift), dtype)
        same(run(name, a, b, ..., m, k, n, shift, shape=(m, n), dtype=dtype), expected, f"case {case}")


def test_matmul_i8(rng):
    matmul(rng, "mmalib_matmul_i8", np.int8, 64)


def test_matmul_i16(rng):
    matmul(rng, "mmalib_matmul_i16", np.int16, 32)


def matmul_bias(rng, name, dtype, unit):
    for case in range(40):
        m = int(rng.integers(1, 5))
        k, n = (int(v) * unit for v in rng.integers(1, 4, 2))
        x, w = aligned(random_elements(rng, dtype, m, k)), random_elements(rng, dtype, n, k)
        bias, scale, shift = random_requantization(rng, n, dtype)
        expected = requantize(x.astype(np.int64) @ w.T.astype(np.int64), bias, scale, shift, dtype)
        same(run(name, x, w, bias, scale, shift, ..., m, k, n, shape=(m, n), dtype=dtype), expected, f"case {case}")


def test_matmul_bias_i8(rng):
    matmul_bias(rng, "mmalib_matmul_bias_i8", np.int8, 64)


def test_matmul_bias_i16(rng):
    matmul_bias(rng, "mmalib_matmul_bias_i16", np.int16, 32)


def random_conv(rng, dtype, groups=1, per_group=None, kernel=None):
    """The arguments of a convolution: x, w, (kernel, stride, pad) and the sum of each output element."""
    while True:
        h, w = (int(v) for v in rng.integers(1, [14, 150]))
        kh, kw = kernel or (int(v) for v in rng.integers(1, 6, 2))
        sh, sw = (int(v) for v in rng.integers(1, 4, 2))
        pad = [int(v) for v in rng.integers(0, 4, 4)]
        if h + pad[0] + pad[1] >= kh and w + pad[2] + pad[3] >= kw:
            break
    c_in, c_out = per_group or (int(v) for v in rng.integers(1, 5, 2))
    x = aligned(random_elements(rng, dtype, c_in * groups, h, w))
    weight = random_elements(rng, dtype, c_out * groups, c_in, kh, kw)
    return x, weight, (kh, kw, sh, sw, *pad), conv2d(x, weight, (sh, sw), pad, groups)


def convolution(rng, name, dtype):
    for case in range(60):
        x, w, geometry, sums = random_conv(rng, dtype)
        bias, scale, shift = random_requantization(rng, len(w), dtype)
        expected = requantize(sums.transpose(1, 2, 0), bias, scale, shift, dtype).transpose(2, 0, 1)
        got = run(name, x, w, bias, scale, shift, ..., *x.shape, len(w), *geometry, shape=sums.shape, dtype=dtype)
        same(got, expected, f"case {case}: {x.shape} {w.shape} {geometry}")


def test_conv2d_i8(rng):
    convolution(rng, "mmalib_conv2d_i8", np.int8)


def test_conv2d_i16(rng):
    convolution(rng, "mmalib_conv2d_i16", np.int16)


def test_conv2d_sliced(rng):
    for case in range(40):
        x, w, geometry, sums = random_conv(rng, np.int8, per_group=(2, 6))
        bias, scale, shift = random_requantization(rng, 6, np.int8)
        whole = (x, w, bias, scale, shift, ..., *x.shape, 6, *geometry)
        expected = run("mmalib_conv2d_i8", *whole, shape=sums.shape)
        out, guards_stand = output(sums.shape, np.int8)
        first = 0
        for count in (1, 3, 2):
            assert KERNELS("mmalib_conv2d_i8_sliced", x, w[first:], bias, scale, shift, out, *x.shape, count,
                           *geometry, first) == 0
            first += count
        guards_stand()
        same(out, expected, f"case {case}")


def test_conv2d_grouped(rng):
    for case in range(40):
        groups = int(rng.integers(1, 5))
        x, w, geometry, sums = random_conv(rng, np.int8, groups)
        bias, scale, shift = (np.ones(len(w), kind) if value is None else value for value, kind in
                              zip(random_requantization(rng, len(w), np.int8), (np.int32, np.uint8, np.uint8)))
        expected = requantize(sums.transpose(1, 2, 0), bias, scale, shift, np.int8).transpose(2, 0, 1)
        got = run("mmalib_conv2d_i8_grouped_loop", x, w, bias, scale, shift, ..., *x.shape, len(w), *geometry, groups,
                  shape=sums.shape)
        same(got, expected, f"case {case}")


def depthwise(rng, name, dtype, kernel):
    for case in range(40):
        channels = int(rng.integers(1, 9))
        x, w, geometry, sums = random_conv(rng, dtype, channels, (1, 1), kernel)
        bias, scale, shift = random_requantization(rng, channels, dtype)
        expected = requantize(sums.transpose(1, 2, 0), bias, scale, shift, dtype).transpose(2, 0, 1)
        got = run(name, x, w, bias, scale, shift, ..., *x.shape, *geometry, channels, shape=sums.shape, dtype=dtype)
        same(got, expected, f"case {case}")


def test_depthwise_i8(rng):
    depthwise(rng, "mmalib_depthwise_conv2d_i8", np.int8, None)


def test_depthwise_i16(rng):
    depthwise(rng, "mmalib_depthwise_conv2d_i16", np.int16, (3, 3))


# ---- The header ----


def test_header_is_c99_and_cpp(_):
    """Alone, without a warning, and with a declaration for every kernel of this file."""
    text = (ROOT / "include/c7x_kernels.h").read_text()
    assert all(f" {name}(" in text for name in SIGNATURES)
    for compiler, standard in (("gcc", "c99"), ("clang", "c99"), ("g++", "c++14"), ("clang++", "c++17")):
        if not shutil.which(compiler):
            continue
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / ("x.cpp" if "+" in standard else "x.c")
            source.write_text("#include <c7x_kernels.h>\ntypedef int not_empty;\n")
            done = subprocess.run([compiler, f"-std={standard}", "-Wall", "-Wextra", "-Wpedantic", "-Werror",
                                   f"-I{ROOT / 'include'}", "-fsyntax-only", str(source)], text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
        assert done.returncode == 0, done.stdout


def test_every_kernel_was_called(_):
    assert KERNELS.called == set(SIGNATURES), sorted(set(SIGNATURES) - KERNELS.called)


def main():
    global KERNELS
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build", help="the build folder (default: build)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", help="run this test alone")
    options = parser.parse_args()
    KERNELS = Kernels((ROOT / options.build).resolve() / "tests/libc7x_kernels_test.so")
    passed = failed = 0
    for name, test in [(name, test) for name, test in globals().items() if name.startswith("test_")]:
        if options.only not in (None, name):
            continue
        try:
            test(np.random.default_rng(options.seed))
            passed += 1
        except Exception:  # the next test runs all the same
            failed += 1
            print(f"FAIL {name} (seed {options.seed})\n{traceback.format_exc()}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
