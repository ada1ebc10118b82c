# SPDX-License-Identifier: Apache-2.0
"""Which template computes an operator, chosen by shape, and the weights in the form that it wants."""

from dataclasses import dataclass, replace

import numpy as np

BLOCK = 16  # columns of a packed block (gemm.h)
_ROWS_MULTIPLE = 24
_PATCH_FLOATS = 65536  # of the patches at a time: 256 KB
_WINOGRAD_FLOATS = 55296  # of the transformed inputs at a time: 216 KB
_WINOGRAD_GAP = 16
_DIRECT_CHANNELS_MAX = 64
_TILE_ROWS = {1: 12, 2: 12, 3: 8, 4: 6}  # of the widest vectors, by blocks of a tile
# By size of the tile: the transform of a 3-vector of weights to the points of F(tile, 3).
_WINOGRAD_WEIGHTS = {
    2: np.array([[1, 0, 0], [1 / 2, 1 / 2, 1 / 2], [1 / 2, -1 / 2, 1 / 2], [0, 0, 1]]),
    4: np.array(
        [
            [1 / 4, 0, 0],
            [-1 / 6, -1 / 6, -1 / 6],
            [-1 / 6, 1 / 6, -1 / 6],
            [1 / 24, 1 / 12, 1 / 6],
            [1 / 24, -1 / 12, 1 / 6],
            [0, 0, 1],
        ]
    ),
}
# What the choice weighs, measured on one core with 512-bit vectors; only the ratios matter.
_FLOP_PER_US = 250e3
_WEIGHT_BYTES_PER_US = 30e3
_TRANSFORMED_PER_US = 14400  # floats that become points, or come from them
_WINOGRAD_MARGIN = 0.9


@dataclass(frozen=True)
class Convolution:
    """Shape of a convolution in NHWC, channels of all groups together. pads: top, left (what lies right
    and below follows); groups: 1 with depthwise."""

    batch: int
    height: int
    width: int
    channels: int
    kernel: tuple
    strides: tuple
    pads: tuple
    out_height: int
    out_width: int
    out_channels: int
    depthwise: bool = False
    dilations: tuple = (1, 1)
    groups: int = 1

    @property
    def pixels(self):
        return self.out_height * self.out_width

    @property
    def depth(self):
        """Products of one output."""
        taps = self.kernel[0] * self.kernel[1]
        return taps if self.depthwise else taps * self.channels // self.groups

    @property
    def padded_extents(self):
        """Height and width that the patches of all outputs cover."""
        return tuple(
            (out - 1) * stride + (kernel - 1) * dilation + 1
            for out, stride, kernel, dilation in zip(
                (self.out_height, self.out_width), self.strides, self.kernel, self.dilations
            )
        )

    @property
    def needs_padding(self):
        covered = self.padded_extents
        return any(self.pads) or covered[0] > self.height or covered[1] > self.width


@dataclass(frozen=True)
class Product:
    """Rows of `depth` floats times a matrix [depth, columns]; images: how many such products."""

    rows: int
    depth: int
    columns: int
    images: int = 1


@dataclass(frozen=True)
class Choice:
    """template: file of data/templates; function and arguments: its call, up to the data; images: calls
    of it, in_size and out_size floats apart; weights: flat array, or None for a variable or none,
    weights_size apart for each group, or image if there is one; scratch: floats; why: for the user; flop,
    bytes: of the operator as it stands in the model, bytes of weights as they are packed; groups: calls
    for each image, group_in and group_out floats apart; inputs: tensors that it reads, weights included;
    steps: that follow each other in each call."""

    template: str
    function: str
    arguments: tuple
    images: int
    in_size: int
    out_size: int
    weights: np.ndarray
    scratch: int
    why: str
    flop: int
    bytes: int
    weights_size: int = 0
    groups: int = 1
    group_in: int = 0
    group_out: int = 0
    inputs: int = 2
    steps: int = 1

    @property
    def expected_us(self):
        """On one thread, at what the choice assumes of a core."""
        return max(self.flop / _FLOP_PER_US, self.bytes / _WEIGHT_BYTES_PER_US)


