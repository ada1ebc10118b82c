# SPDX-License-Identifier: Apache-2.0
"""What the kernels compute, in numpy: int8 with scale and zero point, windows, convolution, requantisation."""
import math

import numpy as np

F32 = np.float32
# (scale, zero point): ordinary ones, ties of halves, both ends of the zero point, tiny and huge scales.
QUANTIZATIONS = [(0.05, 3), (1.0, 0), (0.5, -128), (2.0, 127), (1 / 127, -1), (1e-30, 7), (1e30, -128), (3e38, 127),
                 (1e-5, 0)]


def round_away(value):
    """To nearest, halves away from zero; NaN is 0. In float64, where adding a half to a float32 is exact."""
    wide = np.nan_to_num(np.asarray(value, np.float64), nan=0.0, posinf=1e9, neginf=-1e9)
    return np.sign(wide) * np.floor(np.abs(wide) + 0.5)


def dq(x, scale, zero):
    with np.errstate(all="ignore"):
        return (x.astype(np.int32) - zero).astype(F32) * F32(scale)


def q(y, scale, zero):
    """y is float32."""
    assert y.dtype == F32
    with np.errstate(all="ignore"):
        return np.clip(round_away(y / F32(scale)) + zero, -128, 127).astype(np.int8)


def sigmoid(x):
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-x))


def silu(x):
    gate = sigmoid(x)
    return np.multiply(x, gate, out=np.zeros_like(x), where=gate > 0)


def erfc(x):
    return np.vectorize(math.erfc, otypes=[np.float64])(x)


def pool_windows(x, sizes, padding):
    """[N, C, out_h, out_w, kernel_h, kernel_w] of int8 input [N, C, H, W]; beyond the input there is padding."""
    n, c, h, w, oh, ow, kh, kw, sh, sw, ph, pw = sizes
    padded = np.full((n, c, ph + h + oh * sh + kh, pw + w + ow * sw + kw), padding, np.int8)
    padded[:, :, ph:ph + h, pw:pw + w] = x
    windows = np.lib.stride_tricks.sliding_window_view(padded, (kh, kw), (2, 3))
    return windows[:, :, :oh * sh:sh, :ow * sw:sw]


def conv2d(x, weight, stride, pad, groups):
    """Exact sums, int64 [out_channels, out_h, out_w]."""
    top, bottom, left, right = pad
    padded = np.pad(x.astype(np.int64), ((0, 0), (top, bottom), (left, right)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, weight.shape[2:], (1, 2))
    windows = windows[:, ::stride[0], ::stride[1]].reshape(groups, weight.shape[1], -1, *weight.shape[2:])
    per_group = weight.astype(np.int64).reshape(groups, -1, *weight.shape[1:])
    sums = np.einsum("gcphw,gochw->gop", windows, per_group)
    height, width = (padded.shape[1] - weight.shape[2]) // stride[0] + 1, \
                    (padded.shape[2] - weight.shape[3]) // stride[1] + 1
    return sums.reshape(len(weight), height, width)


def requantize(sums, bias, scale, shift, dtype):
    """saturate((sum + bias) * scale >> shift) over the last axis, with Python's integers and int64 saturation."""
    limits, wide = np.iinfo(dtype), np.iinfo(np.int64)
    out = np.empty(sums.shape, dtype)
    for index in np.ndindex(*sums.shape):
        channel = index[-1]
        value = int(sums[index]) + (0 if bias is None else int(bias[channel]))
        value = max(wide.min, min(wide.max, value)) * (1 if scale is None else int(scale[channel]))
        value = max(wide.min, min(wide.max, value))
        places = 0 if shift is None else int(shift[channel])
        if places:
            value = (value + (1 << (places - 1))) >> places
        out[index] = max(limits.min, min(limits.max, value))
    return out
