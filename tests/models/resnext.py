# SPDX-License-Identifier: Apache-2.0
"""ResNeXt-50 (32x4d) with random weights: no package ships a model with convolutions of many small groups.

The network of Xie et al., "Aggregated Residual Transformations for Deep Neural Networks", 2017, table 1, as
frameworks export it: batch normalisation is part of the convolutions.
"""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_GROUPS = 32
_STAGES = ((3, 128, 256), (4, 256, 512), (6, 512, 1024), (3, 1024, 2048))  # blocks, within, out
_CLASSES = 1000
_SEED = 50


def generate(path):
    """Writes the model to a file unless it is there and newer than this one. Returns the path."""
    path = Path(path)
    if not path.exists() or path.stat().st_mtime < Path(__file__).stat().st_mtime:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(".part")
        onnx.save(_Network().model(), temporary)
        temporary.replace(path)
    return path


class _Network:
    def __init__(self):
        self._generator = np.random.default_rng(_SEED)
        self._nodes, self._weights = [], []

    def model(self):
        value = self._convolution("stem", "x", 3, 64, 7, stride=2)
        value = self._add(
            "MaxPool", [value], "pool", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4
        )
        channels = 64
        for stage, (blocks, within, out) in enumerate(_STAGES):
            for block in range(blocks):
                stride = 2 if stage > 0 and block == 0 else 1
                name = f"stage{stage + 1}.{block}"
                value = self._block(name, value, channels, within, out, stride)
                channels = out
        value = self._add("GlobalAveragePool", [value], "mean")
        value = self._add("Flatten", [value], "flat")
        weight = self._weight("classes.weight", (channels, _CLASSES), channels)
        bias = self._weight("classes.bias", (_CLASSES,), 100)
        self._add("Gemm", [value, weight, bias], "y")
        graph = helper.make_graph(
            self._nodes,
            "resnext50_32x4d",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 3, 224, 224))],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, _CLASSES))],
            self._weights,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    def _block(self, name, value, channels, within, out, stride):
        inner = self._convolution(f"{name}.reduce", value, channels, within, 1)
        inner = self._convolution(f"{name}.grouped", inner, within, within, 3, stride, _GROUPS)
        inner = self._convolution(
            f"{name}.expand", inner, within, out, 1, activation=False, gain=0.5
        )
        if channels != out:
            value = self._convolution(
                f"{name}.shortcut", value, channels, out, 1, stride, activation=False, gain=1.0
            )
        return self._add("Relu", [self._add("Add", [inner, value], f"{name}.sum")], name)

    def _convolution(
        self, name, value, channels, out, kernel, stride=1, groups=1, activation=True, gain=2.0
    ):
        shape = (out, channels // groups, kernel, kernel)
        weight = self._weight(f"{name}.weight", shape, np.prod(shape[1:]) / gain)
        bias = self._weight(f"{name}.bias", (out,), 100)
        result = self._add(
            "Conv",
            [value, weight, bias],
            name,
            group=groups,
            kernel_shape=[kernel, kernel],
            strides=[stride, stride],
            pads=[kernel // 2] * 4,
        )
        return self._add("Relu", [result], f"{name}.relu") if activation else result

    def _weight(self, name, shape, divisor):
        array = self._generator.standard_normal(shape, np.float32) / np.sqrt(np.float32(divisor))
        self._weights.append(numpy_helper.from_array(array, name))
        return name

    def _add(self, kind, inputs, output, **attributes):
        self._nodes.append(helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output