def pack(weight):
    """[depth, columns] -> flat [ceil(columns / 16)][depth][16], padded with zeros."""
    depth, columns = weight.shape
    blocks = -(-columns // BLOCK)
    padded = np.zeros((depth, blocks * BLOCK), np.float32)
    padded[:, :columns] = weight
    return padded.reshape(depth, blocks, BLOCK).transpose(1, 0, 2).ravel()


def pack_winograd(weight, tile):
    """[3, 3, channels, columns] -> for each point a packed matrix [channels, columns], flat."""
    form = _WINOGRAD_WEIGHTS[tile]
    transformed = np.einsum("ia,abco,jb->ijco", form, weight.astype(np.float64), form)
    matrices = transformed.reshape(-1, *weight.shape[2:]).astype(np.float32)
    return np.concatenate([pack(matrix) for matrix in matrices])


def choose_product(shape, weight):
    """The Choice for a Product; weight: [depth, columns]."""
    return _gemm(shape, weight, shape.depth, "a product with constant weights")


def choose_variable_product(shape):
    """The Choice for a Product of two variables."""
    in_size, out_size = shape.rows * shape.depth, shape.rows * shape.columns
    weights_size = shape.depth * shape.columns
    return Choice(
        "product.h",
        "product",
        (shape.rows, shape.columns, shape.depth),
        shape.images,
        in_size,
        out_size,
        None,
        -(-shape.columns // BLOCK) * BLOCK * shape.depth,
        "a product of two variables",
        2 * shape.images * in_size * shape.columns,
        4 * shape.images * (in_size + out_size + weights_size),
        weights_size,
        steps=2,
    )


def choose_convolution(shape, weight):
    """The Choice for a Convolution. weight: [rows, columns, channels (1 when depthwise), out channels]."""
    if shape.depthwise:
        return _depthwise(shape, weight)
    if shape.groups > 1:
        return _groups(shape, weight)
    matrix = weight.reshape(shape.depth, shape.out_channels)
    if shape.dilations != (1, 1):
        return _im2col(shape, matrix, "dilated")
    if not shape.needs_padding:
        rows, stride = shape.batch * shape.pixels, shape.channels
        product = Product(rows, shape.depth, shape.out_channels)
        if shape.kernel == (1, 1) and shape.strides == (1, 1):
            return _gemm(product, matrix, stride, "1x1: the image is the matrix")
        for along, across in ((1, 0), (0, 1)):
            # Of an image of one row or column the patches lie in order, each a row of the matrix.
            extents = shape.height, shape.width
            if shape.batch == extents[across] == shape.kernel[across] == 1:
                stride *= shape.strides[along]
                return _gemm(product, matrix, stride, "one dimension: the matrix's rows overlap")
    if _fits_winograd(shape):
        winograd, tile = min((_winograd_us(shape, tile), tile) for tile in _WINOGRAD_WEIGHTS)
        plain = _plain_us(shape)
        if winograd < _WINOGRAD_MARGIN * plain:
            why = f"3x3 by tiles of {tile}x{tile}: {winograd:.0f} us expected, {plain:.0f} without"
            return _winograd(shape, weight, tile, why)
    if shape.out_channels <= _DIRECT_CHANNELS_MAX:
        return _direct(shape, matrix, f"at most {_DIRECT_CHANNELS_MAX} output channels")
    return _im2col(shape, matrix, "any other convolution")


def choose_softmax(rows, columns):
    """The Choice for a softmax over the columns of each row. flop: of an exponential as one."""
    size, why = rows * columns, "over the last dimension"
    return Choice(
        *("softmax.h", "softmax", (rows, columns), 1, size, size, None, 0, why, 5 * size, 8 * size),
        inputs=1,
    )


def choose_layer_norm(rows, scale, shift, epsilon):
    """The Choice for a layer normalisation of rows, each of as many columns as there are scales."""
    size = rows * scale.size
    weights = np.concatenate([scale, shift]).astype(np.float32)
    arguments = (rows, scale.size, float(epsilon))
    why, moved = "over the last dimension", 4 * (2 * size + weights.size)
    return Choice(
        *("layernorm.h", "layernorm", arguments, 1, size, size, weights, 0, why, 7 * size, moved)
    )


def choose_max_pool(shape):
    """The Choice for the highest values of windows, whose shape is a depthwise Convolution's."""
    in_size = shape.height * shape.width * shape.channels
    out_size = shape.pixels * shape.channels
    flop, moved = shape.batch * out_size * shape.depth, 4 * shape.batch * (in_size + out_size)
    return Choice(
        *("pool.h", "max_pool", tuple(_geometry(shape)), shape.batch, in_size, out_size, None, 0),
        *("the highest of each window", flop, moved),
        inputs=1,
    )


def choose_deconvolution(shape, weight):
    """The Choice for a transposed convolution whose stride is its kernel. shape: of the data, NHWC;
    weight: [channels, out channels, rows, columns]."""
    batch, height, width, channels = shape
    _, count, rows, columns = weight.shape
    matrices = [
        weight[:, :, row].transpose(0, 2, 1).reshape(channels, columns * count)
        for row in range(rows)
    ]
    weights = np.concatenate([pack(matrix) for matrix in matrices])
    in_size, out_size = height * width * channels, height * rows * width * columns * count
    return Choice(
        "deconvolution.h",
        "deconvolution",
        (height, width, channels, rows, columns, count),
        batch,
        in_size,
        out_size,
        weights,
        0,
        "the stride is the kernel: a product for each kernel row",
        2 * batch * out_size * channels,
        4 * (batch * (in_size + out_size) + weights.size),
    )


def _fits_winograd(shape):
    return (
        shape.kernel == (3, 3)
        and shape.strides == (1, 1)
        and min(shape.channels, shape.out_channels) >= 16
        and min(shape.out_height, shape.out_width) >= 4
    )


def _winograd_tiles(shape, tile):
    return -(-shape.out_height // tile) * -(-shape.out_width // tile)


def _winograd_us(shape, tile):
    tiles, channels = _winograd_tiles(shape, tile), shape.channels * shape.out_channels
    points = (tile + 2) ** 2
    transforms = points * tiles * (shape.channels + shape.out_channels) / _TRANSFORMED_PER_US
    products = 2 * points * tiles * channels / _FLOP_PER_US
    return products + transforms + 4 * points * channels / _WEIGHT_BYTES_PER_US


def _plain_us(shape):
    weights = shape.depth * shape.out_channels
    return max(2 * shape.pixels * weights / _FLOP_PER_US, 4 * weights / _WEIGHT_BYTES_PER_US)


def _gemm(shape, weight, row_stride, why):
    packed = pack(weight)
    flop = 2 * shape.rows * shape.depth * shape.columns
    moved = 4 * (shape.rows * (row_stride + shape.columns) + packed.size)
    arguments = (shape.rows, shape.columns, shape.depth, row_stride)
    return Choice("gemm.h", "gemm", arguments, 1, 0, 0, packed, 0, why, flop, moved)


def _of_images(shape, template, function, arguments, weights, scratch, why):
    in_size = shape.height * shape.width * shape.channels
    out_size = shape.pixels * shape.out_channels
    flop = 2 * shape.batch * out_size * shape.depth
    moved = 4 * (shape.batch * (in_size + out_size) + weights.size)
    return Choice(
        template,
        function,
        tuple(arguments),
        shape.batch,
        in_size,
        out_size,
        weights,
        scratch,
        why,
        flop,
        moved,
    )


def _geometry(shape):
    return [
        *(shape.height, shape.width, shape.channels),
        *(*shape.kernel, *shape.strides, *shape.pads),
        *(shape.out_height, shape.out_width),
    ]


def _depthwise(shape, weight):
    arguments = [*_geometry(shape), *shape.dilations]
    why = "one filter a channel"
    return _of_images(shape, "depthwise.h", "depthwise", arguments, weight.ravel(), 0, why)


def _groups(shape, weight):
    """Groups of fewer output channels than a block are merged, with zeros between them: a block computes
    all its columns anyway."""
    width = shape.out_channels // shape.groups
    fit = max(n for n in range(1, max(BLOCK // width, 1) + 1) if shape.groups % n == 0)
    merged = replace(shape, groups=shape.groups // fit)
    matrix = _merge(weight, shape.groups, fit).reshape(merged.depth, shape.out_channels)
    why = f"{shape.groups} groups" + (f", {fit} of them as one" if fit > 1 else "")
    direct = shape.dilations == (1, 1) and fit * width <= _DIRECT_CHANNELS_MAX
    choice = (_direct if direct else _im2col)(merged, matrix, why)
    return replace(choice, flop=2 * shape.batch * shape.pixels * shape.out_channels * shape.depth)


def _merge(weight, groups, count):
    """[rows, columns, channels of a group, out channels] with `count` groups in the place of one."""
    inputs, outputs = weight.shape[2], weight.shape[3] // groups
    parts = weight.reshape(*weight.shape[:3], groups // count, count, outputs)
    merged = np.zeros(
        (*weight.shape[:2], count, inputs, groups // count, count, outputs), np.float32
    )
    for each in range(count):
        merged[:, :, each, :, :, each] = parts[:, :, :, :, each]
    return merged.reshape(*weight.shape[:2], count * inputs, groups * outputs)


def _direct(shape, matrix, why):
    channels, count = shape.channels // shape.groups, shape.out_channels // shape.groups
    height, width = shape.padded_extents
    copies = shape.needs_padding or shape.groups > 1
    most = _TILE_ROWS[min(-(-count // BLOCK), 4)]
    whole = [n for n in range(most, most // 2 - 1, -1) if shape.out_width % n == 0]
    wish = whole[0] if whole else min(most, shape.out_width)
    arguments = [wish, *_group_geometry(shape), count, shape.out_channels]
    scratch, steps = (height * width * channels, 2) if copies else (0, 1)
    return _of_groups(shape, "convolution_direct", arguments, matrix, scratch, steps, why)


def _im2col(shape, matrix, why):
    block = _patch_rows(shape)
    arguments = [block, *_group_geometry(shape), *shape.dilations]
    arguments += [shape.out_channels // shape.groups, shape.out_channels]
    scratch, steps = min(block, shape.pixels) * shape.depth, 2 * -(-shape.pixels // block)
    return _of_groups(shape, "convolution_im2col", arguments, matrix, scratch, steps, why)


def _patch_rows(shape):
    """Patches at a time; the last block shall not be much smaller than the others."""
    wish = (_PATCH_FLOATS // shape.depth // _ROWS_MULTIPLE + 1) * _ROWS_MULTIPLE
    blocks = max(1, round(shape.pixels / wish))
    return -(-shape.pixels // blocks // _ROWS_MULTIPLE) * _ROWS_MULTIPLE


def _group_geometry(shape):
    height, width, channels, *rest = _geometry(shape)
    return [height, width, channels // shape.groups, channels, *rest]


def _of_groups(shape, function, arguments, matrix, scratch, steps, why):
    """A function of convolution.h, called for each group; matrix: of all groups' columns."""
    packed = [pack(part) for part in np.split(matrix, shape.groups, axis=1)]
    choice = _of_images(
        shape, "convolution.h", function, arguments, np.concatenate(packed), scratch, why
    )
    if shape.groups == 1:
        return replace(choice, steps=steps)
    return replace(
        choice,
        steps=steps,
        weights_size=packed[0].size,
        groups=shape.groups,
        group_in=shape.channels // shape.groups,
        group_out=shape.out_channels // shape.groups,
    )


def _winograd(shape, weight, tile, why):
    tiles, points = _winograd_tiles(shape, tile), (tile + 2) ** 2
    blocks = max(1, round(tiles * points * shape.channels / _WINOGRAD_FLOATS))
    block = -(-tiles // blocks)
    padded = -(-shape.out_channels // BLOCK) * BLOCK
    scratch = points * (block * (shape.channels + padded) + 2 * _WINOGRAD_GAP)
    arguments = [
        *(tile, block, shape.height, shape.width, shape.channels, *shape.pads),
        *(shape.out_height, shape.out_width, shape.out_channels),
    ]
    weights = pack_winograd(weight, tile)
    choice = _of_images(
        shape, "winograd.h", "convolution_winograd", arguments, weights, scratch, why
    )
    return replace(choice, steps=3 * -(-tiles // block))
