# SPDX-License-Identifier: Apache-2.0
"""iree as a peer: llvm-cpu for this processor, run by the synchronous local device, which has one thread."""

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import iree.runtime as runtime

import peer_child

FLAGS = ["--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu",
         "--iree-llvmcpu-target-cpu=host", "--iree-opt-level=O3"]


class Iree:
    processes = [os.getpid()]
    version = version("iree-base-runtime") + " llvm-cpu"
    compiled = "iree.vmfb"

    def __init__(self):
        self._config = runtime.Config("local-sync")

    def compile(self, folder):
        mlir = folder / "iree.mlir"
        _run("iree-import-onnx", folder / "model.onnx", "--opset-version", "17", "-o", mlir)
        _run("iree-compile", mlir, *FLAGS, "-o", folder / self.compiled)

    def load(self, path, inputs):
        context = runtime.SystemContext(config=self._config)
        context.add_vm_module(runtime.VmModule.mmap(context.instance, str(path)))
        main = context.modules.module["main"]
        arrays = [runtime.asdevicearray(self._config.device, array) for array in inputs]
        return lambda: main(*arrays)

    def arrays(self, result):
        return [array.to_host() for array in (result if isinstance(result, (list, tuple)) else [result])]


def _run(program, *words):
    """A program of the package; raises RuntimeError with the first error that it prints."""
    done = subprocess.run([Path(sys.executable).with_name(program), *words], stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        lines = done.stderr.splitlines()
        raise RuntimeError(next((line.partition("error: ")[2] for line in lines if "error: " in line), lines[-1:]))


if __name__ == "__main__":
    peer_child.main(Iree())
