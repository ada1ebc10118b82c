# SPDX-License-Identifier: Apache-2.0
"""executorch as a peer: the model by way of onnx2torch and torch.export, what XNNPACK takes lowered to it, one thread."""

import operator
import os
from importlib.metadata import version

import onnx
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower
from executorch.extension.pybindings import portable_lib
from executorch.runtime import Runtime
from onnx2torch import convert
from torch.fx.passes.shape_prop import ShapeProp

import numpy as np
import peer_child


class ExecuTorch:
    processes = [os.getpid()]
    version = version("executorch") + " XNNPACK"
    compiled = "executorch.pte"

    def __init__(self):
        self._runtime = Runtime.get()
        portable_lib._unsafe_reset_threadpool(1)

    def compile(self, folder):
        inputs = tuple(torch.from_numpy(np.load(path)) for path in sorted(folder.glob("input*.npy")))
        exported = torch.export.export(_torch_model(folder / "model.onnx", inputs), inputs)
        program = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
        (folder / self.compiled).write_bytes(program.to_executorch().buffer)

    def load(self, path, inputs):
        method = self._runtime.load_program(path).load_method("forward")
        tensors = [torch.from_numpy(array) for array in inputs]
        return lambda: method.execute(tensors)

    def arrays(self, result):
        return [tensor.numpy() for tensor in result]


def _reshape(model, node, shape):
    return torch.reshape, (node.args[0], list(shape)), {}


def _resize(model, node, shape):
    mode = model.get_submodule(node.target).onnx_mode
    return torch.nn.functional.interpolate, node.args[:1], {"size": list(shape[2:]), "mode": mode}


def _slice(model, node, shape):
    starts, ends, axes, *steps = (model.get_buffer(argument.target).tolist() for argument in node.args[1:])
    slices = [slice(None)] * len(shape)
    for axis, *borders in zip(axes, starts, ends, *steps):
        slices[axis] = slice(*borders)
    return operator.getitem, (node.args[0], tuple(slices)), {}


# Modules of onnx2torch whose further arguments are constants: gives the function, arguments and keywords of the same.
CONSTANT_SHAPES = {"OnnxReshape": _reshape, "OnnxResize": _resize, "OnnxSlice": _slice}


def _torch_model(path, inputs):
    """The model as torch.export can take it: onnx2torch computes constant shapes while it runs, so they are put in."""
    model = convert(onnx.load(path)).eval()
    for tensor in [*model.parameters(), *model.buffers()]:
        tensor.data = tensor.data.clone(memory_format=torch.contiguous_format)  # executorch takes no repeated elements
    with torch.no_grad():
        ShapeProp(model).propagate(*inputs)
    for node in model.graph.nodes:
        kind = type(model.get_submodule(node.target)).__name__ if node.op == "call_module" else ""
        if kind in CONSTANT_SHAPES:
            node.op = "call_function"
            node.target, node.args, node.kwargs = CONSTANT_SHAPES[kind](model, node, node.meta["tensor_meta"].shape)
    model.recompile()
    return model


if __name__ == "__main__":
    peer_child.main(ExecuTorch())
