# SPDX-License-Identifier: Apache-2.0
"""Ours as a peer: the module beside model.onnx, on the shared emulator that $C7X_DEVICE names and that runs already."""

import json
import os
import subprocess
from importlib.metadata import version

import peer_child
from c7x_compute import C7xVirtualMachine


class Ours:
    compiled = "lib0.out"

    def __init__(self):
        status = subprocess.run([os.environ["C7X_COMPUTE"], "emulator", "status", "--json"], check=True,
                                stdout=subprocess.PIPE).stdout
        emulator = json.loads(status)
        self.processes = [os.getpid(), emulator["pid"], emulator["core_pid"]]
        self.version = version("c7x_compute")

    def compile(self, folder):
        """c7x-compile has made it."""

    def load(self, path, inputs):
        machine = C7xVirtualMachine(path)
        return lambda: machine.run(*inputs)

    def arrays(self, result):
        return result if isinstance(result, (list, tuple)) else [result]


if __name__ == "__main__":
    peer_child.main(Ours())
